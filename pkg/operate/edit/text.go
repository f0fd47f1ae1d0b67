package edit

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
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
	// Ignored are the other objects in the text.
	Ignored []string
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
// another number of Clusters than one.
func ParseText(data []byte) (Text, []Problem) {
	t := Text{}
	var problems []Problem
	skipped := 0
	for _, part := range split(data) {
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
	return t, problems
}

// split returns the documents of a text. A line that separates documents is the first line of the next one.
func split(data []byte) [][]byte {
	var out [][]byte
	begin, at := 0, 0
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && at > 0 {
			if rest = bytes.TrimSpace(rest); len(rest) == 0 || rest[0] == '#' {
				out = append(out, data[begin:at])
				begin = at
			}
		}
		at += len(line)
	}
	return append(out, data[begin:])
}

func (t *Text) add(data []byte, skipped int) []Problem {
	d := document{skipped: skipped, root: &nodes.Node{}, object: &unstructured.Unstructured{}}
	if problem := t.read(d, data); problem != nil {
		return []Problem{*problem}
	}
	if len(d.object.Object) == 0 {
		return nil
	}
	problems := d.repeated(d.root, "")
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
	t.documents = append(t.documents, d)
	return append(problems, t.untyped(d)...)
}

// read fills in the nodes and the object of a document. An empty document has no object.
func (t *Text) read(d document, data []byte) *Problem {
	if err := nodes.Unmarshal(data, d.root); err != nil {
		return &Problem{Line: d.skipped + brokenLine(data), Message: broken(err)}
	}
	if len(d.root.Content) == 0 || d.root.Content[0].Tag == "!!null" {
		return nil
	}
	problem := Problem{Message: "the document is no object"}
	if d.root.Content[0].Kind == nodes.MappingNode {
		asJSON, err := yaml.YAMLToJSON(data)
		if err == nil {
			err = utiljson.Unmarshal(asJSON, &d.object.Object) // whole numbers as in live objects
		}
		if err == nil {
			return nil
		}
		problem.Message = broken(err)
	}
	problem = t.at(d, problem)
	return &problem
}

var lineOfParser = regexp.MustCompile(`^line \d+: `)

// isKind reports whether an object can have a kind.
func isKind(kind string) bool { return len(validation.IsDNS1035Label(strings.ToLower(kind))) == 0 }

// broken is the message of an error of the YAML parser. The parser names the line in which the broken part begins, or
// the one before it.
func broken(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	return "the YAML is not valid: " + lineOfParser.ReplaceAllString(text, "")
}

const (
	// mostParsed limits how many bytes are parsed to find the line in a broken document.
	mostParsed = 2 << 20
	// longestOpen is how many lines after a broken one must not repair it. A bracket can close some lines later.
	longestOpen = 10
)

// brokenLine returns the first line with which a document cannot be parsed, while the lines before it can.
func brokenLine(data []byte) int {
	var ends []int
	for line := range bytes.Lines(data) {
		ends = append(ends, len(line))
		if n := len(ends); n > 1 {
			ends[n-1] += ends[n-2]
		}
	}
	parsed := 0
	parses := func(lines int) bool {
		parsed += ends[lines-1]
		return nodes.Unmarshal(data[:ends[lines-1]], &nodes.Node{}) == nil
	}
	good, bad := 0, len(ends)
	for parsed < mostParsed {
		for bad-good > 1 && parsed < mostParsed {
			if middle := (good + bad) / 2; parses(middle) {
				good = middle
			} else {
				bad = middle
			}
		}
		repaired := 0
		for next := bad + 1; next < min(bad+longestOpen, len(ends)) && repaired == 0; next++ {
			if parses(next) {
				repaired = next
			}
		}
		if repaired == 0 {
			break
		}
		good, bad = repaired, len(ends)
	}
	return max(bad, 1)
}

// repeated lists the keys that a mapping has twice.
func (d document) repeated(node *nodes.Node, path string) []Problem {
	var out []Problem
	for i, child := range node.Content {
		at := path
		switch node.Kind {
		case nodes.SequenceNode:
			at = fmt.Sprintf("%s[%d]", path, i)
		case nodes.MappingNode:
			if i%2 == 0 {
				continue
			}
			key := node.Content[i-1]
			at = join(path, key.Value)
			isSame := func(other *nodes.Node) bool { return other.Kind == nodes.ScalarNode && other.Value == key.Value }
			if slices.ContainsFunc(keys(node)[:i/2], isSame) {
				out = append(out, Problem{Line: d.skipped + key.Line, Column: key.Column, Field: at,
					Message: "the field is there twice"})
			}
		}
		out = append(out, d.repeated(child, at)...)
	}
	return out
}

func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

func keys(mapping *nodes.Node) []*nodes.Node {
	var out []*nodes.Node
	for i := 0; i < len(mapping.Content); i += 2 {
		out = append(out, mapping.Content[i])
	}
	return out
}

// untyped lists labels and annotations whose values are no text. Objects without types would lose all of them.
func (t *Text) untyped(d document) []Problem {
	var out []Problem
	for _, name := range []string{"labels", "annotations"} {
		found, _, _ := unstructured.NestedFieldNoCopy(d.object.Object, "metadata", name)
		values, isMap := found.(map[string]any)
		if found != nil && !isMap {
			out = append(out, t.at(d, Problem{Field: "metadata." + name, Message: "must be keys with texts"}))
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if _, isText := values[key].(string); !isText {
				out = append(out, t.at(d, Problem{Field: "metadata." + name + "[" + key + "]",
					Message: "must be a text; put the value in quotes"}))
			}
		}
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
	for _, one := range strict.Errors() {
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
	for i := range t.documents {
		if keyOf(t.documents[i].object) == keyOf(object) {
			return &t.documents[i]
		}
	}
	return nil
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
