package topology

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Desired returns the objects of a cluster in the order of their application: infrastructure cluster, control plane,
// Cluster API cluster, then for each pool its templates, MachineDeployment and health check.
// (docs/wire/capi.md#objects-of-a-cluster.)
//
// A Cluster without rkeConfig has no objects. The cluster must be valid (Validate) and prepared (Prepare); otherwise
// Desired returns an error. For errors that are Tolerated it uses a safe value instead.
func Desired(in Input) ([]runtime.Object, error) {
	cluster := in.Cluster
	if cluster.Spec.RKEConfig == nil {
		return nil, nil
	}
	if cluster.Status.ClusterName == "" {
		return nil, fmt.Errorf("cluster %s/%s has no management cluster name yet", cluster.Namespace, cluster.Name)
	}
	infraRef := clusterv1.ContractVersionedObjectReference{APIGroup: rkeGroup, Kind: "RKECluster", Name: cluster.Name}
	var objects []runtime.Object
	if external := cluster.Spec.RKEConfig.InfrastructureRef; external != nil {
		group := schema.FromAPIVersionAndKind(external.APIVersion, external.Kind).Group
		infraRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: external.Kind, Name: external.Name}
	} else {
		objects = append(objects, rkeCluster(cluster))
	}
	controlPlane, err := rkeControlPlane(in)
	if err != nil {
		return nil, err
	}
	objects = append(objects, controlPlane, capiCluster(cluster, infraRef))

	ownInfra := infraRef.APIGroup == rkeGroup
	if ownInfra && len(pools(cluster)) > 0 {
		objects = append(objects, sharedBootstrapTemplate(cluster))
	}
	in = safe(in)
	for i := range pools(in.Cluster) {
		pool := &pools(in.Cluster)[i]
		ofPool, err := poolObjects(in, pool, ownInfra)
		if err != nil {
			return nil, fmt.Errorf("machine pool %s: %w", pool.Name, err)
		}
		objects = append(objects, ofPool...)
	}
	return objects, nil
}

func objectMeta(cluster *provv1.Cluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name}
}

// rkeCluster is the infrastructure cluster. Its own controller sets its endpoint.
func rkeCluster(cluster *provv1.Cluster) *rkev1.RKECluster {
	const key = rkev1.DeleteMissingCustomMachinesAfterAnnotation
	object := &rkev1.RKECluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: rkeVersion, Kind: "RKECluster"},
		ObjectMeta: objectMeta(cluster, cluster.Name),
	}
	object.Annotations = map[string]string{key: cluster.Annotations[key]}
	return object
}

func capiCluster(cluster *provv1.Cluster, infraRef clusterv1.ContractVersionedObjectReference) *clusterv1.Cluster {
	object := &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: objectMeta(cluster, cluster.Name),
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: infraRef,
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: rkeGroup, Kind: "RKEControlPlane", Name: cluster.Name,
			},
		},
	}
	object.OwnerReferences = []metav1.OwnerReference{OwnerReference(cluster, true)}
	object.Annotations = autoscalerAnnotations(cluster)
	return object
}

// AutoscalerPaused reports whether the user has paused the autoscaler. A pause annotation with "false" does not pause.
func AutoscalerPaused(cluster *provv1.Cluster) bool {
	paused := cluster.Annotations[provv1.ClusterAutoscalerPausedAnnotation]
	off, err := strconv.ParseBool(paused)
	return paused != "" && (err != nil || off)
}

// autoscalerAnnotations show the state of the autoscaler on the CAPI Cluster.
func autoscalerAnnotations(cluster *provv1.Cluster) map[string]string {
	if AutoscalerPaused(cluster) {
		return map[string]string{provv1.ClusterAutoscalerPausedAnnotation: "true"}
	}
	for i := range pools(cluster) {
		if Autoscaled(&pools(cluster)[i]) {
			return map[string]string{provv1.ClusterAutoscalerEnabledAnnotation: "true"}
		}
	}
	return nil
}

// Autoscaled reports whether an autoscaler sizes a pool.
func Autoscaled(pool *provv1.RKEMachinePool) bool {
	return pool.AutoscalingMinSize != nil && pool.AutoscalingMaxSize != nil
}
