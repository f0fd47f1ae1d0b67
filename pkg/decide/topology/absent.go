package topology

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// absence is an object or a kind that a Cluster names and that does not exist.
type absence struct {
	at *field.Path
	// value is the content of the field, what says what is absent, and remedy says what to do.
	value, what, remedy string
	// pool is the name of the pool that uses it, empty if the cluster itself does.
	pool string
	// tolerated is true if an existing cluster goes on without it: see Tolerated.
	tolerated bool
}

// absences returns what a pool names and what does not exist.
func absences(in Input, pool *provv1.RKEMachinePool, at *field.Path) []absence {
	ref, ours := configRef(pool)
	if in.alone || ref.Name == "" {
		return nil
	}
	here := at.Child("machineConfigRef")
	if !ours {
		_, exists := in.Replicas[naming.MachineDeployment(in.Cluster.Name, pool.Name)]
		return absentKind(in, ref.GVK().GroupKind(), here.Child("kind"), pool.Name, exists)
	}
	return append(absentConfig(in, pool, ref, here), absentCredential(in, pool, at)...)
}

// absentConfig returns a driver or a machine config that does not exist. A deactivated driver does not break the
// clusters that it created.
func absentConfig(in Input, pool *provv1.RKEMachinePool, ref ConfigRef, at *field.Path) []absence {
	_, exists := in.MachineConfigs[ref]
	_, copied := poolSchema(pool)
	switch active := in.Schemas[ref.SchemaName()] != nil; {
	case !strings.HasSuffix(ref.Kind, configSuffix): // validateConfig reports it
	case !active && (!exists || !copied):
		return []absence{{at: at.Child("kind"), value: ref.Kind, what: "no active node driver has this kind",
			remedy: "register or activate the NodeDriver, or correct the kind", pool: pool.Name}}
	case !exists:
		return []absence{{at: at.Child("name"), value: ref.Name,
			what:   "no " + ref.Kind + " with this name in namespace " + in.Cluster.Namespace,
			remedy: "create it, or correct the name", pool: pool.Name}}
	}
	return nil
}

func absentCredential(in Input, pool *provv1.RKEMachinePool, at *field.Path) []absence {
	reference := effectiveCredential(in.Cluster, pool)
	if reference == "" || in.Credentials[reference] {
		return nil
	}
	if pool.CloudCredentialSecretName == "" {
		at = field.NewPath("spec")
	}
	namespace, name := CredentialSecret(in.Cluster.Namespace, reference)
	return []absence{{at: at.Child("cloudCredentialSecretName"), value: reference,
		what:   "no Secret " + name + " in namespace " + namespace,
		remedy: "create it, or name another (NAME, or " + provv1.GlobalDataNamespace + ":NAME)", pool: pool.Name}}
}

// absentKind returns a kind of another infrastructure provider that is not served. Cluster API only reports it as an
// internal error. A pool or a cluster that exists is not stopped.
func absentKind(in Input, kind schema.GroupKind, at *field.Path, pool string, exists bool) []absence {
	if !slices.Contains(in.Unserved, kind) {
		return nil
	}
	return []absence{{at: at, value: kind.Kind,
		what: "no CustomResourceDefinition of group " + kind.Group + " has this kind",
		remedy: "install the infrastructure provider of Cluster API that defines it: " + InstallProvider +
			", or correct apiVersion and kind", pool: pool, tolerated: exists}}
}

// InstallProvider is the command that installs an infrastructure provider. `clusterctl init` would also install a core,
// which Drover has with --capi=embedded.
const InstallProvider = "clusterctl generate provider --infrastructure NAME | kubectl apply -f -"

// ProviderKinds returns the kinds of other infrastructure providers that a cluster names, without duplicates.
func ProviderKinds(cluster *provv1.Cluster) []schema.GroupKind {
	var kinds []schema.GroupKind
	add := func(kind schema.GroupKind) {
		if kind.Group != "" && kind.Kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if cluster.Spec.RKEConfig == nil {
		return nil
	}
	if ref := cluster.Spec.RKEConfig.InfrastructureRef; ref != nil {
		add(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind())
	}
	for i := range pools(cluster) {
		if ref, ours := configRef(&pools(cluster)[i]); !ours {
			add(ref.GVK().GroupKind())
		}
	}
	return kinds
}

// notFound returns one error for each absent object. An object that several pools use gives one error, which names
// them.
func notFound(absent []absence) field.ErrorList {
	var errs field.ErrorList
	for len(absent) > 0 {
		first, users := absent[0], []string{}
		absent = slices.DeleteFunc(absent, func(a absence) bool {
			same := a.value == first.value && a.what == first.what && a.tolerated == first.tolerated
			if same && a.pool != "" && !slices.Contains(users, a.pool) {
				users = append(users, a.pool)
			}
			return same
		})
		err := &field.Error{Type: field.ErrorTypeNotFound, Field: first.at.String(), BadValue: first.value,
			Detail: first.what + usedBy(users) + "; " + first.remedy}
		if first.tolerated {
			err = err.WithOrigin(safeValue)
		}
		errs = append(errs, err)
	}
	return errs
}

// namedPools is how many pools an error names.
const namedPools = 5

func usedBy(pools []string) string {
	switch more := len(pools) - namedPools; {
	case len(pools) == 0:
		return ""
	case len(pools) == 1:
		return ", which pool " + pools[0] + " uses"
	case more > 0:
		return fmt.Sprintf(", which pools %s and %d more use", strings.Join(pools[:namedPools], ", "), more)
	}
	return ", which pools " + strings.Join(pools, ", ") + " use"
}
