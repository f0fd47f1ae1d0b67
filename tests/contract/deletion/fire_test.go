package deletion

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// patience limits each step on a busy computer. All clusters start together, which takes longer.
const (
	patience = 3 * time.Minute
	start    = 10 * time.Minute
)

// fire is a Cluster that is deleted in trouble.
type fire struct {
	*testing.T
	trouble
	// root is the stage of all clusters. st is the same stage for this one.
	root, st  *stage.Stage
	faults    *faults
	hold      *hold
	namespace string
	// machines is the number of the cluster's machines.
	machines int
}

// light creates the Cluster of a trouble in a namespace of its own.
func light(t *testing.T, st *stage.Stage, faults *faults, trouble trouble) *fire {
	t.Helper()
	f := &fire{T: t, trouble: trouble, root: st, st: st, faults: faults, namespace: plane.Namespace(t)}
	servers := max(1, trouble.servers)
	f.machines = int(servers) + 1
	pools := []provv1.RKEMachinePool{stage.Pool("server", "ec", servers), stage.Pool("worker", "w", 1)}
	for i := range pools {
		pools[i].DrainBeforeDelete = true
	}
	st.ClusterWith(f.namespace, f.name, stage.RKE2, func(cluster *provv1.Cluster) {
		if f.prepare != nil {
			f.prepare(f, cluster)
		}
	}, pools...)
	return f
}

// on returns the fire for its subtest.
func (f *fire) on(t *testing.T) *fire {
	sub := *f
	sub.T, sub.st = t, f.root.On(t)
	return &sub
}

// burn makes the trouble, deletes the Cluster, and waits for the end of the deletion.
func (f *fire) burn() {
	if !f.unready {
		plane.Until(f, start, func() string { return f.st.WaitingFor(f.namespace, f.name) })
		plane.Until(f, patience, f.withoutNode)
	}
	f.begin(f)
	identities := f.st.ManagementNames(f.namespace)
	begun := time.Now()
	f.must(f.st.Client.Delete(f.Context(), f.cluster()))
	if f.during != nil {
		f.during(f)
	}
	if len(f.says) > 0 {
		plane.Until(f, patience, f.unsaid)
		f.Logf("the Cluster says after %s: %s", time.Since(begun).Round(time.Second), f.removed().Message)
		f.expectKept()
	}
	if f.end != nil {
		f.end(f)
	}
	plane.Until(f, patience, func() string {
		if left := f.st.Gone(f.cluster()); left != "" {
			return left + ": " + f.removed().Message
		}
		return ""
	})
	f.Logf("deleted after %s", time.Since(begun).Round(time.Second))
	f.must(client.IgnoreNotFound(f.st.Client.Delete(f.Context(), f.credential())))
	f.st.AwaitNothingLeft(f.namespace, identities)
}

// withoutNode names a Machine whose node is not known yet.
func (f *fire) withoutNode() string {
	machines := &clusterv1.MachineList{}
	if err := f.st.Client.List(f.Context(), machines, client.InNamespace(f.namespace)); err != nil {
		return err.Error()
	}
	for i := range machines.Items {
		if !machines.Items[i].Status.NodeRef.IsDefined() {
			return "Machine " + machines.Items[i].Name + " has no node"
		}
	}
	return ""
}

// unsaid returns what condition Removed still lacks.
func (f *fire) unsaid() string {
	said := f.removed()
	for _, want := range f.says {
		if !strings.Contains(said.Message, want) {
			return fmt.Sprintf("condition Removed is %+v, and must contain %q", said, want)
		}
	}
	return ""
}

func (f *fire) removed() rkev1.GenericCondition {
	cluster := f.cluster()
	if err := f.st.Client.Get(f.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		return rkev1.GenericCondition{Message: err.Error()}
	}
	return stage.Condition(cluster.Status.Conditions, provv1.ConditionRemoved)
}

// expectKept fails unless every host is still recorded with its finalizer.
func (f *fire) expectKept() {
	f.Helper()
	kept := 0
	for _, host := range f.hosts() {
		for _, finalizer := range host.GetFinalizers() {
			if finalizer == rkev1.MachineProvisionFinalizer {
				kept++
			}
		}
	}
	if kept != f.machines {
		f.Errorf("%d of %d machines have their finalizer", kept, f.machines)
	}
}

func (f *fire) hosts() []unstructured.Unstructured {
	f.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("rke-machine.cattle.io/v1")
	list.SetKind("SimMachineList")
	f.must(f.st.Client.List(f.Context(), list, client.InNamespace(f.namespace)))
	return list.Items
}

// giveUp removes the hosts in the cloud, and tells Drover so.
func (f *fire) giveUp() {
	for _, machine := range f.st.World.Machines(f.namespace) {
		f.st.World.Remove(f.namespace, machine.Name)
	}
	for _, host := range f.hosts() {
		before := host.DeepCopy()
		annotations := host.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[rkev1.ForceMachineRemoveAnnotation] = "true"
		host.SetAnnotations(annotations)
		f.must(f.st.Client.Patch(f.Context(), &host, client.MergeFrom(before)))
	}
}

func (f *fire) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fire) cluster() *provv1.Cluster {
	return &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.name}}
}

func (f *fire) credential() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: credential},
		StringData: map[string]string{"simcredentialConfig-token": "t"}}
}

// driverSays sets the answer of the driver to all Jobs of the cluster.
func (f *fire) driverSays(answer string) { f.faults.drive(f.name, answer) }

// awaitJob waits until every machine has a Job that runs.
func (f *fire) awaitJob() {
	plane.Until(f, start, func() string {
		jobs, running := &batchv1.JobList{}, 0
		if err := f.st.Client.List(f.Context(), jobs, client.InNamespace(f.namespace)); err != nil {
			return err.Error()
		}
		for i := range jobs.Items {
			running += int(jobs.Items[i].Status.Active)
		}
		if running < f.machines {
			return fmt.Sprintf("%d of %d Jobs run", running, f.machines)
		}
		return ""
	})
}

// hang makes instructions of the cluster hang until the end of the test.
func (f *fire) hang(matches func(instruction string) bool) {
	f.hold = f.faults.hang(f.name, matches)
	ended := f.hold.ended
	f.Cleanup(func() { close(ended) })
}

// awaitHang waits until an instruction hangs.
func (f *fire) awaitHang() {
	f.Helper()
	select {
	case <-f.hold.began:
	case <-time.After(start):
		f.Fatal("no instruction hangs; the cluster waits: " + f.st.WaitingFor(f.namespace, f.name))
	}
}

// machine returns a Machine of a pool.
func (f *fire) machine(pool string) *clusterv1.Machine {
	f.Helper()
	machines := &clusterv1.MachineList{}
	f.must(f.st.Client.List(f.Context(), machines, client.InNamespace(f.namespace)))
	for i := range machines.Items {
		if strings.HasPrefix(machines.Items[i].Name, f.name+"-"+pool) {
			return &machines.Items[i]
		}
	}
	f.Fatalf("pool %s has no machine", pool)
	return nil
}

// deleteMachine deletes a Machine of a pool, and waits until Cluster API works on it.
func (f *fire) deleteMachine(pool string) {
	f.Helper()
	machine := f.machine(pool)
	f.must(f.st.Client.Delete(f.Context(), machine))
	plane.Until(f, patience, func() string {
		err := f.st.Client.Get(f.Context(), client.ObjectKeyFromObject(machine), machine)
		if client.IgnoreNotFound(err) != nil {
			return err.Error()
		}
		deleting := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineDeletingCondition)
		if err == nil && (deleting == nil || deleting.Status != metav1.ConditionTrue) {
			return "Cluster API has not seen the deletion of Machine " + machine.Name
		}
		return ""
	})
}

func (f *fire) core() *clusterv1.Cluster {
	f.Helper()
	core := &clusterv1.Cluster{}
	f.must(f.st.Client.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: f.name}, core))
	return core
}

// pause pauses the Cluster API cluster, or ends its pause.
func (f *fire) pause(paused bool) {
	f.Helper()
	f.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		core := f.core()
		core.Spec.Paused = &paused
		return f.st.Client.Update(f.Context(), core)
	}))
}
