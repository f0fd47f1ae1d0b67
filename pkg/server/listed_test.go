package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/inspect"
	"github.com/drover-io/drover/pkg/planner"
)

// lines are what would be done to objects, a line for each.
func lines(objects []inspect.ObjectChange) []string {
	var out []string
	for _, object := range objects {
		line := fmt.Sprintf("%s %s %s/%s", object.Verb, object.Kind, object.Namespace, object.Name)
		for _, field := range object.Fields {
			line += " " + field.Field
		}
		if object.Class != planner.ClassNone {
			line += " " + string(object.Class)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// listed are the objects that would be written, as the log of requests names them.
func listed(a inspect.Adoption) []string {
	var out []string
	for _, object := range a.Objects {
		kind, group, _ := strings.Cut(object.Kind, ".")
		out = append(out, resourceIn(strings.ToLower(kind)+"s", group)+" "+object.Namespace+"/"+object.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// written are the objects of the cluster that Drover has written since the log was reset.
func (w *world) written() []string {
	w.Helper()
	var out []string
	for _, write := range w.api.Writes(ours) {
		ofCluster := write.Namespace == fleet || strings.HasPrefix(write.Namespace, "c-m-") || write.Namespace == "" && strings.HasPrefix(write.Name, "c-m-")
		if !ofCluster || write.Code != http.StatusOK || strings.HasPrefix(write.Resource, "events") {
			continue
		}
		resource, _, _ := strings.Cut(write.Resource, "/")
		name, group, _ := strings.Cut(resource, ".")
		out = append(out, resourceIn(name, group)+" "+write.Namespace+"/"+write.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// resourceIn names a resource; of clusters there are three.
func resourceIn(resource, group string) string {
	if resource == "clusters" {
		return resource + "." + group
	}
	return resource
}

// provesList fails when Drover has written other objects of a cluster since it was taken than were listed before.
func (w *world) provesList(a inspect.Adoption) {
	w.Helper()
	if diff := cmp.Diff(listed(a), w.written()); diff != "" {
		w.Errorf("objects that were written are not those that were listed (-listed +written):\n%s", diff)
	}
}
