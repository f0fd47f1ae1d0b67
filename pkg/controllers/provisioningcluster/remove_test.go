package provisioningcluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

func machine(name string, edits ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name}}
	for _, edit := range edits {
		edit(m)
	}
	return m
}

func deletedFor(d time.Duration) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: now.Add(-d)} }
}

// hostSays sets what the host's object of a machine reports, as Cluster API copies it.
func hostSays(reason, message string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "SimMachine",
			Name: m.Name + "-host"}
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: "InfrastructureReady", Status: "False",
			Reason: reason, Message: message})
	}
}

func pausedMachine(m *clusterv1.Machine) {
	m.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""}
}

func internalError(m *clusterv1.Machine) {
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: "Deleting", Status: "True",
		Reason: "InternalError"})
}

// cloudSays sets what Cluster API says about the deletion of a machine.
func cloudSays(message string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: "Deleting", Status: "True",
			Reason: "WaitingForInfrastructureDeletion", Message: message})
	}
}

// ownSet is the mark of the test cluster's objects.
const ownSet = "8cad0aff80f89143607f2b002787b1b5008b3d93"

func controlPlane(set string) *rkev1.RKEControlPlane {
	return &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{
		UID: "of-the-control-plane", Labels: map[string]string{"objectset.rio.cattle.io/hash": set},
	}}
}

// wholeRemoval is what the end of a removal costs, in one pass.
var wholeRemoval = []string{"purge", "purge PodMachineTemplate", "disconnect", "purge management", "patch cluster"}

func TestRemove(t *testing.T) {
	t.Parallel()
	ours := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"objectset.rio.cattle.io/hash": ownSet}}}
	deleting := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}
	cases := map[string]struct {
		edit        func(*world)
		wantWrites  []string
		wantStatus  string
		wantReason  string
		wantMessage string
		wantAfter   time.Duration
	}{
		"Cluster API's cluster is deleted first": {
			edit:       func(w *world) { w.capiCluster = ours },
			wantWrites: []string{"delete capi cluster", "update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting",
			wantMessage: "waiting for cluster-api cluster [demo] to delete", wantAfter: 30 * time.Minute,
		},
		"a protected cluster keeps everything": {
			edit: func(w *world) {
				w.capiCluster, w.machines = ours, []*clusterv1.Machine{machine("a")}
				w.cluster.Annotations["drover.io/protect"] = "true"
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "False", wantReason: "Protected",
			wantMessage: "the cluster is protected and nothing of it is deleted: remove annotation " +
				"drover.io/protect to go on with the deletion, which cannot be taken back",
		},
		"the first machine by name is waited for": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{machine("b"), machine("a", deletedFor(10*time.Minute))}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting", wantMessage: "waiting for machine [a] to delete",
			wantAfter: 20 * time.Minute,
		},
		"a machine is overdue": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{machine("a", deletedFor(time.Hour))}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "False", wantReason: "DeletionOverdue",
			wantMessage: "waiting for machine [a] to delete: it should be gone by now. " +
				"drover diagnose names what holds it",
		},
		"an overdue machine repeats what is known": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{machine("a", deletedFor(time.Hour), hostSays("Deleting",
					"Removing SimMachine d/a-host starts after the end of the Job that creates it"),
					cloudSays("Waiting for SimMachine to be deleted\n(started at 2026-01-02T03:04:05Z)"))}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "False", wantReason: "DeletionOverdue",
			wantMessage: "waiting for machine [a] to delete: it should be gone by now. Its condition Deleting says: " +
				"Waiting for SimMachine to be deleted (started at …). Removing SimMachine d/a-host starts after the " +
				"end of the Job that creates it. drover diagnose names what holds it",
		},
		"a machine that is never deleted is overdue, too": {
			edit: func(w *world) {
				w.cluster.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Hour)}
				w.capiCluster, w.machines = deleting, []*clusterv1.Machine{machine("a")}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "False", wantReason: "DeletionOverdue",
			wantMessage: "waiting for machine [a] to delete: it should be gone by now. " +
				"drover diagnose names what holds it",
		},
		"a host that cannot be removed is named at once, before machines that make progress": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{
					machine("a", deletedFor(time.Minute), hostSays("Deleting", "Removing SimMachine d/a-host")),
					machine("b", deletedFor(time.Minute), hostSays("Deleting",
						"Removing SimMachine d/b-host: ErrImagePull: no such image")),
					machine("c", deletedFor(time.Minute), hostSays("CredentialMissing",
						"Removing SimMachine d/c-host failed: Secret g/s does not exist")),
				}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "False", wantReason: "CredentialMissing",
			wantMessage: "waiting for machine [c] to delete: Removing SimMachine d/c-host failed: Secret g/s does not " +
				"exist. Create the Secret again, or remove the host in the cloud and set annotation " +
				"provisioning.cattle.io/force-machine-remove=true on SimMachine c-host",
		},
		"a delay of a host is named": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{
					machine("a", deletedFor(time.Minute), hostSays("Deleting", "Removing SimMachine d/a-host")),
					machine("b", deletedFor(time.Minute), hostSays("Deleting",
						"Removing SimMachine d/b-host: ErrImagePull: no such image")),
				}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting",
			wantMessage: "waiting for machine [b] to delete: Removing SimMachine d/b-host: ErrImagePull: no such image",
			wantAfter:   29 * time.Minute,
		},
		"a failure from before the deletion is no obstacle": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{machine("a", deletedFor(time.Minute), hostSays("CredentialMissing",
					"Secret g/s does not exist"))}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting", wantMessage: "waiting for machine [a] to delete",
			wantAfter: 29 * time.Minute,
		},
		"a host that cannot be removed is named despite an error of Cluster API": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{
					machine("a", deletedFor(time.Hour)), machine("b", deletedFor(time.Hour), internalError,
						hostSays("Protected", "Removing SimMachine d/b-host waits: it is protected")),
				}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "False", wantReason: "Protected",
			wantMessage: "waiting for machine [b] to delete: Removing SimMachine d/b-host waits: it is protected. " +
				"Remove the annotation to continue",
		},
		"an overdue machine is named before paused and delayed ones": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{
					machine("a", deletedFor(time.Minute),
						hostSays("Deleting", "Removing SimMachine d/a-host: ErrImagePull")),
					machine("b", deletedFor(time.Hour), pausedMachine), machine("c", deletedFor(time.Hour)),
				}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "False", wantReason: "DeletionOverdue",
			wantMessage: "waiting for machine [c] to delete: it should be gone by now. " +
				"drover diagnose names what holds it",
		},
		"a paused machine is named before a delayed one, until that is overdue": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{
					machine("a", deletedFor(time.Minute)),
					machine("b", deletedFor(10*time.Minute), hostSays("Deleting",
						"Removing SimMachine d/b-host: ErrImagePull")),
					machine("c", deletedFor(time.Hour), pausedMachine),
				}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "Unknown", wantReason: "Paused",
			wantMessage: "waiting for machine [c] to delete: the Machine is paused. Remove its annotation " +
				"cluster.x-k8s.io/paused", wantAfter: 20 * time.Minute,
		},
		"a paused machine is not overdue": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{machine("a", deletedFor(time.Hour), pausedMachine)}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "Unknown", wantReason: "Paused",
			wantMessage: "waiting for machine [a] to delete: the Machine is paused. Remove its annotation " +
				"cluster.x-k8s.io/paused",
		},
		"a paused cluster keeps everything and says so": {
			edit: func(w *world) {
				w.capiCluster = deleting.DeepCopy()
				w.capiCluster.Name, w.capiCluster.Spec.Paused = "demo", new(true)
				w.machines = []*clusterv1.Machine{machine("a", deletedFor(time.Hour))}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "Unknown", wantReason: "Paused",
			wantMessage: "the Cluster API cluster [demo] is paused and nothing of it is deleted: set its spec.paused " +
				"to false and remove its annotation cluster.x-k8s.io/paused",
		},
		"the pause of an operation ends by itself": {
			edit: func(w *world) {
				w.capiCluster = deleting.DeepCopy()
				w.capiCluster.Spec.Paused = new(true)
				w.capiCluster.Annotations = map[string]string{"drover.io/paused-by-operation": "restore"}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting",
			wantMessage: "waiting for cluster-api cluster [demo] to delete", wantAfter: 30 * time.Minute,
		},
		"the remainder is overdue": {
			edit: func(w *world) {
				w.cluster.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Hour)}
				w.capiCluster = deleting.DeepCopy()
				w.capiCluster.Status.Conditions = []metav1.Condition{{Type: "Deleting", Status: "True",
					Message: "* MachineDeployments: demo-pool"}}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "False", wantReason: "DeletionOverdue",
			wantMessage: "waiting for cluster-api cluster [demo] to delete: it should be gone by now. Its condition " +
				"Deleting says: * MachineDeployments: demo-pool. drover diagnose names what holds it",
		},
		"a machine cannot be deleted": {
			edit: func(w *world) {
				w.capiCluster = deleting
				w.machines = []*clusterv1.Machine{machine("a", internalError)}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "False", wantReason: "Error",
			wantMessage: "error deleting machine [a], machine must be deleted manually",
		},
		"the control plane is waited for while it goes": {
			edit: func(w *world) {
				w.controlPlane = controlPlane(ownSet)
				w.controlPlane.DeletionTimestamp = &metav1.Time{Time: now}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting",
			wantMessage: "waiting for cluster-api cluster [demo] to delete", wantAfter: 30 * time.Minute,
		},
		"Drover deletes the control plane": {
			edit:       func(w *world) { w.controlPlane = controlPlane(ownSet) },
			wantWrites: []string{"delete control plane", "update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting",
			wantMessage: "waiting for cluster-api cluster [demo] to delete", wantAfter: 30 * time.Minute,
		},
		"Cluster API deletes the control plane": {
			edit:       func(w *world) { w.capiCluster, w.controlPlane = deleting, controlPlane(ownSet) },
			wantWrites: []string{"update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting",
			wantMessage: "waiting for cluster-api cluster [demo] to delete", wantAfter: 30 * time.Minute,
		},
		"machines go before the control plane": {
			edit: func(w *world) {
				w.controlPlane, w.machines = controlPlane(ownSet),
					[]*clusterv1.Machine{machine("a", deletedFor(10*time.Minute))}
			},
			wantWrites: []string{"update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting", wantMessage: "waiting for machine [a] to delete",
			wantAfter: 20 * time.Minute,
		},
		"the control plane of another manager stays": {
			edit:       func(w *world) { w.controlPlane = controlPlane("x") },
			wantWrites: wholeRemoval,
		},
		"the Cluster API cluster of another manager keeps its machines": {
			edit: func(w *world) {
				w.capiCluster, w.machines = &clusterv1.Cluster{}, []*clusterv1.Machine{machine("a")}
			},
			wantWrites: wholeRemoval,
		},
		"a control plane of Drover and a Cluster API cluster of another manager": {
			edit: func(w *world) {
				w.capiCluster, w.controlPlane, w.machines = &clusterv1.Cluster{}, controlPlane(ownSet),
					[]*clusterv1.Machine{machine("a")}
			},
			wantWrites: []string{"delete control plane", "update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting",
			wantMessage: "waiting for cluster-api cluster [demo] to delete", wantAfter: 30 * time.Minute,
		},
		"Cluster API's cluster was made a moment ago": {
			edit:       func(w *world) { w.uncached = true },
			wantWrites: []string{"delete capi cluster", "update cluster status"},
			wantStatus: "Unknown", wantReason: "Waiting",
			wantMessage: "waiting for cluster-api cluster [demo] to delete", wantAfter: 30 * time.Minute,
		},
		"nothing is left": {
			edit:       func(*world) {},
			wantWrites: wholeRemoval,
		},
		"templates cannot be looked for yet": {
			edit: func(w *world) { w.unserved = true }, wantAfter: servedSoon,
		},
		"a refused cluster whose kinds are not served": {
			edit:       func(w *world) { w.unserved = true; w.cluster.Status.ClusterName = "" },
			wantWrites: []string{"disconnect", "purge management", "patch cluster"},
		},
		"the Cluster API objects are gone already": {
			edit:       func(w *world) { w.cluster.Finalizers = []string{provv1.ProvisioningClusterFinalizer} },
			wantWrites: []string{"disconnect", "purge management", "patch cluster"},
		},
		"our finalizers are gone": {
			edit: func(w *world) { w.cluster.Finalizers = []string{"another"} },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(w *world) { w.cluster.DeletionTimestamp = &metav1.Time{Time: now} }, c.edit)
			if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.wantWrites, w.writes); diff != "" {
				t.Errorf("writes: %s", diff)
			}
			if w.after != c.wantAfter {
				t.Errorf("looks again after %v, want %v", w.after, c.wantAfter)
			}
			removed := conditions.Get(w.cluster.Status.Conditions, "Removed")
			switch {
			case c.wantStatus == "" && removed != nil:
				t.Errorf("condition %+v", removed)
			case c.wantStatus != "" && (removed.Status != c.wantStatus || removed.Reason != c.wantReason ||
				removed.Message != c.wantMessage):
				t.Errorf("condition %+v", removed)
			}
		})
	}
}

func TestRemove_ReleasesOurFinalizersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.cluster.DeletionTimestamp = &metav1.Time{Time: now}
		w.cluster.Finalizers = append(w.cluster.Finalizers, "another")
	})
	if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"another"}, w.cluster.Finalizers); diff != "" {
		t.Error(diff)
	}
}
