package ui

import (
	"testing"

	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestUIAccessible opens each page in the light and in the dark scheme and at 360 pixels, with a cluster that is ready
// and one whose machine fails. Axe finds nothing serious, nothing is wider than the window, and the keyboard reaches
// the table of clusters.
func TestUIAccessible(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true, Machines: func(o *fakeagent.Options) { o.Faults = brokenInstall{} }})
	namespace := plane.Namespace(t)
	st.Cluster(namespace, "good", stage.K3s, stage.Pool("server", "ecw", 1))
	st.Cluster(namespace, "broken", stage.K3s, stage.Pool("server", "ecw", 1))
	plane.Until(t, clusterTime, func() string { return st.WaitingFor(namespace, "good") })
	browse(t, "accessible", map[string]string{"URL": st.URL, "TOKEN": administrator(t, namespace),
		"VIEWER": viewer(t, namespace, "viewer"), "NAMESPACE": namespace}, nil)
}
