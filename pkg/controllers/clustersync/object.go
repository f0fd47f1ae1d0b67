package clustersync

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// target identifies an object.
type target struct{ kind, namespace, name string }

func (t target) compare(other target) int {
	return cmp.Or(cmp.Compare(t.kind, other.kind), cmp.Compare(t.namespace, other.namespace),
		cmp.Compare(t.name, other.name))
}

// object is a Secret or a ConfigMap. It prints as a mask.
type object struct {
	*metav1.ObjectMeta
	kind string
	// secretType is empty for a ConfigMap.
	secretType corev1.SecretType
	// data holds the data of a Secret, or the binary data of a ConfigMap.
	data map[string][]byte
	// text holds the data of a ConfigMap.
	text      map[string]string
	immutable bool
	// unread is why Drover does not hold the data of a source, or empty.
	unread string
}

func ofSecret(s *corev1.Secret) object {
	return object{ObjectMeta: &s.ObjectMeta, kind: kindSecret, secretType: s.Type, data: s.Data,
		immutable: s.Immutable != nil && *s.Immutable}
}

func ofConfigMap(c *corev1.ConfigMap) object {
	return object{ObjectMeta: &c.ObjectMeta, kind: kindConfigMap, data: c.BinaryData, text: c.Data,
		immutable: c.Immutable != nil && *c.Immutable}
}

func (o object) secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: *o.ObjectMeta, Type: o.secretType, Data: o.data}
}

func (o object) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: *o.ObjectMeta, Data: o.text, BinaryData: o.data}
}

// String hides the data.
func (o object) String() string { return o.kind + " " + o.Namespace + "/" + o.Name }

// GoString hides the data.
func (o object) GoString() string { return o.String() }

func (o object) at() target { return target{o.kind, o.Namespace, o.Name} }

// equal reports whether two objects have the same type and data.
func (o object) equal(other object) bool {
	return o.secretType == other.secretType && equality.Semantic.DeepEqual(o.data, other.data) &&
		maps.Equal(o.text, other.text)
}

// over returns the object with the metadata of the stored one. It keeps the labels and annotations of others.
func (o object) over(stored object) object {
	meta := stored.DeepCopy()
	for key, value := range o.Labels {
		metav1.SetMetaDataLabel(meta, key, value)
	}
	for key, value := range o.Annotations {
		metav1.SetMetaDataAnnotation(meta, key, value)
	}
	o.ObjectMeta = meta
	return o
}
