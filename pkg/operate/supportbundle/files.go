package supportbundle

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// Input is the gathered data.
type Input struct {
	// Clusters are the subject of the bundle.
	Clusters []Cluster
	// Objects as they were read, with kind and version. Files does not change them.
	Objects []*unstructured.Unstructured
	// Texts are other files by their path: logs, metrics, output of commands.
	Texts map[string]string
	// Unread lists failed reads, one sentence each.
	Unread []string
}

// File is one file of a bundle.
type File struct {
	// Path within the bundle, with slashes.
	Path string
	Data []byte
}

// Files returns the files of a bundle, sorted by path. An error names the object that cannot be written.
func Files(in Input) ([]File, error) {
	h := newHider(in.Objects)
	shown := make([]map[string]any, 0, len(in.Objects))
	plans := map[string]any{}
	for _, object := range in.Objects {
		shown = append(shown, h.object(object))
		if object.GetKind() == kindSecret && field(object.Object, "type") == rkev1.SecretTypeMachinePlan {
			plans["plans/"+object.GetNamespace()+"/"+object.GetName()+".yaml"] = h.plan(object)
		}
	}
	// The hider has seen every object, so it knows all secrets from here on.
	var out []File
	add := func(path string, tree any) error {
		data, err := yaml.Marshal(h.leaves(tree))
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		out = append(out, File{path, data})
		return nil
	}
	for i, object := range in.Objects {
		if err := add(path(object), shown[i]); err != nil {
			return nil, err
		}
	}
	for path, plan := range plans {
		if err := add(path, plan); err != nil {
			return nil, err
		}
	}
	for path, text := range in.Texts {
		out = append(out, File{path, []byte(h.masked(text))})
	}
	unread := "Everything that was looked for could be read.\n"
	if len(in.Unread) > 0 {
		unread = strings.Join(in.Unread, "\n") + "\n"
	}
	out = append(out, File{"README.txt", []byte(readme)}, File{"unread.txt", []byte(h.masked(unread))})
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// path is the path of an object in the bundle.
func path(object *unstructured.Unstructured) string {
	kind := strings.ToLower(object.GetKind())
	if group := object.GroupVersionKind().Group; group != "" {
		kind += "." + group
	}
	place := "cluster-scoped"
	if namespace := object.GetNamespace(); namespace != "" {
		place = "namespaces/" + namespace
	}
	return "objects/" + place + "/" + kind + "/" + strings.ReplaceAll(object.GetName(), ":", "_") + ".yaml"
}

// leaves returns a tree without secrets in its keys and texts.
func (h *hider) leaves(node any) any {
	switch value := node.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, child := range value {
			out[h.known.Mask(key)] = h.leaves(child)
		}
		return out
	case []any:
		out := make([]any, 0, len(value))
		for _, child := range value {
			out = append(out, h.leaves(child))
		}
		return out
	case string:
		return h.masked(value)
	case output:
		return redact.Tail(value, maxOutput, h.known)
	}
	return node
}

// masked returns a text without secrets.
func (h *hider) masked(text string) string {
	return redact.Encoded(redact.Text(h.known.Mask(text)))
}

// hidden is the placeholder of a hidden value.
func hidden(size int) string { return fmt.Sprintf("(hidden, %d bytes)", size) }

func field(object map[string]any, path ...string) string {
	text, _, _ := unstructured.NestedString(object, path...) // a value of another type counts as empty
	return text
}

const readme = `What this bundle holds:

  diagnosis/   what drover diagnose says about each cluster, as text and as JSON
  explanation/ what drover explain says about each cluster, as text and as JSON
  objects/     the objects of the clusters, and those of Drover
  plans/       the plan of each node and the report of its agent, without the content of files
  logs/        logs of Drover's pods, and of the Jobs that make and remove machines
  metrics/     Drover's metrics
  versions.txt the version of the program that has made this bundle. The versions of the servers are in their pods.
               Their settings are in ConfigMaps of drover-system.
  definitions.txt the definitions of kinds that are installed
  unread.txt   what could not be read, and why

What it does not hold: data of Secrets and ConfigMaps (their keys and sizes only), tokens,
kubeconfigs, user data, variables, chart values, manifests, contents of files on nodes. Values that
were found in those are taken out of everything else, too: they are shown as ***.

Names of objects, hosts, addresses and accounts are in it. Look through it before you share it.
`
