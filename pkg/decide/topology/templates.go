package topology

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// sharedBootstrapTemplate is the bootstrap template of all pools on Drover's own infrastructure. It does not contain
// the user data of pools.
func sharedBootstrapTemplate(cluster *provv1.Cluster) *rkev1.RKEBootstrapTemplate {
	return bootstrapTemplate(cluster, naming.BootstrapTemplate(cluster.Name), nil)
}

// poolBootstrapTemplate is the bootstrap template of one pool on another provider's infrastructure. New user data give
// it a new name, which replaces the machines.
func poolBootstrapTemplate(cluster *provv1.Cluster, pool *provv1.RKEMachinePool) *rkev1.RKEBootstrapTemplate {
	inline := ""
	if pool.Userdata != nil {
		inline = pool.Userdata.InlineUserdata
	}
	name := naming.PoolBootstrapTemplate(naming.MachineDeployment(cluster.Name, pool.Name), inline)
	return bootstrapTemplate(cluster, name, pool.Userdata.DeepCopy())
}

func bootstrapTemplate(cluster *provv1.Cluster, name string, userdata *rkev1.UserdataSpec) *rkev1.RKEBootstrapTemplate {
	object := &rkev1.RKEBootstrapTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: rkeVersion, Kind: "RKEBootstrapTemplate"},
		ObjectMeta: objectMeta(cluster, name),
		Spec: rkev1.RKEBootstrapTemplateSpec{
			ClusterName: cluster.Name,
			Template: rkev1.RKEBootstrap{Spec: rkev1.RKEBootstrapSpec{ClusterName: cluster.Name,
				Userdata: userdata}},
		},
	}
	object.Labels = map[string]string{rkev1.ClusterNameLabel: cluster.Name}
	return object
}

// machineTemplate is the immutable copy of a machine config from which machines are created. Only the fields in the
// pool's copy of the driver's schema count, and only they determine the name. (docs/wire/names.md#hashes-in-names.)
func machineTemplate(in Input, pool *provv1.RKEMachinePool, ref ConfigRef) (*unstructured.Unstructured, error) {
	config, exists := in.MachineConfigs[ref]
	if !exists {
		return nil, fmt.Errorf("%s %s does not exist", ref.Kind, ref.Name)
	}
	known, ok := poolSchema(pool)
	if !ok {
		return nil, fmt.Errorf("the pool has no copy of the schema of %s", ref.Kind)
	}
	spec := prune(config, known)
	deployment := naming.MachineDeployment(in.Cluster.Name, pool.Name)
	hash, err := naming.MachineTemplateHash(deployment, spec)
	if err != nil {
		return nil, err
	}
	if spec["common"], err = commonConfig(in.Cluster, pool); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"clusterName": in.Cluster.Name,
			"template":    map[string]any{"spec": spec},
		},
	}}
	object.SetGroupVersionKind(ref.TemplateGVK())
	object.SetNamespace(in.Cluster.Namespace)
	object.SetName(naming.MachineTemplate(deployment, hash))
	object.SetLabels(map[string]string{rkev1.ApplyPruneLabel: "false", rkev1.MachineTemplateHashLabel: hash})
	object.SetAnnotations(map[string]string{
		rkev1.ClonedFromGroupVersionAnnotation: ref.APIVersion,
		rkev1.ClonedFromKindAnnotation:         ref.Kind,
		rkev1.ClonedFromNameAnnotation:         ref.Name,
	})
	return object, nil
}

// prune copies the top-level fields of a machine config that are in the driver's schema. It therefore drops apiVersion,
// kind, metadata and status.
func prune(config *unstructured.Unstructured, known *mgmtv3.DynamicSchemaSpec) map[string]any {
	spec := map[string]any{}
	for key, value := range config.Object {
		if _, wanted := known.ResourceFields[key]; wanted {
			spec[key] = runtime.DeepCopyJSONValue(value)
		}
	}
	return spec
}

// commonConfig is what a pool adds to every machine, whatever its driver. It may change without replacing machines.
func commonConfig(cluster *provv1.Cluster, pool *provv1.RKEMachinePool) (map[string]any, error) {
	common := pool.RKECommonNodeConfig
	common.CloudCredentialSecretName = effectiveCredential(cluster, pool)
	encoded, err := json.Marshal(common)
	if err != nil {
		return nil, fmt.Errorf("encode labels and taints: %w", err)
	}
	asMap := map[string]any{}
	if err := json.Unmarshal(encoded, &asMap); err != nil {
		return nil, fmt.Errorf("encode labels and taints: %w", err)
	}
	return asMap, nil
}
