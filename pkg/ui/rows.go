package ui

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/status"
)

// Kinds of rows.
const (
	kindClusters = "clusters"
	kindMachines = "machines"
)

// rowKind is a kind of objects that become rows.
type rowKind struct {
	name     string
	version  schema.GroupVersion
	resource string
	list     func() runtime.Object
	// row returns the row of an object, nil for an object of another kind.
	row func(runtime.Object) any
}

func rowKinds() []rowKind {
	return []rowKind{
		{kindClusters, provv1.SchemeGroupVersion, "clusters", func() runtime.Object { return &provv1.ClusterList{} },
			func(object runtime.Object) any {
				if cluster, ok := object.(*provv1.Cluster); ok {
					return status.OfCluster(cluster)
				}
				return nil
			}},
		{kindMachines, clusterv1.GroupVersion, "machines", func() runtime.Object { return &clusterv1.MachineList{} },
			func(object runtime.Object) any {
				if machine, ok := object.(*clusterv1.Machine); ok {
					return status.OfMachine(machine)
				}
				return nil
			}},
	}
}

// encodeRow returns the row of an object as JSON, and its key. The object itself is not kept.
func (k rowKind) encodeRow(object runtime.Object) (key string, data []byte, err error) {
	named, ok := object.(metav1.Object)
	row := k.row(object)
	if !ok || row == nil {
		return "", nil, fmt.Errorf("the management cluster answered with a %T in place of %s", object, k.name)
	}
	data, err = json.Marshal(row)
	return named.GetNamespace() + "/" + named.GetName(), data, err
}

// listObject is a list of typed objects.
type listObject interface {
	runtime.Object
	metav1.ListInterface
}

// list reads a list in one page.
func list(ctx context.Context, client rest.Interface, namespace, resource string,
	options metav1.ListOptions, into listObject) error {
	return client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).
		VersionedParams(&options, metav1.ParameterCodec).Timeout(callTime).
		Do(ctx).Into(into)
}
