package edit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Live is what a management cluster has of the objects of a manifest.
type Live struct {
	// Cluster is nil if there is none.
	Cluster *unstructured.Unstructured
	// Configs are machine configs: those of the pools of the Cluster, and those that a text names.
	Configs []*unstructured.Unstructured
	// Unread are the machine configs that the user may not read.
	Unread []ConfigRef
}

// IsUnread reports whether the user may not read an object.
func (l Live) IsUnread(object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(l.Unread, func(ref ConfigRef) bool {
		return ref.Kind == object.GetKind() && ref.Name == object.GetName()
	})
}

// IsOthers reports whether a live machine config is none of the Cluster. A write of it could change the machines of
// another cluster.
func (l Live) IsOthers(config *unstructured.Unstructured) bool {
	return config.GroupVersionKind() != clusterKind &&
		!slices.ContainsFunc(ConfigRefs(l.Cluster, Text{}), func(ref ConfigRef) bool {
			return ref.Kind == config.GetKind() && ref.Name == config.GetName()
		})
}

// Of returns the live object with the kind and the name of another one, nil if there is none.
func (l Live) Of(object *unstructured.Unstructured) *unstructured.Unstructured {
	if object.GroupVersionKind() == clusterKind {
		return l.Cluster
	}
	at := slices.IndexFunc(l.Configs, func(c *unstructured.Unstructured) bool { return keyOf(c) == keyOf(object) })
	if at < 0 {
		return nil
	}
	return l.Configs[at]
}

// Seen returns a digest of all that a user can see and edit. It is empty if the Cluster does not exist. A change of a
// status, or of what only programs write, keeps the digest.
func (l Live) Seen() (string, error) {
	if l.Cluster == nil {
		return "", nil
	}
	parts := []any{part(l.Cluster, l.Cluster.GetGeneration())}
	configs := slices.Clone(l.Configs)
	slices.SortFunc(configs, func(a, b *unstructured.Unstructured) int { return strings.Compare(keyOf(a), keyOf(b)) })
	for _, each := range configs {
		parts = append(parts, part(each, 0))
	}
	data, err := json.Marshal(parts) // sorts keys
	if err != nil {
		return "", fmt.Errorf("encode what the user has seen: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:digestLength]), nil
}

// digestLength is in bytes. It is long enough that two manifests do not have the same digest by accident.
const digestLength = 16

// IsUnchanged reports whether two versions of an object are the same for a user.
func IsUnchanged(seen, now *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(part(seen, seen.GetGeneration()), part(now, now.GetGeneration()))
}

func part(object *unstructured.Unstructured, generation int64) map[string]any {
	return map[string]any{"object": Written(object).Object, "uid": object.GetUID(), "generation": generation,
		"deleted": object.GetDeletionTimestamp() != nil}
}

// copies are annotations in which programs keep a copy of the object.
var copies = []string{"kubectl.kubernetes.io/last-applied-configuration", "objectset.rio.cattle.io/applied"}

// IsCopy reports whether a program keeps a copy of the object in an annotation.
func IsCopy(annotation string) bool { return slices.Contains(copies, annotation) }

// isHidden reports whether a manifest hides an annotation. A write keeps its live value: the copies of programs, and
// the marks by which Drover knows that it manages the object.
func isHidden(annotation string) bool {
	return IsCopy(annotation) || annotation == rkev1.InstanceAnnotation
}

// Written returns an object as a user would write it: without the status and without what only programs write.
func Written(object *unstructured.Unstructured) *unstructured.Unstructured {
	out := bare(object)
	out.SetLabels(object.GetLabels())
	annotations := object.GetAnnotations()
	for name := range annotations {
		if isHidden(name) {
			delete(annotations, name)
		}
	}
	if len(annotations) > 0 {
		out.SetAnnotations(annotations)
	}
	for _, pool := range poolsIn(out) {
		delete(pool, schemaField)
	}
	return out
}

// bare returns the kind, the name and the content of an object.
func bare(object *unstructured.Unstructured) *unstructured.Unstructured {
	out := object.DeepCopy()
	delete(out.Object, "status")
	delete(out.Object, "metadata")
	out.SetNamespace(object.GetNamespace())
	out.SetName(object.GetName())
	return out
}

// schemaField is the copy of the driver's schema in a pool. Programs write it.
const schemaField = "dynamicSchemaSpec"

// CountPools returns how many machine pools a Cluster has. It needs no valid Cluster.
func CountPools(cluster *unstructured.Unstructured) int { return len(poolsIn(cluster)) }

// poolsIn returns the machine pools of a Cluster, which may be nil.
func poolsIn(cluster *unstructured.Unstructured) []map[string]any {
	if cluster == nil {
		return nil
	}
	found, _, _ := unstructured.NestedFieldNoCopy(cluster.Object, "spec", "rkeConfig", "machinePools")
	list, _ := found.([]any)
	var out []map[string]any
	for _, each := range list {
		if pool, ok := each.(map[string]any); ok {
			out = append(out, pool)
		}
	}
	return out
}

// IsProvisioned reports whether Drover provisions a Cluster, which may be nil.
func IsProvisioned(cluster *unstructured.Unstructured) bool {
	if cluster == nil {
		return false
	}
	_, has, _ := unstructured.NestedMap(cluster.Object, "spec", "rkeConfig")
	return has
}

// Desired returns the object to write: the live object, if there is one, with the content, the labels and the
// annotations that the user has typed. What a manifest hides keeps its live value.
func Desired(live, text *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	out := bare(text)
	out.SetNamespace(namespace)
	annotations := text.GetAnnotations()
	for _, name := range copies {
		delete(annotations, name)
	}
	if live != nil {
		metadata, _, _ := unstructured.NestedMap(live.Object, "metadata")
		out.Object["metadata"] = metadata
		if status, ok := live.DeepCopy().Object["status"]; ok {
			out.Object["status"] = status
		}
		annotations = kept(annotations, live.GetAnnotations())
		keepSchemas(out, live)
	}
	out.SetLabels(nonEmpty(text.GetLabels()))
	out.SetAnnotations(nonEmpty(annotations))
	return out
}

func nonEmpty(values map[string]string) map[string]string {
	if len(values) == 0 {
		return nil
	}
	return values
}

// kept returns annotations with the live values of the hidden ones.
func kept(annotations, live map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range annotations {
		if !isHidden(name) {
			out[name] = value
		}
	}
	for name, value := range live {
		if isHidden(name) {
			out[name] = value
		}
	}
	return out
}

// keepSchemas copies the live copy of the driver's schema to pools of the same kind without one.
func keepSchemas(to, live *unstructured.Unstructured) {
	was := poolsIn(live)
	for _, pool := range poolsIn(to) {
		isSame := func(old map[string]any) bool {
			return textIn(old, "name") == textIn(pool, "name") && configKind(old) == configKind(pool)
		}
		at := slices.IndexFunc(was, isSame)
		if at < 0 {
			continue
		}
		if schema, had := was[at][schemaField]; had && pool[schemaField] == nil {
			pool[schemaField] = schema
		}
	}
}

func configKind(pool map[string]any) string { return textIn(pool, "machineConfigRef", "kind") }

// textIn returns a text, empty if there is none.
func textIn(object map[string]any, path ...string) string {
	text, _, _ := unstructured.NestedString(object, path...)
	return text
}

// ConfigRef is a reference to a machine config.
type ConfigRef struct {
	Resource schema.GroupVersionResource
	Kind     string
	Name     string
}

// ConfigRefs returns the machine configs that the pools of a Cluster name, and those that a text has, or that the pools
// of the text name. Each occurs once. It omits references that no object can have.
func ConfigRefs(cluster *unstructured.Unstructured, text Text) []ConfigRef {
	var out []ConfigRef
	known := map[ConfigRef]bool{}
	add := func(apiVersion, kind, name string) {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetAPIVersion(apiVersion)
		object.SetKind(kind)
		ref := ConfigRef{ConfigResource(object), kind, name}
		isPossible := apiVersion == configVersion && isKind(kind) && len(validation.IsDNS1123Subdomain(name)) == 0
		if isPossible && !known[ref] {
			known[ref] = true
			out = append(out, ref)
		}
	}
	for _, each := range []*unstructured.Unstructured{cluster, text.Cluster()} {
		for _, pool := range poolsIn(each) {
			version := cmp.Or(textIn(pool, "machineConfigRef", "apiVersion"), configVersion)
			add(version, configKind(pool), textIn(pool, "machineConfigRef", "name"))
		}
	}
	for _, config := range text.Configs() {
		add(config.GetAPIVersion(), config.GetKind(), config.GetName())
	}
	return out
}

// IsSame reports whether a write would change nothing: the API server's answer to the attempt is the live object.
func IsSame(live, attempted *unstructured.Unstructured) bool {
	a, b := live.DeepCopy(), attempted.DeepCopy()
	for _, each := range []*unstructured.Unstructured{a, b} {
		delete(each.Object, "status")
		for _, name := range []string{"managedFields", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(each.Object, "metadata", name)
		}
	}
	return equality.Semantic.DeepEqual(a.Object, b.Object)
}

// Typed converts a Cluster. A value of a wrong type is an error.
func Typed(cluster *unstructured.Unstructured) (*provv1.Cluster, error) {
	data, err := json.Marshal(cluster.Object)
	if err != nil {
		return nil, fmt.Errorf("encode the Cluster: %w", err)
	}
	out := &provv1.Cluster{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("read the Cluster: %w", err)
	}
	return out, nil
}

// SeenOf returns a digest of a Cluster alone, without what Live.Seen omits.
func SeenOf(cluster *provv1.Cluster) (string, error) {
	data, err := json.Marshal(cluster)
	if err != nil {
		return "", fmt.Errorf("encode the Cluster: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &object.Object); err != nil {
		return "", fmt.Errorf("encode the Cluster: %w", err)
	}
	object.SetGroupVersionKind(clusterKind)
	return Live{Cluster: object}.Seen()
}
