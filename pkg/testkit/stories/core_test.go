package stories

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const capiFinalizer = "cluster.cluster.x-k8s.io"

// core simulates Cluster API's core controllers. It adopts the objects of a cluster, creates the machines of pools, and
// deletes everything in order.
type core struct {
	t      *testing.T
	api    *memkube.Server
	client dynamic.Interface
}

func newCore(t *testing.T, api *memkube.Server) *core {
	t.Helper()
	client, err := dynamic.NewForConfig(api.Config("core"))
	if err != nil {
		t.Fatal(err)
	}
	return &core{t: t, api: api, client: client}
}

var (
	capiGroup     = clusterv1.GroupVersion
	clustersGVR   = capiGroup.WithResource("clusters")
	machinesGVR   = capiGroup.WithResource("machines")
	deploymentGVR = capiGroup.WithResource("machinedeployments")
	checksGVR     = capiGroup.WithResource("machinehealthchecks")
	rkeGVR        = rkev1.SchemeGroupVersion.WithResource("rkeclusters")
	controlGVR    = rkev1.SchemeGroupVersion.WithResource("rkecontrolplanes")
)

func (c *core) pass() {
	for _, cluster := range c.api.Objects(capiGroup.WithKind("Cluster")) {
		if cluster.GetDeletionTimestamp() == nil {
			c.adopt(cluster)
		} else {
			c.remove(cluster)
		}
	}
}

func (c *core) adopt(cluster *unstructured.Unstructured) {
	if len(cluster.GetFinalizers()) == 0 {
		cluster.SetFinalizers([]string{capiFinalizer})
		cluster = c.update(clustersGVR, cluster)
	}
	for _, owned := range []struct {
		gvr  schema.GroupVersionResource
		kind schema.GroupVersionKind
	}{
		{rkeGVR, rkev1.SchemeGroupVersion.WithKind("RKECluster")},
		{controlGVR, rkev1.SchemeGroupVersion.WithKind("RKEControlPlane")},
		{deploymentGVR, capiGroup.WithKind("MachineDeployment")},
		{checksGVR, capiGroup.WithKind("MachineHealthCheck")},
	} {
		for _, object := range c.api.Objects(owned.kind) {
			c.own(owned.gvr, object, cluster)
		}
	}
	for _, deployment := range c.api.Objects(capiGroup.WithKind("MachineDeployment")) {
		c.scale(deployment)
	}
}

func (c *core) own(gvr schema.GroupVersionResource, object, cluster *unstructured.Unstructured) {
	labels := object.GetLabels()
	if labels[clusterv1.ClusterNameLabel] == cluster.GetName() || object.GetDeletionTimestamp() != nil {
		return
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.ClusterNameLabel] = cluster.GetName()
	object.SetLabels(labels)
	object.SetOwnerReferences(append(object.GetOwnerReferences(), metav1.OwnerReference{
		APIVersion: cluster.GetAPIVersion(), Kind: "Cluster", Name: cluster.GetName(), UID: cluster.GetUID(),
	}))
	c.update(gvr, object)
}

// scale creates the machines of a pool. Each has a finalizer, like real machines.
func (c *core) scale(object *unstructured.Unstructured) {
	deployment := &clusterv1.MachineDeployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
		c.t.Fatal(err)
	}
	if deployment.DeletionTimestamp != nil {
		return
	}
	for i := range *deployment.Spec.Replicas {
		machine := &clusterv1.Machine{
			TypeMeta: metav1.TypeMeta{APIVersion: capiGroup.String(), Kind: "Machine"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: deployment.Namespace, Name: fmt.Sprintf("%s-%d", deployment.Name, i),
				Labels: deployment.Spec.Template.Labels, Annotations: deployment.Spec.Template.Annotations,
				Finalizers: []string{clusterv1.MachineFinalizer},
			},
			Spec: deployment.Spec.Template.Spec,
		}
		machine.Spec.Bootstrap.ConfigRef.Name, machine.Spec.Bootstrap.ConfigRef.Kind = machine.Name, "RKEBootstrap"
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(machine)
		if err != nil {
			c.t.Fatal(err)
		}
		_, err = c.client.Resource(machinesGVR).Namespace(machine.Namespace).Create(
			c.t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			c.t.Fatal(err)
		}
	}
}

// remove is one step of a cluster's removal. The order is: pools and their machines, control plane, infrastructure,
// cluster.
func (c *core) remove(cluster *unstructured.Unstructured) {
	for _, step := range []struct {
		gvr  schema.GroupVersionResource
		kind schema.GroupVersionKind
	}{
		{deploymentGVR, capiGroup.WithKind("MachineDeployment")},
		{machinesGVR, capiGroup.WithKind("Machine")},
		{controlGVR, rkev1.SchemeGroupVersion.WithKind("RKEControlPlane")},
		{rkeGVR, rkev1.SchemeGroupVersion.WithKind("RKECluster")},
	} {
		left := c.api.Objects(step.kind)
		for _, object := range left {
			if object.GetDeletionTimestamp() == nil {
				err := c.client.Resource(step.gvr).Namespace(object.GetNamespace()).Delete(c.t.Context(),
					object.GetName(), metav1.DeleteOptions{})
				if err != nil {
					c.t.Fatal(err)
				}
			} else if step.gvr == machinesGVR {
				object.SetFinalizers(nil)
				c.update(machinesGVR, object)
			}
		}
		if len(left) > 0 {
			return
		}
	}
	cluster.SetFinalizers(nil)
	c.update(clustersGVR, cluster)
}

func (c *core) update(gvr schema.GroupVersionResource, object *unstructured.Unstructured) *unstructured.Unstructured {
	updated, err := c.client.Resource(gvr).Namespace(object.GetNamespace()).Update(c.t.Context(), object,
		metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatalf("update %s %s: %v", gvr.Resource, object.GetName(), err)
	}
	return updated
}

func toUnstructured(content map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: content}
}
