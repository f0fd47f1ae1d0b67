package ui

import (
	"testing"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestUIOperate rotates certificates and upgrades the agents with the menu of the page. The page shows which machines
// restart before that, and follows both. A viewer cannot choose either.
func TestUIOperate(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true})
	namespace := plane.Namespace(t)
	st.Cluster(namespace, "demo", stage.K3s, stage.Pool("server", "ecw", 1))
	plane.Until(t, clusterTime, func() string { return st.WaitingFor(namespace, "demo") })
	env := map[string]string{"URL": st.URL, "TOKEN": administrator(t, namespace), "NAMESPACE": namespace,
		"VIEWER": viewer(t, namespace, "viewer")}
	browse(t, "operate", env, nil)
}
