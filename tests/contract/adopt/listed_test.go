package adopt

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/tests/contract/plane"
)

// listed returns the objects that `drover adopt` lists as future writes, with the names of the audit log.
func (w *world) listed() []string {
	w.Helper()
	program, err := plane.Binary("drover")
	check(w.T, err)
	said, err := exec.CommandContext(w.Context(), program, "adopt", "demo", "--idle", "0s", "-o", "json",
		"--kubeconfig", plane.Kubeconfig(w.T)).Output()
	check(w.T, err)
	var found inspect.Adoption
	check(w.T, json.Unmarshal(said, &found))
	if len(found.Notes) > 0 {
		w.Errorf("the administrator gets notes about forbidden reads: %q", found.Notes)
	}
	var out []string
	for _, object := range found.Objects {
		kind, group, _ := strings.Cut(object.Kind, ".")
		out = append(out, objectIn(strings.ToLower(kind)+"s", group, object.Namespace, object.Name))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// written returns the objects of the cluster that Drover has written since they were created, without rejected writes.
func (w *world) written() []string {
	w.Helper()
	var out []string
	for _, write := range w.writes(w.since) {
		if write.Code < http.StatusMultipleChoices {
			out = append(out, objectIn(write.Resource, write.Group, write.Namespace, write.Name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// objectIn returns the name of an object. There are three resources for clusters. In the audit log, a namespace is in
// itself.
func objectIn(resource, group, namespace, name string) string {
	switch resource {
	case "clusters":
		resource += "." + group
	case "namespaces":
		namespace = ""
	}
	return resource + " " + namespace + "/" + name
}
