package clusterregistrationtoken

import mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"

// Rehearse runs the handler once for a token. With Deps from a stage (package rehearsal), it only lists what it would
// write.
func Rehearse(d Deps, token *mgmtv3.ClusterRegistrationToken) error {
	_, err := newHandler(d).onChange("", token)
	return err
}
