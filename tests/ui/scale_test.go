package ui

import (
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestUIScale scales a pool from one machine to three with the form, and back. The page shows the machines without a
// reload. The preview of a smaller pool names the machine that leaves.
func TestUIScale(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true})
	namespace := plane.Namespace(t)
	st.Cluster(namespace, "demo", stage.K3s, stage.Pool("server", "ec", 1), stage.Pool("worker", "w", 1))
	plane.Until(t, clusterTime, func() string { return st.WaitingFor(namespace, "demo") })
	st.AwaitMachines(namespace, 2)
	env := map[string]string{"URL": st.URL, "TOKEN": administrator(t, namespace), "NAMESPACE": namespace}
	browse(t, "scale", env, steps{
		"machines": func() string { return strings.Join(machinesOf(t, st, namespace), " ") },
		"settled": func() string {
			plane.Until(t, clusterTime, func() string { return st.WaitingFor(namespace, "demo") })
			return ""
		},
	})
}

// machinesOf returns the names of the machines of a namespace, sorted.
func machinesOf(t *testing.T, st *stage.Stage, namespace string) []string {
	t.Helper()
	machines := &clusterv1.MachineList{}
	check(t, st.Client.List(t.Context(), machines, client.InNamespace(namespace)))
	var names []string
	for i := range machines.Items {
		names = append(names, machines.Items[i].Name)
	}
	slices.Sort(names)
	return names
}
