package hold

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func because(kind, state, reason string) status { return withMessage(kind, state, reason, "") }

func withMessage(kind, state, reason, message string) status {
	return status{"conditions": listOf(conditionOf(kind, state, reason, message))}
}

func TestUrgent_IsWhatOthersWaitFor(t *testing.T) {
	for _, test := range []struct {
		name     string
		kind     kind
		from, to status
		want     string
	}{
		{"a machine's first phase", machines, status{}, status{"phase": "Pending", "lastUpdated": "t"}, ""},
		{"a machine that is being created", machines, status{"phase": "Pending"}, status{"phase": "Provisioning"}, ""},
		{"a machine that has a host", machines, status{"phase": "Provisioning"}, status{"phase": "Provisioned"},
			"phase"},
		{"a machine that runs", machines, status{"phase": "Provisioned"}, status{"phase": "Running"}, "phase"},
		{"a machine that has failed", machines, status{"phase": "Pending"}, status{"phase": "Failed"}, "phase"},
		{"a machine's bootstrap data", machines, status{},
			status{"initialization": map[string]any{"bootstrapDataSecretCreated": true}}, ""},
		{"a machine's host", machines, status{},
			status{"initialization": map[string]any{"infrastructureProvisioned": true}},
			"initialization/infrastructureProvisioned"},
		{"a machine whose bootstrap data exist", machines, because("BootstrapConfigReady", "False", "NotReady"),
			because("BootstrapConfigReady", "True", "Ready"), ""},
		{"a machine whose bootstrap data exist no more", machines, because("BootstrapConfigReady", "True", "Ready"),
			because("BootstrapConfigReady", "False", "NotReady"), "conditions/BootstrapConfigReady"},
		{"a machine's node", machines, status{}, status{"nodeRef": map[string]any{"name": "n"}}, "nodeRef/name"},
		{"a machine's addresses", machines, status{}, status{"addresses": listOf("a")}, "addresses"},
		{"a field of a later Cluster API", machines, status{}, status{"new": "x"}, "new"},
		{"a condition of a later Cluster API", machines, status{}, because("New", "False", "NotReady"),
			"conditions/New"},
		{"another message", machines, withMessage("Ready", "False", "NotReady", "a"),
			withMessage("Ready", "False", "NotReady", "b"), ""},
		{"a machine that is not ready yet", machines, status{}, because("Ready", "False", "NotReady"), ""},
		{"a machine that becomes ready", machines, because("Ready", "False", "NotReady"),
			because("Ready", "True", "Ready"), "conditions/Ready"},
		{"a machine that is ready no more", machines, because("Ready", "True", "Ready"),
			because("Ready", "False", "NotReady"), "conditions/Ready"},
		{"a machine that becomes available", machines, because("Available", "False", "NotAvailable"),
			because("Available", "True", "Available"), "conditions/Available"},
		{"a host that is being created", machines, because("InfrastructureReady", "False", "NotReady"),
			because("InfrastructureReady", "False", "Creating"), ""},
		{"a host that cannot be created", machines, because("InfrastructureReady", "False", "Creating"),
			because("InfrastructureReady", "False", "CreateError"), "conditions/InfrastructureReady"},
		{"a host that exists", machines, because("InfrastructureReady", "False", "Creating"),
			because("InfrastructureReady", "True", "Ready"), "conditions/InfrastructureReady"},
		{"bootstrap data that cannot be created", machines, status{},
			because("BootstrapConfigReady", "False", "Error"), "conditions/BootstrapConfigReady"},
		{"a node that is not there yet", machines, status{}, because("NodeReady", "Unknown", "InspectionFailed"), ""},
		{"a node that starts", machines, because("NodeReady", "Unknown", "InspectionFailed"),
			because("NodeReady", "False", "NodeNotReady"), ""},
		{"a node that is silent", machines, because("NodeReady", "True", "NodeReady"),
			because("NodeReady", "Unknown", "NodeReadyUnknown"), "conditions/NodeReady"},
		{"a node that was deleted", machines, because("NodeReady", "False", "NodeNotReady"),
			because("NodeReady", "Unknown", "NodeDeleted"), "conditions/NodeReady"},
		{"a cluster that cannot be reached", machines, because("NodeReady", "False", "NodeNotReady"),
			because("NodeReady", "Unknown", "ConnectionDown"), "conditions/NodeReady"},
		{"a health check", machines, status{}, because("HealthCheckSucceeded", "True", "HealthCheckSucceeded"),
			"conditions/HealthCheckSucceeded"},
		{"a remediation", machines, status{}, because("OwnerRemediated", "False", "WaitingForRemediation"),
			"conditions/OwnerRemediated"},
		{"the end of a remediation", machines, because("OwnerRemediated", "False", "WaitingForRemediation"), status{},
			"conditions/OwnerRemediated"},
		{"a machine that is not paused", machines, status{}, because("Paused", "False", "NotPaused"), ""},
		{"a machine that a user pauses", machines, because("Paused", "False", "NotPaused"),
			because("Paused", "True", "Paused"), "conditions/Paused"},
		{"the end of a pause", machines, because("Paused", "True", "Paused"), because("Paused", "False", "NotPaused"),
			"conditions/Paused"},
		{"a machine that is not being deleted", machines, status{}, because("Deleting", "False", "NotDeleting"), ""},
		{"a machine that is being deleted", machines, because("Deleting", "False", "NotDeleting"),
			because("Deleting", "True", "Deleting"), "conditions/Deleting"},
		{"a new machine is up to date", machines, status{}, because("UpToDate", "True", "UpToDate"), ""},
		{"a machine that a rollout replaces", machines, because("UpToDate", "True", "UpToDate"),
			because("UpToDate", "False", "NotUpToDate"), "conditions/UpToDate"},
		{"a start of a drain", machines, status{},
			status{"deletion": map[string]any{"nodeDrainStartTime": "t"}}, "deletion/nodeDrainStartTime"},
		{"a condition of a planner's", machines, status{}, because("PlanApplied", "True", "Applied"),
			"conditions/PlanApplied"},

		{"machines of a set", machineSets, status{"replicas": int64(1)}, status{"replicas": int64(2)}, ""},
		{"available machines of a set", machineSets, status{"availableReplicas": int64(0)},
			status{"availableReplicas": int64(1)}, ""},
		{"machines of a set that a rollout has made", machineSets, status{"upToDateReplicas": int64(0)},
			status{"upToDateReplicas": int64(1)}, ""},
		{"what a set waits for", machineSets, status{}, because("MachinesReady", "False", "NotReady"), ""},
		{"a set that scales up", machineSets, because("ScalingUp", "False", "NotScalingUp"),
			because("ScalingUp", "True", "ScalingUp"), ""},

		{"a deployment's first machine", deployments, status{}, status{"replicas": int64(1)}, "replicas"},
		{"a deployment's second machine", deployments, status{"replicas": int64(1)}, status{"replicas": int64(2)}, ""},
		{"a deployment's last machine", deployments, status{"replicas": int64(1)}, status{"replicas": int64(0)},
			"replicas"},
		{"ready machines of a deployment", deployments, status{}, status{"readyReplicas": int64(1)}, ""},
		{"a deployment that becomes available", deployments, because("Available", "False", "NotAvailable"),
			because("Available", "True", "Available"), "conditions/Available"},
		{"a rollout begins", deployments, because("RollingOut", "False", "NotRollingOut"),
			because("RollingOut", "True", "RollingOut"), "conditions/RollingOut"},
		{"a rollout ends", deployments, because("RollingOut", "True", "RollingOut"),
			because("RollingOut", "False", "NotRollingOut"), "conditions/RollingOut"},
		{"a new deployment", deployments, status{}, status{"observedGeneration": int64(1)}, ""},
		{"an edited deployment", deployments, status{"observedGeneration": int64(1)},
			status{"observedGeneration": int64(2)}, "observedGeneration"},

		{"a cluster's infrastructure", clusters, status{},
			status{"initialization": map[string]any{"infrastructureProvisioned": true}},
			"initialization/infrastructureProvisioned"},
		{"a cluster's control plane", clusters, because("ControlPlaneInitialized", "False", "NotInitialized"),
			because("ControlPlaneInitialized", "True", "Initialized"), "conditions/ControlPlaneInitialized"},
		{"a connection to a cluster", clusters, because("RemoteConnectionProbe", "False", "ProbeFailed"),
			because("RemoteConnectionProbe", "True", "ProbeSucceeded"), "conditions/RemoteConnectionProbe"},
		{"numbers of a cluster", clusters, status{},
			status{"workers": map[string]any{"replicas": int64(1)}}, ""},
		{"a cluster that has its infrastructure", clusters, status{"phase": "Provisioning"},
			status{"phase": "Provisioned"}, "phase"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := urgent(test.kind, difference(test.from, test.to)); got != test.want {
				t.Errorf("urgent: %q, want %q", got, test.want)
			}
		})
	}
}

func TestWakes_AreWhatAnEventWouldDo(t *testing.T) {
	for _, test := range []struct {
		name     string
		kind     kind
		from, to status
		want     []kind
	}{
		{"a new object that is not paused", machines, status{}, because("Paused", "False", "NotPaused"),
			[]kind{machines}},
		{"a set's machine becomes available", machineSets, status{"availableReplicas": int64(0)},
			status{"availableReplicas": int64(1)}, []kind{deployments}},
		{"a set's new message", machineSets, status{}, because("MachinesReady", "False", "NotReady"), nil},
		{"a machine's new message", machines, status{}, because("Ready", "False", "NotReady"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, wakes(test.kind, difference(test.from, test.to))); diff != "" {
				t.Errorf("wakes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUrgent_CoversTheConditionsThatDroverReads finds the conditions of Cluster API that Drover's packages name. Each
// of them is in this list, with what the package comment says of it.
func TestUrgent_CoversTheConditionsThatDroverReads(t *testing.T) {
	// A change to True, or away from it, must not wait.
	reads := map[string][]string{
		"MachineInfrastructureReadyCondition":     {"machine", clusterv1.MachineInfrastructureReadyCondition},
		"MachineBootstrapConfigReadyCondition":    {"machine", clusterv1.MachineBootstrapConfigReadyCondition},
		"MachineReadyCondition":                   {"machine", clusterv1.MachineReadyCondition},
		"MachineNodeReadyCondition":               {"machine", clusterv1.MachineNodeReadyCondition},
		"MachineNodeHealthyCondition":             {"machine", clusterv1.MachineNodeHealthyCondition},
		"MachineHealthCheckSucceededCondition":    {"machine", clusterv1.MachineHealthCheckSucceededCondition},
		"MachineDeletingCondition":                {"machine", clusterv1.MachineDeletingCondition},
		"MachineUpToDateCondition":                {"machine", clusterv1.MachineUpToDateCondition},
		"PausedCondition":                         {"cluster", clusterv1.PausedCondition},
		"ClusterControlPlaneInitializedCondition": {"cluster", clusterv1.ClusterControlPlaneInitializedCondition},
		"ClusterRemoteConnectionProbeCondition":   {"cluster", clusterv1.ClusterRemoteConnectionProbeCondition},
		"ClusterInfrastructureReadyCondition":     {"cluster", clusterv1.ClusterInfrastructureReadyCondition},
		"ClusterDeletingCondition":                {"cluster", clusterv1.ClusterDeletingCondition},
	}
	// The command "drover diagnose" shows these as they are stored. A later message changes nothing.
	shown := map[string]bool{"MachineDeploymentScalingUpCondition": true, "MachineSetScalingUpCondition": true}
	for name, of := range reads {
		yes, no := because(of[1], "True", "A"), because(of[1], "False", "B")
		if urgent(kind(of[0]), difference(yes, no)) == "" || urgent(kind(of[0]), difference(no, yes)) == "" {
			t.Errorf("a change of %s may wait, and Drover reads it", name)
		}
	}
	for name, where := range conditionsNamed(t) {
		if reads[name] == nil && !shown[name] {
			t.Errorf("%s reads clusterv1.%s: decide whether it may wait, and add it to this test and to the package "+
				"comment", where, name)
		}
	}
}

// conditionsNamed returns the conditions of Cluster API that Drover's packages name, with a file of each.
func conditionsNamed(t *testing.T) map[string]string {
	t.Helper()
	const root = "../../.."
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "hold" || entry.Name() == "testkit" || entry.Name() == "generated") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			from, ok := selector.X.(*ast.Ident)
			if ok && from.Name == "clusterv1" && strings.HasSuffix(selector.Sel.Name, "Condition") &&
				selector.Sel.Name != "Condition" && selector.Sel.Name != "UnhealthyNodeCondition" {
				out[selector.Sel.Name] = path
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 8 {
		t.Fatalf("only %d conditions are found", len(out))
	}
	return out
}
