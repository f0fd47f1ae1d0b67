package summary

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/testkit/build"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

const message = "waiting for agent to check in"

func TestOfCluster(t *testing.T) {
	set := func(c *provv1.Cluster, kind, status, reason, message string, ago time.Duration) {
		conditions.Set(&c.Status.Conditions, conditions.Condition{Type: kind, Status: status, Reason: reason,
			Message: message}, noon.Add(-ago))
	}
	imported := func(c *provv1.Cluster) { c.Spec.RKEConfig = nil }
	created := noon.Add(-time.Hour)
	for name, tc := range map[string]struct {
		given func(c *provv1.Cluster)
		want  Summary
	}{
		"a new cluster has no condition": {
			given: func(*provv1.Cluster) {},
			want: Summary{State: Waiting, Code: "Waiting", Message: waitsForObjects, ByReady: true, Since: created,
				Changed: created},
		},
		"a cluster without condition Ready waits for what another condition says": {
			given: func(c *provv1.Cluster) {
				set(c, "RKECluster", "Unknown", "Waiting", "Waiting for the namespace", 0)
			},
			want: Summary{State: Waiting, Code: "Waiting", Message: "Waiting for the namespace", ByReady: true,
				Since: created, Changed: created},
		},
		"a cluster waits": {
			given: func(c *provv1.Cluster) {
				set(c, "Ready", "Unknown", "Waiting", "earlier", 10*time.Minute)
				set(c, "Ready", "Unknown", "Waiting", message, time.Minute)
			},
			want: Summary{State: Waiting, Code: "Waiting", Reason: "Waiting", Message: message, ByReady: true,
				Since: noon.Add(-10 * time.Minute), Changed: noon.Add(-time.Minute)},
		},
		"a ready cluster has no message": {
			given: func(c *provv1.Cluster) { set(c, "Ready", "True", "", "", time.Minute) },
			want: Summary{State: Ready, ByReady: true, Since: noon.Add(-time.Minute),
				Changed: noon.Add(-time.Minute)},
		},
		"the planner failed": {
			given: func(c *provv1.Cluster) { set(c, "Ready", "False", "Error", message, 0) },
			want: Summary{State: Failed, Code: "Error", Reason: "Error", Message: message, ByReady: true, Since: noon,
				Changed: noon},
		},
		"an invalid spec fails, although the cluster runs": {
			given: func(c *provv1.Cluster) {
				set(c, "Ready", "True", "", "", time.Minute)
				set(c, "RKECluster", "False", "InvalidSpec", "spec.x: bad", 0)
			},
			want: Summary{State: Failed, Code: "InvalidSpec", Reason: "InvalidSpec", Message: "spec.x: bad",
				Since: noon, Changed: noon},
		},
		"the name in Drover is taken": {
			given: func(c *provv1.Cluster) { set(c, "Created", "False", "ManagementNameTaken", message, 0) },
			want: Summary{State: Failed, Code: "ManagementNameTaken", Reason: "ManagementNameTaken", Message: message,
				Since: noon, Changed: noon},
		},
		"a user paused the cluster": {
			given: func(c *provv1.Cluster) {
				set(c, "Ready", "Unknown", "Waiting", message, time.Minute)
				set(c, "Ready", "Unknown", "Waiting", planner.PausedMessage, 0)
			},
			want: Summary{State: Paused, Code: "Paused", Reason: "Paused", Message: planner.PausedMessage,
				ByReady: true, Since: noon, Changed: noon},
		},
		"a deletion begins": {
			given: func(c *provv1.Cluster) {
				c.DeletionTimestamp = new(metav1.NewTime(noon))
				set(c, "Ready", "True", "", "", time.Minute)
			},
			want: Summary{State: Deleting, Code: "Deleting", Message: waitsForRemoval, Since: noon, Changed: noon},
		},
		"a deletion waits, which is no reason of its own": {
			given: func(c *provv1.Cluster) {
				c.DeletionTimestamp = new(metav1.NewTime(noon))
				set(c, "Removed", "Unknown", "Waiting", "Waiting for 2 machines", 0)
			},
			want: Summary{State: Deleting, Code: "Deleting", Reason: "Waiting", Message: "Waiting for 2 machines",
				Since: noon, Changed: noon},
		},
		"a deletion is overdue": {
			given: func(c *provv1.Cluster) {
				c.DeletionTimestamp = new(metav1.NewTime(noon))
				set(c, "Removed", "False", "DeletionOverdue", message, 0)
			},
			want: Summary{State: Deleting, Code: "DeletionOverdue", Reason: "DeletionOverdue", Message: message,
				Since: noon, Changed: noon},
		},
		"a host blocks a deletion": {
			given: func(c *provv1.Cluster) {
				c.DeletionTimestamp = new(metav1.NewTime(noon))
				set(c, "Removed", "False", "CredentialMissing", message, 0)
			},
			want: Summary{State: Deleting, Code: "Deleting", Reason: "CredentialMissing", Message: message, Since: noon,
				Changed: noon},
		},
		"an imported cluster waits for its agent": {
			given: func(c *provv1.Cluster) {
				imported(c)
				set(c, "Reconciling", "True", "Reconciling", "Waiting for the agent", 0)
			},
			want: Summary{State: Waiting, Code: "Waiting", Reason: "Reconciling", Message: "Waiting for the agent",
				Since: created, Changed: noon},
		},
		"an imported cluster was reached": {
			given: func(c *provv1.Cluster) {
				imported(c)
				c.Status.Ready = true
				set(c, "Reconciling", "False", "", "", time.Minute)
			},
			want: Summary{State: Ready, Since: noon.Add(-time.Minute), Changed: noon.Add(-time.Minute)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := build.Cluster("demo")
			cluster.CreationTimestamp = metav1.NewTime(created)
			tc.given(cluster)
			got := OfCluster(cluster, conditions.Get(cluster.Status.Conditions, provv1.ConditionReady), created)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A machine goes through its states. A failure has a reason.
func TestOfMachine(t *testing.T) {
	machine := build.Machine("demo", "a", "ecw", build.WithNode("a"))
	set := func(kind, status, reason, message string) {
		conditions.SetMeta(&machine.Status.Conditions, conditions.Condition{Type: kind, Status: status, Reason: reason,
			Message: message}, 1, noon)
	}
	want := func(state State, code, reason, message string) {
		t.Helper()
		got := OfMachine(machine)
		got.Since, got.Changed = time.Time{}, time.Time{}
		if diff := cmp.Diff(Summary{State: state, Code: code, Reason: reason, Message: message}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	set("InfrastructureReady", "True", "Ready", "")
	want(Running, "", "", "")
	set("NodeHealthy", "False", "NodeNotHealthy", "Kubelet stopped posting node status")
	want(Unhealthy, "NodeUnhealthy", "NodeNotHealthy", "Kubelet stopped posting node status")
	set("PlanApplied", "False", "Error", "exit status 1")
	want(Failed, "PlanFailed", "Error", "exit status 1")
	set("PlanApplied", "True", "PlanApplied", "")
	machine.Status.NodeRef.Name = ""
	want(Joining, "NodeMissing", "NodeMissing", "Waiting for the node of the machine")
	set("Reconciled", "Unknown", "Waiting", message)
	want(Joining, "NodeMissing", "Waiting", message)
	set("InfrastructureReady", "False", "CreateError", "no quota")
	want(Failed, "CreateError", "CreateError", "no quota")
	set("InfrastructureReady", "False", "AccessDenied", "")
	want(Failed, "AccessDenied", "AccessDenied", "Cannot create the host")
	// These reasons are no failures: they appear while a Job creates the host, before it, and before a retry.
	for _, reason := range []string{"Creating", "Waiting", "BackOff", "NotReady"} {
		set("InfrastructureReady", "False", reason, "the Job runs")
		want(Creating, "InfrastructureNotReady", reason, "the Job runs")
	}
	machine.Status.Conditions = nil
	set("BootstrapConfigReady", "False", "NotReady", "no bootstrap data")
	want(Creating, "InfrastructureNotReady", "NotReady", "no bootstrap data")
	machine.DeletionTimestamp = new(metav1.NewTime(noon))
	want(Deleting, "Deleting", "Deleting", "Waiting for the removal of the machine")
	set(clusterv1.MachineDeletingCondition, "True", "DrainingNode", "Drain not completed yet")
	want(Deleting, "Deleting", "DrainingNode", "Drain not completed yet")
}

// Every reason of a failure of Drover's own is known as one.
func TestIsFailure(t *testing.T) {
	for reason, want := range map[string]bool{rkev1.ReasonCreateError: true, "InvalidSpec": true,
		string(planner.ReasonRestoreRequired): true, rkev1.ReasonWaiting: false, "": false} {
		if got := IsFailure(reason); got != want {
			t.Errorf("%q: %v", reason, got)
		}
	}
}
