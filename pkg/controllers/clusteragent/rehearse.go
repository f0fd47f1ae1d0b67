package clusteragent

import (
	"context"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// Rehearse runs the handler once for a cluster. With Deps from a stage (package rehearsal) and without a tunnel, it
// only lists what it would write.
func Rehearse(ctx context.Context, d Deps, cluster *provv1.Cluster) error {
	_, err := newHandler(ctx, d).onChange("", cluster)
	return err
}
