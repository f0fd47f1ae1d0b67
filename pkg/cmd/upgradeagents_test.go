package cmd

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// --wait returns when all machines have answered this request, and not an earlier one.
func TestAgentsDone(t *testing.T) {
	machine := func(command string) clusterv1.Machine {
		return clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			rkev1.AgentPinAnnotation: render.AgentPin{Command: command}.String(),
		}}}
	}
	both := func(first, second string) []clusterv1.Machine {
		return []clusterv1.Machine{machine(first), machine(second)}
	}
	for name, tc := range map[string]struct {
		status   string
		machines []clusterv1.Machine
		done     bool
		problem  string
	}{
		"no machines":               {"", nil, true, ""},
		"not begun":                 {"True", both("old", "old"), false, ""},
		"an earlier failure":        {"False", both("old", "old"), false, ""},
		"the first machine":         {"Unknown", both("new", "old"), false, ""},
		"between two":               {"True", both("new", "old"), false, ""},
		"the last machine reports":  {"Unknown", both("new", "new"), false, ""},
		"done":                      {"True", both("new", "new"), true, ""},
		"failed":                    {"False", both("new", "old"), false, "cluster fleet-default/demo: full disk"},
		"no condition, not refused": {"", both("new", "old"), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			controlPlane := &rkev1.RKEControlPlane{}
			controlPlane.Namespace, controlPlane.Name = "fleet-default", "demo"
			if tc.status != "" {
				controlPlane.Status.Conditions = []rkev1.GenericCondition{{Type: planner.ConditionAgentsUpgraded,
					Status: tc.status, Message: "full disk"}}
			}
			done, err := agentsDone(controlPlane, tc.machines, "new")
			if done != tc.done || (err != nil) != (tc.problem != "") ||
				err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("done %v, %v", done, err)
			}
		})
	}
}
