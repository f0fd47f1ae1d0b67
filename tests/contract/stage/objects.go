package stage

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
)

// createOrUpdate creates or updates an object with mutate. It reports whether it created the object.
func createOrUpdate(st *Stage, object client.Object, mutate func()) (created bool, err error) {
	err = st.Client.Get(st.t.Context(), client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		mutate()
		return true, st.Client.Create(st.t.Context(), object)
	}
	if err != nil {
		return false, err
	}
	mutate()
	return false, st.Client.Update(st.t.Context(), object)
}

// simConfig is the API version of the machine configs of the driver `sim`.
const simConfig = "rke-machine-config.cattle.io/v1"

// kindsMissing lists the kinds, each given as "GROUP/VERSION KIND", that cannot be listed yet.
func (st *Stage) kindsMissing(kinds ...string) string {
	var missing []string
	for _, text := range kinds {
		apiVersion, kind, _ := strings.Cut(text, " ")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(apiVersion)
		list.SetKind(kind + "List")
		if err := st.Client.List(st.t.Context(), list, client.InNamespace("default")); err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", kind, err))
		}
	}
	return strings.Join(missing, "; ")
}

// AwaitKinds waits until kinds of drivers, each given as "GROUP/VERSION KIND", are served.
func (st *Stage) AwaitKinds(kinds ...string) {
	st.t.Helper()
	plane.Until(st.t, time.Minute, func() string { return st.kindsMissing(kinds...) })
}

// Pool returns a machine pool of the driver `sim`. Its roles are some of the letters e, c, w.
func Pool(name, roles string, quantity int32) provv1.RKEMachinePool {
	return provv1.RKEMachinePool{
		Name: name, Quantity: &quantity,
		EtcdRole: strings.Contains(roles, "e"), ControlPlaneRole: strings.Contains(roles, "c"),
		WorkerRole: strings.Contains(roles, "w"),
		NodeConfig: &corev1.ObjectReference{Kind: "SimConfig"},
	}
}

// Cluster creates a Cluster and one machine config for each of its pools.
func (st *Stage) Cluster(namespace, name, version string, pools ...provv1.RKEMachinePool) *provv1.Cluster {
	st.t.Helper()
	return st.ClusterWith(namespace, name, version, func(*provv1.Cluster) {}, pools...)
}

// ClusterWith is Cluster with an edit of the Cluster before its creation.
func (st *Stage) ClusterWith(namespace, name, version string, edit func(*provv1.Cluster),
	pools ...provv1.RKEMachinePool) *provv1.Cluster {
	st.t.Helper()
	for i := range pools {
		pools[i].NodeConfig.Name = name + "-" + pools[i].Name
		config := &unstructured.Unstructured{Object: map[string]any{"size": "small", "disk": "20"}}
		config.SetAPIVersion(simConfig)
		config.SetKind("SimConfig")
		config.SetNamespace(namespace)
		config.SetName(pools[i].NodeConfig.Name)
		if err := st.Client.Create(st.t.Context(), config); err != nil {
			st.t.Fatalf("create machine config: %v", err)
		}
	}
	cluster := &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: provv1.ClusterSpec{
			KubernetesVersion: version,
			RKEConfig:         &provv1.RKEConfig{MachinePools: pools},
		},
	}
	edit(cluster)
	if err := st.Client.Create(st.t.Context(), cluster); err != nil {
		st.t.Fatalf("create cluster: %v", err)
	}
	return cluster
}

// Namespace creates a namespace that stays until its management plane ends. Unlike with plane.Namespace, two planes may
// have the same name.
func (st *Stage) Namespace(name string) {
	st.t.Helper()
	if err := st.Client.Create(st.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		st.t.Fatal(err)
	}
}

// WaitingFor returns what a cluster still lacks to be ready, or "".
func (st *Stage) WaitingFor(namespace, name string) string {
	cluster := &provv1.Cluster{}
	if err := st.Client.Get(st.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, cluster); err != nil {
		return err.Error()
	}
	ready := Condition(cluster.Status.Conditions, provv1.ConditionReady)
	if cluster.Status.Ready && ready.Status == rkev1.ConditionTrue {
		return ""
	}
	var texts []string
	for _, c := range cluster.Status.Conditions {
		if c.Status != rkev1.ConditionTrue || c.Message != "" {
			texts = append(texts, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	return fmt.Sprintf("%s: status.ready %t; %s", name, cluster.Status.Ready, strings.Join(texts, "; "))
}

// Edit changes a cluster as its user does.
func (st *Stage) Edit(namespace, name string, change func(*provv1.Cluster)) {
	st.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cluster := &provv1.Cluster{}
		if err := st.Client.Get(st.t.Context(), client.ObjectKey{Namespace: namespace, Name: name},
			cluster); err != nil {
			return err
		}
		change(cluster)
		return st.Client.Update(st.t.Context(), cluster)
	})
	if err != nil {
		st.t.Fatal(err)
	}
}

// Condition returns the condition of a type, or its zero value.
func Condition(conditions []rkev1.GenericCondition, kind string) rkev1.GenericCondition {
	for _, c := range conditions {
		if c.Type == kind {
			return c
		}
	}
	return rkev1.GenericCondition{}
}

// Gone returns "" if an object is gone, and otherwise what holds it.
func (st *Stage) Gone(object client.Object) string {
	err := st.Client.Get(st.t.Context(), client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	gvk, _ := apiutil.GVKForObject(object, st.Client.Scheme())
	return fmt.Sprintf("%s %s has the finalizers %v", gvk.Kind, object.GetName(), object.GetFinalizers())
}
