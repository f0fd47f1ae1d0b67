package registries

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// SecretCache reads Secrets from memory.
type SecretCache interface {
	Get(namespace, name string) (*corev1.Secret, error)
}

// ConfigMapCache reads ConfigMaps from memory.
type ConfigMapCache interface {
	Get(namespace, name string) (*corev1.ConfigMap, error)
}

// Gather reads the referenced objects that exist. A missing object is no error here. The result shares its values with the
// caches and must not be changed.
func Gather(refs []render.Reference, secrets SecretCache, configMaps ConfigMapCache) (render.Objects, error) {
	out := render.Objects{
		Secrets:    map[types.NamespacedName]render.Secret{},
		ConfigMaps: map[types.NamespacedName]render.ConfigMap{},
	}
	for _, ref := range refs {
		var err error
		switch ref.Kind {
		case render.KindSecret:
			var secret *corev1.Secret
			if secret, err = secrets.Get(ref.Namespace, ref.Name); err == nil {
				out.Secrets[ref.NamespacedName] = FromSecret(secret)
			}
		case render.KindConfigMap:
			var object *corev1.ConfigMap
			if object, err = configMaps.Get(ref.Namespace, ref.Name); err == nil {
				out.ConfigMaps[ref.NamespacedName] = FromConfigMap(object)
			}
		default:
			err = fmt.Errorf("kind %q cannot be referred to", ref.Kind)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return render.Objects{}, fmt.Errorf("read %s %s: %w", ref.Kind, ref.NamespacedName, err)
		}
	}
	return out, nil
}

// FromSecret reduces a Secret to what rendering needs. It shares the data.
func FromSecret(secret *corev1.Secret) render.Secret {
	return render.Secret{Type: secret.Type, Data: secret.Data, Annotations: authorizations(secret.Annotations)}
}

// FromConfigMap reduces a ConfigMap to what rendering needs. It shares the binary data.
func FromConfigMap(object *corev1.ConfigMap) render.ConfigMap {
	data := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	maps.Copy(data, object.BinaryData)
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	return render.ConfigMap{Data: data, Annotations: authorizations(object.Annotations)}
}

// authorizations keeps the annotations that say which clusters may use an object; others change often and mean nothing.
func authorizations(annotations map[string]string) map[string]string {
	var out map[string]string
	for _, key := range []string{rkev1.AuthorizedObjectAnnotation, rkev1.AuthorizedSecretAnnotation} {
		if value := annotations[key]; value != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}
