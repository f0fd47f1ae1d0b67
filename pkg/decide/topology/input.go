package topology

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// Groups and versions that generated objects have or refer to. (docs/wire/capi.md#objects-of-a-cluster.)
const (
	// MachineConfigVersion is the apiVersion of machine configs of node
	// drivers. A pool whose reference has no apiVersion means this one.
	MachineConfigVersion = "rke-machine-config.cattle.io/v1"

	machineGroup      = "rke-machine.cattle.io"
	machineVersion    = machineGroup + "/v1"
	rkeGroup          = "rke.cattle.io"
	rkeVersion        = rkeGroup + "/v1"
	provisioningGroup = "provisioning.cattle.io/v1"

	configSuffix = "Config"
)

// ConfigRef names the machine config of a pool. It is always in the namespace of
// its cluster; the namespace of the reference a user wrote is ignored.
type ConfigRef struct {
	APIVersion, Kind, Name string
}

// GVK is the group, version and kind of the machine config.
func (r ConfigRef) GVK() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// TemplateGVK is the kind of the machine templates made from the machine config.
func (r ConfigRef) TemplateGVK() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(machineVersion, strings.TrimSuffix(r.Kind, configSuffix)+"MachineTemplate")
}

// SchemaName is the name of the DynamicSchema that describes the machine config.
func (r ConfigRef) SchemaName() string { return strings.ToLower(r.Kind) }

// IndexKey is the key of the cache index by-node-infra, by which an event of a
// machine config finds its clusters.
func (r ConfigRef) IndexKey(namespace string) string {
	return strings.Join([]string{r.APIVersion, r.Kind, namespace, r.Name}, "/")
}

// Input is everything the objects of a cluster follow from.
type Input struct {
	// Cluster as the user wrote it and Prepare completed it. Desired reads
	// status.clusterName, which must be set; Validate does not.
	Cluster *provv1.Cluster
	// MachineConfigs that exist, of those ConfigRefs lists.
	MachineConfigs map[ConfigRef]*unstructured.Unstructured
	// Schemas that exist, by name, of those ConfigRefs lists.
	Schemas map[string]*mgmtv3.DynamicSchemaSpec
	// Credentials that exist, by reference as the user wrote it, of those
	// Credentials lists.
	Credentials map[string]bool
	// Replicas of the MachineDeployments that exist, by name. They count for
	// pools whose size somebody else decides: an autoscaler, or nobody.
	Replicas map[string]int32
	// Roles are those of the machines of the MachineDeployments, by name, that have
	// machines. Their pools keep them: see validateKeptRoles.
	Roles map[string]Servers
	// Registered are the roles of machines that came by themselves and belong to
	// no pool. They count when LacksServers.
	Registered Servers
	// RegisteredMembers is how many of them have etcd. They count for the quorum
	// that health checks keep. Both are known when CountsRegistered.
	RegisteredMembers int
	// Restoring tells that a restore of etcd is at work, or has left machines stopped. It stops every node, and the restored data may know none of
	// the newest: no machine is replaced for that.
	Restoring bool
	// alone leaves out what the cluster refers to: see ValidateAlone.
	alone bool
	// all does not leave out checks because of what others find: see ValidateBefore.
	all bool
}

// configRef returns the machine config a pool refers to, and whether a node
// driver of ours stands behind it. An incomplete reference gives false.
func configRef(pool *provv1.RKEMachinePool) (ConfigRef, bool) {
	if pool.NodeConfig == nil || pool.NodeConfig.Kind == "" || pool.NodeConfig.Name == "" {
		return ConfigRef{}, false
	}
	ref := ConfigRef{APIVersion: pool.NodeConfig.APIVersion, Kind: pool.NodeConfig.Kind, Name: pool.NodeConfig.Name}
	if ref.APIVersion == "" {
		ref.APIVersion = MachineConfigVersion
	}
	return ref, ref.APIVersion == MachineConfigVersion
}

// ConfigRefs lists the machine configs of node drivers that the pools of a
// cluster refer to, without repetition, sorted.
func ConfigRefs(cluster *provv1.Cluster) []ConfigRef {
	seen := map[ConfigRef]bool{}
	var refs []ConfigRef
	for i := range pools(cluster) {
		if ref, ours := configRef(&pools(cluster)[i]); ours && !seen[ref] {
			seen[ref] = true
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b ConfigRef) int { return cmp.Compare(a.IndexKey(""), b.IndexKey("")) })
	return refs
}

// InfraKeys lists the keys of the cache index by-node-infra for a cluster: one
// for each machine config or foreign template that its pools refer to.
func InfraKeys(cluster *provv1.Cluster) []string {
	seen := map[string]bool{}
	var keys []string
	for i := range pools(cluster) {
		ref, _ := configRef(&pools(cluster)[i])
		if key := ref.IndexKey(cluster.Namespace); ref.Name != "" && !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Credentials lists the references to cloud credentials that the pools of a
// cluster use, as the user wrote them, without repetition, sorted.
func Credentials(cluster *provv1.Cluster) []string {
	seen := map[string]bool{}
	var refs []string
	for i := range pools(cluster) {
		pool := &pools(cluster)[i]
		if _, ours := configRef(pool); !ours {
			continue
		}
		if ref := effectiveCredential(cluster, pool); ref != "" && !seen[ref] {
			seen[ref] = true
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs
}

// CredentialSecret says which Secret a reference to a cloud credential means.
// Only the prefix "cattle-global-data:" names another namespace; anything else
// is a name in the cluster's namespace. (docs/wire/secrets.md#cloud-credentials.)
func CredentialSecret(clusterNamespace, reference string) (namespace, name string) {
	if name, global := strings.CutPrefix(reference, provv1.GlobalDataNamespace+":"); global {
		return provv1.GlobalDataNamespace, name
	}
	return clusterNamespace, reference
}

func effectiveCredential(cluster *provv1.Cluster, pool *provv1.RKEMachinePool) string {
	if pool.CloudCredentialSecretName != "" {
		return pool.CloudCredentialSecretName
	}
	return cluster.Spec.CloudCredentialSecretName
}

func pools(cluster *provv1.Cluster) []provv1.RKEMachinePool {
	if cluster.Spec.RKEConfig == nil {
		return nil
	}
	return cluster.Spec.RKEConfig.MachinePools
}

// poolSchema reads the copy of the driver's schema that a pool carries. A copy
// that is empty or unreadable counts as none.
func poolSchema(pool *provv1.RKEMachinePool) (*mgmtv3.DynamicSchemaSpec, bool) {
	if pool.DynamicSchemaSpec == "" {
		return nil, false
	}
	spec := &mgmtv3.DynamicSchemaSpec{}
	if err := json.Unmarshal([]byte(pool.DynamicSchemaSpec), spec); err != nil {
		return nil, false
	}
	return spec, true
}
