package planner

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

func TestTrim_KeepsWhatDecisionsAndMessagesRead(t *testing.T) {
	long := []byte(strings.Repeat("x", maxResult+1))
	state := nodeplan.State{
		Plan: plan.NodePlan{Probes: map[string]plan.Probe{"kubelet": {}}},
		Output: map[string][]byte{"install": []byte("much"), render.SecretsEncryptStatus: []byte("Attempt: 1"),
			"former": []byte("more")},
		FailedOutput: map[string][]byte{
			nodeplan.OutputFailure:    nodeplan.Failure{Instruction: "install", ExitCode: 3}.Encode(),
			nodeplan.OutputAgentError: []byte("no space"), "install": append(slices.Clone(long), "the end"...),
			render.EtcdProofInstruction: []byte("1 of 3"), "former": []byte("more"),
		},
		PeriodicOutput: map[string]plan.PeriodicInstructionOutput{
			render.EtcdName: {Name: render.EtcdName, Stdout: []byte("s-1"), Stderr: long,
				LastSuccessfulRunTime: strings.Repeat("9", maxTime+1)},
			render.CaptureAddress:    {Stdout: long},
			render.CaptureKubeconfig: {Stdout: []byte("the controller of the kubeconfig reads the Secret")},
		},
		ProbeStatuses: map[string]plan.ProbeStatus{"kubelet": {Healthy: true}, "invented": {}},
	}
	before := maps.Clone(state.FailedOutput)
	Trim(&state)
	want := nodeplan.State{
		Plan:   state.Plan,
		Output: map[string][]byte{render.SecretsEncryptStatus: []byte("Attempt: 1")},
		FailedOutput: map[string][]byte{
			nodeplan.OutputFailure:      before[nodeplan.OutputFailure],
			nodeplan.OutputAgentError:   []byte("no space"),
			"install":                   before["install"][len(before["install"])-maxFailure:],
			render.EtcdProofInstruction: []byte("1 of 3"),
		},
		PeriodicOutput: map[string]plan.PeriodicInstructionOutput{
			render.EtcdName: {Stdout: []byte("s-1"), LastSuccessfulRunTime: strings.Repeat("9", maxTime)},
		},
		ProbeStatuses: map[string]plan.ProbeStatus{"kubelet": {Healthy: true}},
	}
	if diff := cmp.Diff(want, state); diff != "" {
		t.Errorf("trimmed state (-want +got):\n%s", diff)
	}
}
