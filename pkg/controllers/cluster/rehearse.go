package cluster

import (
	"context"
	"time"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// Rehearse runs the handler once for a cluster. With Deps from a stage (package rehearsal), it only lists what it would
// write.
func Rehearse(ctx context.Context, d Deps, cluster *provv1.Cluster) error {
	h := newHandler(ctx, d)
	h.began = time.Time{} // the time for agents to reconnect counts as passed
	_, err := h.onChange("", cluster)
	return err
}
