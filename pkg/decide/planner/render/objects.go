package render

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// ObjectKind is the kind of an object that a configuration refers to.
type ObjectKind string

// The kinds of referenced objects.
const (
	KindSecret    ObjectKind = "Secret"
	KindConfigMap ObjectKind = "ConfigMap"
)

// Reference names an object that a cluster's configuration refers to. The caller reads these objects for the input, and
// wakes the cluster when one of them changes.
type Reference struct {
	Kind ObjectKind
	types.NamespacedName
}

// References returns what a cluster's configuration refers to, for all machines, sorted and without duplicates. It
// skips a malformed reference; rendering reports it with its field.
func References(namespace string, spec *rkev1.RKEControlPlaneSpec, settings Settings) []Reference {
	refs := registryReferences(namespace, spec.Registries)
	for _, name := range settings.RegistryPullSecrets {
		refs = append(refs, Reference{KindSecret, name})
	}
	if spec.ETCD != nil {
		refs = append(refs, StorageReferences(namespace, spec.ETCD.S3)...)
	}
	refs = append(refs, cloudProviderReferences(spec)...)
	for _, files := range spec.MachineSelectorFiles {
		for _, source := range files.FileSources {
			if source.Secret.Name != "" {
				refs = append(refs,
					Reference{KindSecret, types.NamespacedName{Namespace: namespace, Name: source.Secret.Name}})
			}
			if source.ConfigMap.Name != "" {
				refs = append(refs,
					Reference{KindConfigMap, types.NamespacedName{Namespace: namespace, Name: source.ConfigMap.Name}})
			}
		}
	}
	slices.SortFunc(refs, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(refs)
}

// StorageReferences returns what a storage in S3 refers to: the storage of the configuration, or of a snapshot.
func StorageReferences(namespace string, s3 *rkev1.ETCDSnapshotS3) []Reference {
	if s3 == nil || s3.CloudCredentialName == "" {
		return nil
	}
	return []Reference{{KindSecret, credentialName(namespace, s3.CloudCredentialName)}}
}

func registryReferences(namespace string, registries *rkev1.Registry) []Reference {
	if registries == nil {
		return nil
	}
	var refs []Reference
	for _, config := range registries.Configs {
		for _, name := range []string{config.AuthConfigSecretName, config.TLSSecretName} {
			if name != "" {
				refs = append(refs, Reference{KindSecret, types.NamespacedName{Namespace: namespace, Name: name}})
			}
		}
	}
	return refs
}

func cloudProviderReferences(spec *rkev1.RKEControlPlaneSpec) []Reference {
	values := []any{spec.MachineGlobalConfig.Data[keyCloudProvider]}
	for _, entry := range spec.MachineSelectorConfig {
		values = append(values, entry.Config.Data[keyCloudProvider])
	}
	var refs []Reference
	for _, value := range values {
		text, _ := value.(string)
		if name, isSecret, err := parseSecretURL(text); isSecret && err == nil {
			refs = append(refs, Reference{KindSecret, name})
		}
	}
	return refs
}

// secretURLScheme marks a configuration value in a Secret: secret://<namespace>:<name>.
const secretURLScheme = "secret://"

func parseSecretURL(value string) (name types.NamespacedName, isSecret bool, err error) {
	rest, isSecret := strings.CutPrefix(value, secretURLScheme)
	if !isSecret {
		return name, false, nil
	}
	namespace, object, found := strings.Cut(rest, ":")
	if !found || namespace == "" || object == "" || strings.ContainsAny(object, ":/") {
		return name, true, fmt.Errorf("must have the form %s<namespace>:<name>", secretURLScheme)
	}
	return types.NamespacedName{Namespace: namespace, Name: object}, true, nil
}

func credentialName(namespace, name string) types.NamespacedName {
	if shared, found := strings.CutPrefix(name, provv1.GlobalDataNamespace+":"); found {
		return types.NamespacedName{Namespace: provv1.GlobalDataNamespace, Name: shared}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// secret returns a referenced Secret. field is the path of the reference.
func (m *machinePlan) secret(field string, name types.NamespacedName) (Secret, error) {
	secret, ok := m.in.Objects.Secrets[name]
	if !ok {
		return Secret{}, fmt.Errorf("%s: Secret %s does not exist", field, name)
	}
	if secret.Denied != "" {
		return Secret{}, fmt.Errorf("%s: %s", field, secret.Denied)
	}
	return secret, nil
}

func (m *machinePlan) configMap(field string, name types.NamespacedName) (ConfigMap, error) {
	object, ok := m.in.Objects.ConfigMaps[name]
	if !ok {
		return ConfigMap{}, fmt.Errorf("%s: ConfigMap %s does not exist", field, name)
	}
	return object, nil
}

func (m *machinePlan) local(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: m.in.ControlPlane.Namespace, Name: name}
}

// authorized reports whether an annotation with a comma-separated list of clusters contains this one: NAME,
// NAMESPACE/NAME or NAMESPACE/*.
func (m *machinePlan) authorized(annotations map[string]string, key string) bool {
	return naming.ListsCluster(annotations[key], m.in.ControlPlane.Namespace, m.in.ControlPlane.Name)
}

// decoded is the content of a file that Drover encoded. It is empty for invalid base64.
func decoded(content string) []byte {
	out, err := base64.StdEncoding.DecodeString(content)
	if err != nil {
		return nil
	}
	return out
}
