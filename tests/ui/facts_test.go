package ui

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/tests/contract/stage"
)

// fact is the observable state of a machine.
type fact struct {
	uid string
	// installs is how often the distribution was installed or restarted.
	installs int
	// plan is the plan's files and instructions, without the copy of the spec that etcd snapshots contain.
	plan string
}

// facts returns the state of each machine of a namespace.
func facts(t *testing.T, st *stage.Stage, namespace string) map[string]fact {
	t.Helper()
	machines := &clusterv1.MachineList{}
	check(t, st.Client.List(t.Context(), machines, client.InNamespace(namespace)))
	hosts := st.World.Machines(namespace)
	out := map[string]fact{}
	for i := range machines.Items {
		m := &machines.Items[i]
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: namespace, Name: m.Name + "-machine-plan"}
		check(t, st.Client.Get(t.Context(), key, secret))
		delivered, err := nodeplan.Decode(secret.Data[nodeplan.KeyPlan])
		check(t, err)
		delivered.Files = slices.DeleteFunc(delivered.Files, render.IsSnapshotMetadata)
		plan, err := nodeplan.Encode(delivered)
		check(t, err)
		out[m.Name] = fact{string(m.UID), hosts[m.Name].Installs, string(plan)}
	}
	return out
}

// happenedTo classifies what happened to the machines.
func happenedTo(before, after map[string]fact) map[string]planner.Class {
	out := map[string]planner.Class{}
	var fresh, gone []string
	for name, was := range before {
		now, there := after[name]
		switch {
		case !there || now.uid != was.uid:
			gone = append(gone, name)
		case now.installs != was.installs:
			out[name] = planner.ClassRestart
		case now.plan != was.plan:
			out[name] = planner.ClassInPlace
		default:
			out[name] = planner.ClassNone
		}
	}
	for name, now := range after {
		if was, there := before[name]; !there || now.uid != was.uid {
			fresh = append(fresh, name)
		}
	}
	// A removed machine with a new one in its place was replaced.
	for i, name := range gone {
		out[name] = planner.ClassRemove
		if i < len(fresh) {
			out[name] = planner.ClassReplace
		}
	}
	for i := len(gone); i < len(fresh); i++ {
		out["new "+strconv.Itoa(i-len(gone))] = planner.ClassAdd
	}
	return out
}

// incomplete says what Drover and Cluster API have not done yet of the newest spec, or "".
func incomplete(t *testing.T, st *stage.Stage, namespace, name string) string {
	t.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: name}
	cluster, controlPlane := &provv1.Cluster{}, &rkev1.RKEControlPlane{}
	if waits := st.WaitingFor(namespace, name); waits != "" {
		return waits
	}
	check(t, st.Client.Get(t.Context(), key, cluster))
	check(t, st.Client.Get(t.Context(), key, controlPlane))
	switch {
	case cluster.Status.ObservedGeneration != cluster.Generation:
		return "the Cluster's generation is not observed"
	case controlPlane.Status.ObservedGeneration != controlPlane.Generation:
		return "the control plane's generation is not observed"
	case stage.Condition(controlPlane.Status.Conditions, rkev1.ConditionReconciled).Status == rkev1.ConditionFalse:
		return "the control plane is not reconciled"
	case stage.Condition(controlPlane.Status.Conditions, rkev1.ConditionReady).Status != rkev1.ConditionTrue:
		return "the control plane is not ready"
	}
	deployments := &clusterv1.MachineDeploymentList{}
	check(t, st.Client.List(t.Context(), deployments, client.InNamespace(namespace)))
	pools := map[string]int32{}
	for i := range cluster.Spec.RKEConfig.MachinePools {
		pool := &cluster.Spec.RKEConfig.MachinePools[i]
		pools[name+"-"+pool.Name] = *pool.Quantity
	}
	return deploymentsMissing(pools, deployments.Items) + machinesLeaving(t, st, namespace) +
		hostsOutdated(t, st, namespace)
}

func deploymentsMissing(pools map[string]int32, deployments []clusterv1.MachineDeployment) string {
	if len(pools) != len(deployments) {
		return fmt.Sprintf("%d deployments for %d pools; ", len(deployments), len(pools))
	}
	for i := range deployments {
		d := &deployments[i]
		want, known := pools[d.Name]
		if !known || d.Status.ObservedGeneration != d.Generation || *d.Spec.Replicas != want {
			return d.Name + " does not have the size of its pool yet; "
		}
		for _, count := range []*int32{d.Status.Replicas, d.Status.UpToDateReplicas, d.Status.ReadyReplicas} {
			if count == nil || *count != want {
				return d.Name + " has not all machines yet; "
			}
		}
	}
	return ""
}

func machinesLeaving(t *testing.T, st *stage.Stage, namespace string) string {
	t.Helper()
	machines := &clusterv1.MachineList{}
	check(t, st.Client.List(t.Context(), machines, client.InNamespace(namespace)))
	for i := range machines.Items {
		if machines.Items[i].DeletionTimestamp != nil {
			return machines.Items[i].Name + " is being deleted"
		}
	}
	return ""
}

// hostsOutdated says which host is not what its machine config requests, or "".
func hostsOutdated(t *testing.T, st *stage.Stage, namespace string) string {
	t.Helper()
	hosts := &unstructured.UnstructuredList{}
	hosts.SetAPIVersion("rke-machine.cattle.io/v1")
	hosts.SetKind("SimMachineList")
	check(t, st.Client.List(t.Context(), hosts, client.InNamespace(namespace)))
	for i := range hosts.Items {
		host := &hosts.Items[i]
		config := &unstructured.Unstructured{}
		config.SetAPIVersion("rke-machine-config.cattle.io/v1")
		config.SetKind("SimConfig")
		name := host.GetLabels()[clusterv1.MachineDeploymentNameLabel]
		check(t, st.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, config))
		is, found, _ := unstructured.NestedString(host.Object, "spec", "size")
		want, _, _ := unstructured.NestedString(config.Object, "size")
		if !found || is != want {
			return fmt.Sprintf("host %s has the size %q, want %q", host.GetName(), is, want)
		}
	}
	return ""
}

// restarts records the order in which machines restart.
type restarts struct {
	mu    sync.Mutex
	order []string
	end   func()
}

// watchRestarts begins to record. It looks more often than machines can restart one after the other.
func watchRestarts(st *stage.Stage, namespace string) *restarts {
	r, done, ended := &restarts{}, make(chan struct{}), make(chan struct{})
	r.end = sync.OnceFunc(func() { close(done); <-ended })
	before := st.World.Machines(namespace)
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				r.note(before, st.World.Machines(namespace))
			}
		}
	}()
	return r
}

func (r *restarts) note(before, now map[string]fakeMachine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, existed := before[name]
		if existed && now[name].Installs != was.Installs && !slices.Contains(r.order, name) {
			r.order = append(r.order, name)
		}
	}
}

// pools returns the pools of the machines that restarted, in the order of their first restarts.
func (r *restarts) pools(cluster string) []string {
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	return poolsOf(cluster, r.order)
}

// poolsOf returns the pools of machines, each once, in the order of the machines.
func poolsOf(cluster string, machines []string) []string {
	var out []string
	for _, name := range machines {
		pool, _, _ := strings.Cut(strings.TrimPrefix(name, cluster+"-"), "-")
		if !slices.Contains(out, pool) {
			out = append(out, pool)
		}
	}
	return out
}
