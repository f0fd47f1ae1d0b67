package events

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
	"github.com/drover-io/drover/pkg/testkit/packed"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// lines formats events like kubectl describe.
func lines(events []Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Object.Kind+" "+e.Object.Name+" "+e.Type+" "+string(e.Reason)+" "+e.Message)
	}
	return out
}

func expect(t *testing.T, got []Event, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// with sets a condition of Drover's own kinds.
func with(list *[]rkev1.GenericCondition, kind, status, reason, message string) {
	conditions.Set(list, conditions.Condition{Type: kind, Status: status, Reason: reason, Message: message}, noon)
}

func TestClusterChanged(t *testing.T) {
	invalid := func(c *provv1.Cluster) {
		with(&c.Status.Conditions, provv1.ConditionRKECluster, "False", "InvalidSpec",
			"spec.kubernetesVersion: must be a version")
	}
	waiting := func(c *provv1.Cluster) {
		with(&c.Status.Conditions, provv1.ConditionReady, "Unknown", "Waiting", "waiting for machine a")
	}
	ready := func(c *provv1.Cluster) { with(&c.Status.Conditions, provv1.ConditionReady, "True", "", "") }
	failed := func(c *provv1.Cluster) {
		with(&c.Status.Conditions, provv1.ConditionReady, "False", "Error", "machine a is lost")
	}
	deleting := func(c *provv1.Cluster) { c.DeletionTimestamp = new(metav1.NewTime(noon)) }
	for name, tc := range map[string]struct {
		before, after func(*provv1.Cluster)
		want          []string
	}{
		"an invalid spec is refused": {after: invalid,
			want: []string{"Cluster demo Warning SpecRefused InvalidSpec: spec.kubernetesVersion: must be a version"}},
		"a corrected spec is applied": {before: invalid, after: func(c *provv1.Cluster) {
			with(&c.Status.Conditions, provv1.ConditionRKECluster, "True", "", "")
		}, want: []string{"Cluster demo Normal SpecApplied The objects of the cluster match its spec"}},
		"the next problem of a spec is a new event": {before: invalid, after: func(c *provv1.Cluster) {
			with(&c.Status.Conditions, provv1.ConditionRKECluster, "False", "InvalidSpec", "spec.a: Not found")
		}, want: []string{"Cluster demo Warning SpecRefused InvalidSpec: spec.a: Not found"}},
		"the next text of an error is none": {before: func(c *provv1.Cluster) {
			with(&c.Status.Conditions, provv1.ConditionRKECluster, "False", "Error", "timeout")
		}, after: func(c *provv1.Cluster) {
			with(&c.Status.Conditions, provv1.ConditionRKECluster, "False", "Error", "refused")
		}},
		"an imported cluster waits for its agent": {after: func(c *provv1.Cluster) {
			c.Spec.RKEConfig = nil
			with(&c.Status.Conditions, provv1.ConditionReconciling, "True", "Reconciling", "Waiting for the agent")
		}, want: []string{"Cluster demo Normal ClusterProgressing Waiting for the agent"}},
		"a provisioned cluster waits": {after: func(c *provv1.Cluster) {
			with(&c.Status.Conditions, provv1.ConditionReconciling, "True", "Reconciling", "Waiting for a server")
		}},
		"a wait causes one event": {before: waiting, after: func(c *provv1.Cluster) {
			with(&c.Status.Conditions, provv1.ConditionReady, "Unknown", "Waiting", "waiting for machine b")
		}},
		"a cluster starts to wait": {after: waiting,
			want: []string{"Cluster demo Normal ClusterProgressing waiting for machine a"}},
		"a ready cluster": {before: waiting, after: ready,
			want: []string{"Cluster demo Normal ClusterReady All machines match the spec"}},
		"a failing cluster": {before: waiting, after: failed,
			want: []string{"Cluster demo Warning ClusterNotReady machine a is lost"}},
		"another reason is a new event": {before: failed, after: func(c *provv1.Cluster) {
			with(&c.Status.Conditions, provv1.ConditionReady, "False", "InvalidSpec", "spec: wrong")
		}, want: []string{"Cluster demo Warning ClusterNotReady InvalidSpec: spec: wrong"}},
		"its API answers": {after: func(c *provv1.Cluster) { c.Status.Ready = true }, want: []string{
			"Cluster demo Normal ClusterConnected The API of the cluster answers; its kubeconfig is in Secret " +
				"demo-kubeconfig",
		}},
		"another Cluster has its identity": {after: func(c *provv1.Cluster) {
			with(&c.Status.Conditions, provv1.ConditionCreated, "False", "ManagementNameTaken", "c-m-1 is taken")
		}, want: []string{"Cluster demo Warning IdentityFailed ManagementNameTaken: c-m-1 is taken"}},
		"warnings of a working cluster": {after: func(c *provv1.Cluster) {
			with(&c.Status.Conditions, planner.ConditionEtcdQuorum, "False", "EvenMembers", "two")
			with(&c.Status.Conditions, planner.ConditionConfigurationUnderstood, "False", "UnknownConfigKey", "key")
			with(&c.Status.Conditions, planner.ConditionRenderVersions, "False", "RenderVersionUnknown", "v9")
			with(&c.Status.Conditions, provv1.ConditionFleetCluster, "False", "FleetClusterTaken", "exists")
		}, want: []string{
			"Cluster demo Warning ConfigurationQuestioned UnknownConfigKey: key",
			"Cluster demo Warning EtcdQuorumWeak EvenMembers: two",
			"Cluster demo Warning FleetQuestioned FleetClusterTaken: exists",
			"Cluster demo Warning RenderVersionsUnknown RenderVersionUnknown: v9",
		}},
		"a removal starts": {before: ready, after: func(c *provv1.Cluster) { deleting(c); failed(c) }, want: []string{
			"Cluster demo Normal ClusterDeleting The cluster is being removed",
		}},
		"a removal is blocked": {before: deleting, after: func(c *provv1.Cluster) {
			deleting(c)
			with(&c.Status.Conditions, provv1.ConditionRemoved, "False", "DeletionOverdue",
				"waiting for machine [a] to delete")
		}, want: []string{
			"Cluster demo Warning ClusterDeletionFailed DeletionOverdue: waiting for machine [a] to delete"}},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := build.Cluster("demo"), build.Cluster("demo")
			if tc.before != nil {
				tc.before(before)
				tc.before(after)
			}
			tc.after(after)
			expect(t, ClusterChanged(before, after), tc.want...)
			expect(t, ClusterChanged(after, after.DeepCopy()))
		})
	}
}

func TestControlPlaneChanged(t *testing.T) {
	record := func(state rkev1.OperationState, attempt int64, message string) func(*rkev1.RKEControlPlane) {
		return func(c *rkev1.RKEControlPlane) {
			c.Status.Operations = []rkev1.OperationRecord{{Name: "etcd-restore", State: state, Attempt: attempt,
				Message: message, Request: "private"}}
		}
	}
	running := record(rkev1.OperationStateRunning, 1, "")
	condition := func(kind, status, message string) func(*rkev1.RKEControlPlane) {
		return func(c *rkev1.RKEControlPlane) { with(&c.Status.Conditions, kind, status, "", message) }
	}
	applied := func(version string) func(*rkev1.RKEControlPlane) {
		return func(c *rkev1.RKEControlPlane) {
			c.Status.AppliedSpec = c.Spec.DeepCopy()
			c.Status.AppliedSpec.KubernetesVersion = version
		}
	}
	stored := func(spec string) func(*rkev1.RKEControlPlane) {
		return func(c *rkev1.RKEControlPlane) {
			c.Annotations = map[string]string{rkev1.ClusterSpecAnnotation: packed.Text(spec)}
		}
	}
	const before, now = `{"kubernetesVersion":"v1","rkeConfig":{"machineGlobalConfig":{"token":"private"}}}`,
		`{"kubernetesVersion":"v2","rkeConfig":{"machineGlobalConfig":{"token":"other"}}}`
	goesBack := func(spec string, mode rkev1.RestoreMode) func(*rkev1.RKEControlPlane) {
		return func(c *rkev1.RKEControlPlane) {
			stored(spec)(c)
			c.Spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "s", RestoreRKEConfig: mode}
		}
	}
	for name, tc := range map[string]struct {
		before, after func(*rkev1.RKEControlPlane)
		want          []string
	}{
		"configuration goes back": {before: stored(now), after: goesBack(before, "all"), want: []string{
			"Cluster demo Normal ConfigurationRestored The restore of snapshot s puts these fields back: " +
				"spec.kubernetesVersion (v2 → v1), spec.rkeConfig.machineGlobalConfig.token"}},
		"the version goes back": {before: stored(now), after: goesBack(before, "kubernetesVersion"), want: []string{
			"Cluster demo Normal ConfigurationRestored The restore of snapshot s puts these fields back: " +
				"spec.kubernetesVersion (v2 → v1)"}},
		"nothing goes back":                 {before: stored(now), after: goesBack(now, "all")},
		"data go back":                      {before: stored(now), after: goesBack(before, "none")},
		"an edit after the restore is none": {before: goesBack(before, "all"), after: goesBack(now, "all")},
		"machines of all roles": {
			after: condition(rkev1.ConditionProvisioned, "True", ""),
			want:  []string{"RKEControlPlane demo Normal MachinesRegistered Machines of all roles are registered"},
		},
		"the first server": {
			after: condition(rkev1.ConditionBootstrapped, "True", ""),
			want:  []string{"RKEControlPlane demo Normal Bootstrapped The first server runs"},
		},
		"a role that never existed is not lost": {after: condition(rkev1.ConditionStable, "False", "no worker")},
		"a lost role": {
			before: condition(rkev1.ConditionStable, "True", ""),
			after:  condition(rkev1.ConditionStable, "False", "no worker"),
			want:   []string{"RKEControlPlane demo Warning RoleLost no worker"},
		},
		"another version is requested": {
			before: func(c *rkev1.RKEControlPlane) { c.Spec.KubernetesVersion = "v1" }, after: func(
				c *rkev1.RKEControlPlane) {
				c.Spec.KubernetesVersion = "v2"
			},
			want: []string{"Cluster demo Normal UpgradeStarted The spec requests Kubernetes v2 instead of v1"},
		},
		"all nodes have the new version": {
			before: applied("v1"), after: applied("v2"),
			want: []string{"Cluster demo Normal UpgradeFinished All nodes have Kubernetes v2 instead of v1"},
		},
		"the first version is not an upgrade": {after: applied("v1")},
		"an operation starts": {after: running,
			want: []string{"Cluster demo Normal OperationStarted etcd-restore"}},
		"it starts again": {
			before: running, after: record(rkev1.OperationStateRunning, 2, ""),
			want: []string{"Cluster demo Normal OperationStarted etcd-restore"},
		},
		"it succeeds": {
			before: running, after: record(rkev1.OperationStateSucceeded, 1, ""),
			want: []string{"Cluster demo Normal OperationSucceeded etcd-restore"},
		},
		"it fails": {
			before: running, after: record(rkev1.OperationStateFailed, 1, "no such file"),
			want: []string{"Cluster demo Warning OperationFailed etcd-restore: no such file"},
		},
		"its request is withdrawn": {
			before: running, after: record(rkev1.OperationStateCancelled, 1, ""),
			want: []string{"Cluster demo Normal OperationCancelled etcd-restore: its request was withdrawn"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := build.ControlPlane("demo"), build.ControlPlane("demo")
			if tc.before != nil {
				tc.before(before)
				tc.before(after)
			}
			tc.after(after)
			expect(t, ControlPlaneChanged(build.Cluster("demo"), before, after), tc.want...)
			expect(t, ControlPlaneChanged(build.Cluster("demo"), after, after.DeepCopy()))
		})
	}
}

func TestPoolChanged_NewTemplateReplacesMachines(t *testing.T) {
	before := &clusterv1.MachineDeployment{}
	before.Name = "demo-worker"
	before.Spec.Template.Spec.InfrastructureRef.Name = "one"
	after := before.DeepCopy()
	after.Spec.Replicas = new(int32(3))
	expect(t, PoolChanged(build.Cluster("demo"), before, after))
	after.Spec.Template.Spec.InfrastructureRef.Name = "two"
	expect(t, PoolChanged(build.Cluster("demo"), before, after),
		"Cluster demo Normal PoolRollOut MachineDeployment demo-worker has the new machine template two: its 3 "+
			"machines are replaced, cause edit-pool")
}
