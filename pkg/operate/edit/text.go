package edit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	nodes "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Text is a manifest as a user has typed it: one Cluster, optionally with the machine configs of its pools. It knows
// the lines of fields.
type Text struct {
	documents []document
	// places are the indexes of documents by the keys of their objects.
	places map[string]int
	// Ignored are the other objects in the text.
	Ignored []string
	// parsed counts the bytes that were parsed to find the lines of broken documents.
	parsed int
}

// document is an object of a Text. skipped is the number of lines before it.
type document struct {
	skipped int
	root    *nodes.Node
	object  *unstructured.Unstructured
}

var clusterKind = provv1.SchemeGroupVersion.WithKind("Cluster")

// configVersion is the apiVersion of machine configs.
const configVersion = topology.MachineConfigVersion

// ParseText reads a manifest. The problems are broken YAML, repeated fields, fields that a Cluster does not have, and
// another number of Clusters than one. It returns the first problems of many.
func ParseText(data []byte) (Text, []Problem) {
	t := Text{places: map[string]int{}}
	var problems []Problem
	skipped := 0
	for i, part := range split(data) {
		if i == mostDocuments {
			problems = append(problems, Problem{Line: skipped + 1,
				Message: fmt.Sprintf("the text has more than %d documents", mostDocuments)})
			break
		}
		problems = append(problems, t.add(part, skipped)...)
		skipped += bytes.Count(part, []byte("\n"))
	}
	clusters := 0
	for _, d := range t.documents {
		if d.object.GroupVersionKind() != clusterKind {
			continue
		}
		if clusters++; clusters > 1 {
			problems = append(problems, t.at(d,
				Problem{Message: "the text has several Clusters; use one text for each"}))
		}
	}
	if clusters == 0 && len(problems) == 0 {
		version := clusterKind.GroupVersion().String()
		problems = append(problems, Problem{Line: 1, Message: "the text has no Cluster of " + version})
	}
	return t, first(problems)
}

func (t *Text) add(data []byte, skipped int) []Problem {
	d := document{skipped: skipped, root: &nodes.Node{}, object: &unstructured.Unstructured{}}
	if problem := t.read(d, data); problem != nil {
		return []Problem{*problem}
	}
	if len(d.object.Object) == 0 {
		return nil
	}
	problems := d.repeated()
	switch gvk := d.object.GroupVersionKind(); {
	case gvk == clusterKind:
		problems = append(problems, t.unknown(d, data)...)
	case d.object.GetAPIVersion() == configVersion && isKind(gvk.Kind):
		if t.of(d.object) != nil {
			problems = append(problems, t.at(d, Problem{Message: "the text has " + keyOf(d.object) + " twice"}))
		}
	case d.object.GetAPIVersion() == configVersion:
		return append(problems, t.at(d, Problem{Field: "kind", Message: "must be the kind of a machine config"}))
	default:
		t.Ignored = append(t.Ignored,
			strings.TrimPrefix(gvk.Kind+" "+d.object.GetNamespace()+"/"+d.object.GetName(), " "))
		return problems
	}
	if key := keyOf(d.object); t.of(d.object) == nil {
		t.places[key] = len(t.documents)
	}
	t.documents = append(t.documents, d)
	return append(problems, t.untyped(d)...)
}

// read fills in the nodes and the object of a document. An empty document has no object.
func (t *Text) read(d document, data []byte) *Problem {
	decoder := nodes.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(d.root)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return &Problem{Line: d.skipped + t.brokenLine(data), Message: broken(err)}
	}
	message := d.excess()
	switch {
	case !errors.Is(decoder.Decode(&nodes.Node{}), io.EOF):
		return &Problem{Line: d.skipped + endLine(data), Message: "the text goes on behind the end of a document; " +
			"write --- before the next one"}
	case message != "":
	case d.isEmpty():
		return nil
	case d.root.Content[0].Kind != nodes.MappingNode:
		message = "the document is no object"
	default:
		var asJSON []byte
		if asJSON, err = yaml.YAMLToJSON(data); err == nil {
			err = utiljson.Unmarshal(asJSON, &d.object.Object) // whole numbers as in live objects
		}
		if err == nil {
			return nil
		}
		message = broken(err)
	}
	problem := t.at(d, Problem{Message: message})
	return &problem
}

// isKind reports whether an object can have a kind.
func isKind(kind string) bool { return len(validation.IsDNS1035Label(strings.ToLower(kind))) == 0 }

// untyped lists labels and annotations whose values are no text. Objects without types would lose all of them.
func (t *Text) untyped(d document) []Problem {
	var out []Problem
	for _, name := range []string{"labels", "annotations"} {
		found, _, _ := unstructured.NestedFieldNoCopy(d.object.Object, "metadata", name)
		values, isMap := found.(map[string]any)
		if found != nil && !isMap {
			out = append(out, Problem{Field: "metadata." + name, Message: "must be keys with texts"})
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if _, isText := values[key].(string); !isText {
				out = append(out, Problem{Field: "metadata." + name + "[" + key + "]",
					Message: "must be a text; put the value in quotes"})
			}
		}
	}
	out = first(out)
	for i := range out {
		out[i] = t.at(d, out[i])
	}
	return out
}

// unknown lists the fields that a Cluster does not have. The API server would refuse them as well.
func (t *Text) unknown(d document, data []byte) []Problem {
	_, err := typed(data)
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return nil // Typed returns it
	}
	var out []Problem
	for _, one := range strict.Errors()[:min(len(strict.Errors()), mostProblems)] {
		if match := strictField.FindStringSubmatch(one.Error()); match != nil && match[1] == "unknown" {
			out = append(out, t.at(d, Problem{Field: match[2], Message: "a Cluster has no such field"}))
		}
	}
	return out
}

// typed decodes a Cluster.
func typed(data []byte) (*provv1.Cluster, error) {
	scheme := runtime.NewScheme()
	if err := provv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	serializer := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	out := &provv1.Cluster{}
	if _, _, err := serializer.Decode(data, nil, out); err != nil {
		return out, err
	}
	return out, nil
}

// Cluster returns the Cluster of the text, nil if there is none.
func (t Text) Cluster() *unstructured.Unstructured {
	for _, d := range t.documents {
		if d.object.GroupVersionKind() == clusterKind {
			return d.object
		}
	}
	return nil
}

// Configs returns the machine configs of the text, in their order.
func (t Text) Configs() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, d := range t.documents {
		if d.object.GroupVersionKind() != clusterKind {
			out = append(out, d.object)
		}
	}
	return out
}

// CheckNames requires that the text is about one Cluster, and that all its objects are in the namespace of it.
func (t Text) CheckNames(namespace, name string) []Problem {
	var out []Problem
	for _, d := range t.documents {
		switch own := d.object.GetNamespace(); {
		case own != "" && own != namespace:
			out = append(out, t.at(d, Problem{Field: "metadata.namespace", Message: "must be " + namespace}))
		case d.object.GroupVersionKind() == clusterKind && d.object.GetName() != name:
			out = append(out, t.at(d, Problem{Field: "metadata.name", Message: "must be " + name}))
		case len(validation.IsDNS1123Subdomain(d.object.GetName())) > 0:
			out = append(out, t.at(d, Problem{Field: "metadata.name", Message: "must be a valid name of an object"}))
		}
	}
	return out
}

// Locate fills in the positions of the problems of an object. Those of a machine config name the object.
func (t Text) Locate(object *unstructured.Unstructured, problems []Problem) []Problem {
	d := t.of(object)
	if d == nil {
		return problems
	}
	out := make([]Problem, 0, len(problems))
	for _, one := range problems {
		if object.GroupVersionKind() != clusterKind {
			one.Message = keyOf(object) + ": " + one.Message
		}
		out = append(out, t.at(*d, one))
	}
	return out
}

func (t Text) of(object *unstructured.Unstructured) *document {
	at, ok := t.places[keyOf(object)]
	if !ok {
		return nil
	}
	return &t.documents[at]
}

// keyOf names an object of one cluster.
func keyOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}

// ConfigResource returns the resource of a kind of machine configs.
func ConfigResource(object *unstructured.Unstructured) schema.GroupVersionResource {
	gv := object.GroupVersionKind().GroupVersion()
	return gv.WithResource(strings.ToLower(object.GetKind()) + "s")
}

// Notes tells what the text has and a write ignores.
func (t Text) Notes() []string {
	var out []string
	for _, d := range t.documents {
		var ignored []string
		if _, has := d.object.Object["status"]; has {
			ignored = append(ignored, "status")
		}
		metadata, _, _ := unstructured.NestedMap(d.object.Object, "metadata")
		for _, name := range slices.Sorted(maps.Keys(metadata)) {
			if !slices.Contains([]string{"name", "namespace", "labels", "annotations"}, name) && metadata[name] != nil {
				ignored = append(ignored, "metadata."+name)
			}
		}
		if len(ignored) > 0 {
			out = append(out, strings.Join(ignored, ", ")+" of "+keyOf(d.object)+
				": programs write this, and a change of it has no effect")
		}
	}
	return out
}
