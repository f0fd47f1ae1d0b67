package hold

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kind is a kind whose status may wait. It is the name of the controller that owns the status.
type kind string

const (
	machines    kind = "machine"
	machineSets kind = "machineset"
	deployments kind = "machinedeployment"
	clusters    kind = "cluster"
)

// key identifies an object.
type key struct {
	kind kind
	types.NamespacedName
}

// kindOf returns the kind of a typed object. It is empty for other kinds and for other forms.
func kindOf(obj runtime.Object) kind {
	switch obj.(type) {
	case *clusterv1.Machine:
		return machines
	case *clusterv1.MachineSet:
		return machineSets
	case *clusterv1.MachineDeployment:
		return deployments
	case *clusterv1.Cluster:
		return clusters
	}
	return ""
}

// kindOfForm returns the kind of an object that is typed or unstructured.
func kindOfForm(obj runtime.Object) kind {
	if _, ok := obj.(runtime.Unstructured); !ok {
		return kindOf(obj)
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.GroupVersion() != clusterv1.GroupVersion {
		return ""
	}
	return map[string]kind{"Machine": machines, "MachineSet": machineSets, "MachineDeployment": deployments,
		"Cluster": clusters}[gvk.Kind]
}

// holds reports whether a list may have objects of the kinds, with a status.
func holds(list client.ObjectList) bool {
	switch list.(type) {
	case *clusterv1.MachineList, *clusterv1.MachineSetList, *clusterv1.MachineDeploymentList, *clusterv1.ClusterList,
		*unstructured.UnstructuredList:
		return true
	}
	return false
}

// empty returns an object of the kind.
func (k kind) empty(name types.NamespacedName) client.Object {
	var out client.Object
	switch k {
	case machines:
		out = &clusterv1.Machine{}
	case machineSets:
		out = &clusterv1.MachineSet{}
	case deployments:
		out = &clusterv1.MachineDeployment{}
	case clusters:
		out = &clusterv1.Cluster{}
	}
	out.SetNamespace(name.Namespace)
	out.SetName(name.Name)
	return out
}

// list returns a list of the kind.
func (k kind) list() client.ObjectList {
	switch k {
	case machines:
		return &clusterv1.MachineList{}
	case machineSets:
		return &clusterv1.MachineSetList{}
	case deployments:
		return &clusterv1.MachineDeploymentList{}
	case clusters:
	}
	return &clusterv1.ClusterList{}
}

// copyStatus gives an object the status of another one of its type.
func copyStatus(to, from client.Object) {
	switch typed := to.(type) {
	case *clusterv1.Machine:
		from.(*clusterv1.Machine).Status.DeepCopyInto(&typed.Status)
	case *clusterv1.MachineSet:
		from.(*clusterv1.MachineSet).Status.DeepCopyInto(&typed.Status)
	case *clusterv1.MachineDeployment:
		from.(*clusterv1.MachineDeployment).Status.DeepCopyInto(&typed.Status)
	case *clusterv1.Cluster:
		from.(*clusterv1.Cluster).Status.DeepCopyInto(&typed.Status)
	}
}

// readStatus returns the status of a typed object.
func readStatus(obj client.Object) (status, error) {
	var typed any
	switch o := obj.(type) {
	case *clusterv1.Machine:
		typed = &o.Status
	case *clusterv1.MachineSet:
		typed = &o.Status
	case *clusterv1.MachineDeployment:
		typed = &o.Status
	case *clusterv1.Cluster:
		typed = &o.Status
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("read the status of %T: %w", obj, err)
	}
	return out, nil
}

// writeStatus gives a typed object that status.
func writeStatus(obj client.Object, s status) error {
	fresh := kindOf(obj).empty(client.ObjectKeyFromObject(obj))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": s}, fresh); err != nil {
		return fmt.Errorf("set the status of %T: %w", obj, err)
	}
	copyStatus(obj, fresh)
	return nil
}
