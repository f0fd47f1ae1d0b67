package topology

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
)

// Groups and versions of generated objects and their references. (docs/wire/capi.md#objects-of-a-cluster.)
const (
	// MachineConfigVersion is the apiVersion of machine configs of node drivers. A pool's reference without an
	// apiVersion means this one.
	MachineConfigVersion = "rke-machine-config.cattle.io/v1"

	machineGroup      = driverschema.MachineGroup
	machineVersion    = machineGroup + "/v1"
	rkeGroup          = "rke.cattle.io"
	rkeVersion        = rkeGroup + "/v1"
	provisioningGroup = "provisioning.cattle.io/v1"

	configSuffix = "Config"
)

// ConfigRef names the machine config of a pool. The config is always in the cluster's namespace; the namespace in the
// user's reference is ignored.
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

// IndexKey is the key of the cache index by-node-infra. With it, an event of a machine config finds its clusters.
func (r ConfigRef) IndexKey(namespace string) string {
	return strings.Join([]string{r.APIVersion, r.Kind, namespace, r.Name}, "/")
}

// Input is everything that determines the objects of a cluster.
type Input struct {
	// Cluster is the user's Cluster, completed by Prepare. Desired needs status.clusterName; Validate does not.
	Cluster *provv1.Cluster
	// MachineConfigs are the existing ones from ConfigRefs.
	MachineConfigs map[ConfigRef]*unstructured.Unstructured
	// Schemas are the existing ones for ConfigRefs, by name.
	Schemas map[string]*mgmtv3.DynamicSchemaSpec
	// Credentials are the existing ones from Credentials, by the reference as the user wrote it.
	Credentials map[string]bool
	// Unserved are those of ProviderKinds that no CustomResourceDefinition has.
	Unserved []schema.GroupKind
	// Replicas are those of the existing MachineDeployments, by name. They count for pools without a fixed size: an
	// autoscaler or the user scales them.
	Replicas map[string]int32
	// Roles are the roles of the machines of each MachineDeployment that has machines, by name. Their pools keep them:
	// see validateKeptRoles.
	Roles map[string]Servers
	// Registered are the roles of machines that registered themselves and belong to no pool. They count when
	// LacksServers.
	Registered Servers
	// RegisteredMembers is how many of them have etcd. They count for the quorum that health checks protect. The caller
	// sets both when CountsRegistered.
	RegisteredMembers int
	// Restoring is true while a restore of etcd runs, or has left machines stopped. A restore stops every node, and the
	// restored data may lack the newest nodes. No machine is replaced for that.
	Restoring bool
	// PodSecurity is the PodSecurityAdmissionConfigurationTemplate from PodSecurityTemplate, nil if it does not exist.
	PodSecurity *mgmtv3.PodSecurityAdmissionConfigurationTemplate
	// PodSecurityStored means that the cluster's Secret contains a Pod Security configuration: see HasPodSecurity.
	PodSecurityStored bool
	// alone skips the objects that the cluster refers to: see ValidateAlone.
	alone bool
	// all runs the checks that errors of other checks would skip: see ValidateBefore.
	all bool
}

// configRef returns the machine config that a pool refers to, and whether it belongs to one of Drover's node drivers.
// An incomplete reference gives false.
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

// ConfigRefs returns the machine configs of node drivers that a cluster's pools refer to, sorted, without duplicates.
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

// InfraKeys returns a cluster's keys of the cache index by-node-infra: one for each machine config or other provider's
// template that its pools refer to.
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

// Credentials returns the references to cloud credentials that a cluster's pools use, as the user wrote them, sorted,
// without duplicates.
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

// CredentialUse is a cloud credential that a pool uses with its machine config.
type CredentialUse struct {
	// Reference is as the user wrote it.
	Reference string
	Config    ConfigRef
}

// CredentialUses returns the credentials that a cluster's pools use, in the order of the pools.
func CredentialUses(cluster *provv1.Cluster) []CredentialUse {
	var uses []CredentialUse
	for i := range pools(cluster) {
		pool := &pools(cluster)[i]
		config, ours := configRef(pool)
		if reference := effectiveCredential(cluster, pool); ours && reference != "" {
			uses = append(uses, CredentialUse{reference, config})
		}
	}
	return uses
}

// CredentialSecret returns the Secret of a reference to a cloud credential. Only the prefix "cattle-global-data:" names
// another namespace. Any other reference is a name in the cluster's namespace.
// (docs/wire/secrets.md#cloud-credentials.)
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

// poolSchema reads a pool's copy of the driver's schema. An empty or unreadable copy counts as none. The result is
// shared and must not be modified.
func poolSchema(pool *provv1.RKEMachinePool) (*mgmtv3.DynamicSchemaSpec, bool) {
	if pool.DynamicSchemaSpec == "" {
		return nil, false
	}
	if known, ok := schemas.Get(pool.DynamicSchemaSpec); ok {
		spec, ok := known.(*mgmtv3.DynamicSchemaSpec)
		return spec, ok
	}
	spec := &mgmtv3.DynamicSchemaSpec{}
	if err := json.Unmarshal([]byte(pool.DynamicSchemaSpec), spec); err != nil {
		return nil, false
	}
	if len(pool.DynamicSchemaSpec) <= schemaMax {
		schemas.Add(pool.DynamicSchemaSpec, spec)
	}
	return spec, true
}

// schemas remembers decoded schemas by their text. Each pass over a Cluster reads the schema of each pool three times,
// and all pools of a driver have the same. Users write the texts, so their number and size are limited.
var schemas = lru.New(64)

const schemaMax = 64 << 10
