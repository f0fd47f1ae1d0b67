package machineprovision_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// mostWrites is how many writes a cluster of three machines may cost, from the Machines to their nodes. The numbers may
// only fall.
var mostWrites = map[string]int{
	"create jobs.batch":                                        3,
	"create rolebindings.rbac.authorization.k8s.io":            6, // of the agent and of the Job
	"create roles.rbac.authorization.k8s.io":                   6,
	"create secrets":                                           18, // plan, token, data, state, environment and files
	"create serviceaccounts":                                   9,
	"delete jobs.batch":                                        3,
	"delete rolebindings.rbac.authorization.k8s.io":            3,
	"delete roles.rbac.authorization.k8s.io":                   3,
	"delete secrets":                                           6,
	"delete serviceaccounts":                                   3,
	"patch digitaloceanmachines.rke-machine.cattle.io":         3,  // provider ID
	"patch digitaloceanmachines.rke-machine.cattle.io/status":  3,  // addresses and provisioned
	"patch machines.cluster.x-k8s.io":                          3,  // the hook of etcd machines
	"update digitaloceanmachines.rke-machine.cattle.io":        3,  // mark
	"update digitaloceanmachines.rke-machine.cattle.io/status": 12, // intent, Job, its end, provisioned
	"update rkebootstraps.rke.cattle.io":                       3,  // the finalizer of etcd machines
	"update rkebootstraps.rke.cattle.io/status":                3,
	"update secrets":                                           3, // the token is invalid
}

// TestStory_ThreeMachinesCostFewWrites counts what Drover writes while three machines of a cluster become nodes.
func TestStory_ThreeMachinesCostFewWrites(t *testing.T) {
	tell(t, func(w *world) {
		w.run()
		w.api.ResetLog()
		for _, name := range []string{"m1", "m2", "m3"} {
			w.addMachine(name, true)
		}
		w.run()
		for _, name := range []string{"m1", "m2", "m3"} {
			if w.made[name] != 1 || !w.settled(name) {
				t.Errorf("machine %s is created %d times: %+v", name, w.made[name], w.status(name))
			}
		}
		counts, total := map[string]int{}, 0
		for _, entry := range w.api.Writes(manager) {
			if entry.Code >= 300 {
				t.Errorf("a write fails: %d %s", entry.Code, entry)
			}
			words := strings.Fields(entry.String())
			counts[words[1]+" "+words[2]]++
			total++
		}
		for _, kind := range slices.Sorted(maps.Keys(counts)) {
			t.Logf("%3d %s", counts[kind], kind)
			if counts[kind] > mostWrites[kind] {
				t.Errorf("%d times %s, want at most %d", counts[kind], kind, mostWrites[kind])
			}
		}
		t.Logf("%d writes for three machines", total)
	})
}

// addExtension creates the Role that gives the accounts of Jobs more rights.
func (w *world) addExtension() {
	w.Helper()
	_, err := w.c.RBAC.Role().Create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: machinejob.ExtensionRole}})
	must(w.T, err)
}

func (w *world) binding() *rbacv1.RoleBinding {
	w.Helper()
	binding, err := clients.Optional(w.c.RBAC.RoleBinding().Get(namespace, "m1-machine-provision-extension",
		metav1.GetOptions{}))
	must(w.T, err)
	return binding
}

// TestStory_ExtensionIsBoundWhereItExists: the account of a Job gets the rights of the operator's Role. They go with
// the account.
func TestStory_ExtensionIsBoundWhereItExists(t *testing.T) {
	tell(t, func(w *world) {
		w.addExtension()
		w.run()
		w.hold = true
		w.addMachine("m1", false)
		w.run()
		if b := w.binding(); b == nil || b.RoleRef.Name != machinejob.ExtensionRole ||
			b.Subjects[0].Name != "m1-machine-provision" {
			t.Errorf("the binding is %+v", b)
		}
		must(t, w.c.RBAC.Role().Delete(namespace, machinejob.ExtensionRole, nil))
		w.restart()
		w.run()
		if w.binding() == nil {
			t.Error("the binding is deleted while the Job runs")
		}
		w.hold = false
		w.run()
		if b := w.binding(); b != nil || w.made["m1"] != 1 {
			t.Errorf("created %d times, the binding is %+v", w.made["m1"], b)
		}
	})
}

// TestStory_JobOfAnEarlierReleaseKeepsItsBinding: an upgrade while a Job runs changes nothing for that Job, and nothing
// of it remains.
func TestStory_JobOfAnEarlierReleaseKeepsItsBinding(t *testing.T) {
	for name, unreported := range map[string]bool{"before the status shows the Job": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				w.stop()
				w.earlier = true
				w.start()
				w.run()
				w.hold = true
				w.addMachine("m1", false)
				w.run()
				w.stop()
				if unreported {
					w.forgetJob("m1")
				}
				w.earlier = false
				w.api.ResetLog()
				w.start()
				w.run()
				writes := w.api.Writes(manager)
				if w.binding() == nil || !unreported && len(writes) > 0 {
					t.Errorf("the binding is %+v, the upgrade writes %v", w.binding(), writes)
				}
				w.hold = false
				w.run()
				if diff := cmp.Diff(afterJoin, w.owned()); diff != "" || w.made["m1"] != 1 {
					t.Errorf("created %d times, objects (-want +got):\n%s", w.made["m1"], diff)
				}
			})
		})
	}
}

// forgetJob deletes the Job whose name the status shows and takes the name back, as if caches did not show the Job.
func (w *world) forgetJob(name string) {
	w.Helper()
	must(w.T, w.c.Batch.Job().Delete(namespace, name+"-machine-provision", nil))
	infra := w.machine(name)
	unstructured.RemoveNestedField(infra.Object, "status", "jobName")
	_, err := w.infra.UpdateStatus(w.Context(), infra, metav1.UpdateOptions{})
	must(w.T, err)
}
