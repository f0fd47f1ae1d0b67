package ui

import (
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// lastOutput is what the instruction of the failing machine prints.
const lastOutput = "curl: (7) Failed to connect to packages.example.test port 443: No route to host"

// brokenInstall lets every instruction of the machines of one cluster fail.
type brokenInstall struct{ fakeagent.NoFaults }

// Instruction implements fakeagent.Faults.
func (brokenInstall) Instruction(machine, _ string, _ int) error {
	if strings.HasPrefix(machine, "broken-") {
		return &fakeagent.ExitError{Code: 7, Output: lastOutput}
	}
	return nil
}

// TestUIDiagnose opens the page of a cluster whose machine fails. The machine's last output is on the first screen.
func TestUIDiagnose(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true, Machines: func(o *fakeagent.Options) { o.Faults = brokenInstall{} }})
	namespace := plane.Namespace(t)
	st.Cluster(namespace, "broken", stage.K3s, stage.Pool("server", "ecw", 1))
	env := map[string]string{"URL": st.URL, "TOKEN": administrator(t, namespace), "NAMESPACE": namespace,
		"OUTPUT": lastOutput}
	browse(t, "diagnose", env, nil)
}
