package diagnose

import (
	"bytes"
	"strings"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// TestReport_Sentence: the first line of a report has the sentence of the condition that reports the same problem.
func TestReport_Sentence(t *testing.T) {
	const spec = `spec.cloudCredentialSecretName: Not found: "cloud": no Secret cloud, which pools a, b use; create it`
	invalid := func(w *World) { refused(w, condition("RKECluster", "False", "InvalidSpec", spec)) }
	unhosted := func(w *World, ready rkev1.GenericCondition) *Machine {
		m := w.of("w-1")
		m.unhosted()
		m.Job, m.Host.Status.Conditions = nil, []rkev1.GenericCondition{ready}
		return m
	}
	for name, tc := range map[string]struct {
		breaks func(*World)
		want   string
	}{
		"nothing":            {func(*World) {}, "OK"},
		"another spec":       {invalid, "Broken: " + spec},
		"missing credential": {func(w *World) { invalid(w); w.Credentials[0].Exists = false }, "Broken: " + spec},
		"missing driver":     {func(w *World) { invalid(w); w.Drivers[0].Driver = nil }, "Broken: " + spec},
		"inactive driver": {func(w *World) { invalid(w); w.Drivers[0].Driver.Spec.Active = false },
			"Broken: " + spec},
		"missing provider": {func(w *World) { invalid(w); w.MissingProviders = []string{"a.b"} }, "Broken: " + spec},
		"provider of an existing cluster": {func(w *World) {
			w.MissingProviders = []string{"a.b"}
			w.Cluster.Status.Conditions = append(w.Cluster.Status.Conditions,
				condition("ConfigurationUnderstood", "False", "SafeValueUsed", "to be corrected: spec.a"))
		}, "Broken: to be corrected: spec.a"},
		"a link without a condition": {func(w *World) { w.Drivers[0].Driver = nil },
			"Broken: NodeDriver sim: the driver does not exist"},
		"failed host": {func(w *World) {
			m := unhosted(w, condition("Ready", "False", "CreateError", "Creating w-1 failed: a\npassword: hunter2"))
			m.Host.Status.FailureReason, m.Host.Status.FailureMessage = "CreateError", "a\npassword: hunter2"
		}, "Broken: Creating w-1 failed: a password: ***"},
		"host after failures": {func(w *World) {
			unhosted(w, condition("Ready", "False", "BackOff", "it waits: no quota"))
		},
			"Broken: it waits: no quota"},
		"imported cluster": {func(w *World) {
			invalid(w)
			w.Cluster.Spec.RKEConfig, w.Drivers, w.Cluster.Status.ClusterName = nil, nil, "c-m-demo"
			w.Management = healthy().Management
			w.Cluster.CreationTimestamp = at(noon)
			w.Cluster.Status.Conditions = []rkev1.GenericCondition{condition("Created", "True", "", ""),
				condition("Reconciling", "True", "Reconciling", "Waiting for the agent: run the command")}
		}, "Waiting: Waiting for the agent: run the command"},
		"probes": {func(w *World) {
			w.of("w-1").Known.Plan.DeliveredAt = noon
			w.of("w-1").Known.Plan.State.ProbeStatuses = nil
			w.Cluster.Status.Conditions[2] = condition("Ready", "Unknown", "Waiting",
				"configuring worker node(s) w-1: these do not pass: kubelet")
		}, "Waiting: configuring worker node(s) w-1: these do not pass: kubelet"},
		"first a broken one": {func(w *World) {
			w.of("s-1").unplanned()
			w.of("w-1").Known.Plan.State.ProbeStatuses = nil
		}, "Broken: agent of w-1: probes do not pass: kubelet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := healthy()
			tc.breaks(&w)
			r, out := Diagnose(w), bytes.Buffer{}
			r.Print(&out, false)
			first, _, _ := strings.Cut(out.String(), "\n")
			if want := "Cluster fleet-default/demo: " + tc.want; first != want {
				t.Errorf("got  %s\nwant %s", first, want)
			}
		})
	}
}
