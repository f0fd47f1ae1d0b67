package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	clustercontroller "github.com/drover-io/drover/pkg/controllers/cluster"
	"github.com/drover-io/drover/pkg/controllers/provisioningcluster"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/rehearsal"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
)

// ObjectChange is what would be done to an object.
type ObjectChange struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Verb is Create, Update, Delete or Refuse.
	Verb applyset.Verb `json:"verb"`
	// Class is the strongest of its fields.
	Class planner.Class `json:"class"`
	// Fields that an update changes.
	Fields []preview.Cause `json:"fields,omitempty"`
	// Problem says why it cannot be done.
	Problem string `json:"problem,omitempty"`
}

// changes fills in all writes that the controllers would make to the objects of a cluster, other than the notes on Machines with which it is adopted.
// cluster is the live one.
func (r *Reader) changes(ctx context.Context, out *Adoption, cluster *provv1.Cluster, in topology.Input) error {
	changes, err := changesOfCluster(cluster, in.Cluster)
	if err != nil {
		return err
	}
	changes = append(changes, changesOfConfigs(in)...)
	objects, err := topology.Desired(in)
	if err != nil {
		return fmt.Errorf("plan the objects: %w", err)
	}
	live, err := r.list(ctx, provisioningcluster.Kinds(objects))
	if err != nil {
		return err
	}
	found, err := provisioningcluster.RehearseSet(r.rehearsal(live), in.Cluster, objects)
	if err != nil {
		return err
	}
	management, err := r.managementSet(ctx, in)
	if err != nil {
		return err
	}
	rest, notes, err := r.rehearse(ctx, cluster, out)
	if err != nil {
		return err
	}
	out.Notes = append(out.Notes, notes...)
	out.replaced(rest)
	classes := classifier{pools: poolsByDeployment(objects, live), machines: out.Machines}
	if classes.plans, err = r.machinesByPlan(); err != nil {
		return err
	}
	for _, d := range slices.Concat(found, management, rest) {
		changes = merged(changes, classes.change(d))
	}
	out.Objects = changes
	return nil
}

// replaced notes the machines that a controller would delete, such as those of which no host could be made: others take their place.
func (a *Adoption) replaced(found []applyset.Difference) {
	for _, d := range found {
		if d.Kind.Kind == "Machine" && d.Verb == applyset.Delete {
			a.replace(d.Name)
		}
	}
}

// managementSet compares the objects of the management side. Of those that the user may not read the controllers' own comparison says so.
func (r *Reader) managementSet(ctx context.Context, in topology.Input) ([]applyset.Difference, error) {
	registry := topology.Registry{URL: r.settings.SystemDefaultRegistry}
	live, err := r.get(ctx, clustercontroller.Objects(in.Cluster, registry))
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return clustercontroller.RehearseSet(r.rehearsal(live), in.Cluster, registry)
}

// merged adds what would be done to an object to what is known of it already. An update of nothing is none.
func merged(known []ObjectChange, more ObjectChange) []ObjectChange {
	at := slices.IndexFunc(known, func(c ObjectChange) bool {
		return c.Kind == more.Kind && c.Namespace == more.Namespace && c.Name == more.Name
	})
	switch {
	case at < 0 && more.Verb == applyset.Update && len(more.Fields) == 0:
		return known
	case at < 0:
		return append(known, more)
	}
	one := &known[at]
	if more.Class.Stronger(one.Class) {
		one.Class = more.Class
	}
	for _, field := range more.Fields {
		if !slices.ContainsFunc(one.Fields, func(c preview.Cause) bool { return c.Field == field.Field }) && one.Verb == applyset.Update {
			one.Fields = append(one.Fields, field)
		}
	}
	slices.SortStableFunc(one.Fields, func(a, b preview.Cause) int { return strings.Compare(a.Field, b.Field) })
	return known
}

// changesOfConfigs are the machine configs that become the cluster's.
func changesOfConfigs(in topology.Input) []ObjectChange {
	var out []ObjectChange
	for _, ref := range topology.ConfigRefs(in.Cluster) {
		taken, err := topology.TakeConfig(in.Cluster, in.MachineConfigs[ref])
		change := ObjectChange{Kind: ref.Kind, Namespace: in.Cluster.Namespace, Name: ref.Name, Verb: applyset.Update, Class: planner.ClassNone}
		switch {
		case err != nil:
			change.Verb, change.Problem = applyset.Refuse, err.Error()
		case taken == nil:
			continue
		default:
			change.Fields = []preview.Cause{{Field: "metadata.ownerReferences", Class: planner.ClassNone}}
		}
		out = append(out, change)
	}
	return out
}

func (r *Reader) rehearsal(live []*unstructured.Unstructured) applyset.Rehearsal {
	return applyset.Rehearsal{Discovery: r.clients.Kubernetes.Discovery(), Scheme: r.clients.Scheme, Live: live}
}

// list reads all objects of kinds in the namespace. A kind that is not served has none.
func (r *Reader) list(ctx context.Context, kinds []schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, gvk := range kinds {
		found, err := r.live.Resource(rehearsal.ResourceOf(gvk)).Namespace(r.namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list objects of kind %s in %s: %w", gvk.Kind, r.namespace, err)
		}
		for i := range found.Items {
			found.Items[i].SetGroupVersionKind(gvk)
			out = append(out, &found.Items[i])
		}
	}
	return out, nil
}

// get reads those of the objects that exist.
func (r *Reader) get(ctx context.Context, objects []runtime.Object) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, object := range objects {
		m, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		gvk := object.GetObjectKind().GroupVersionKind()
		found, err := r.live.Resource(rehearsal.ResourceOf(gvk)).Namespace(m.GetNamespace()).Get(ctx, m.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, m.GetName(), err)
		}
		found.SetGroupVersionKind(gvk)
		out = append(out, found)
	}
	return out, nil
}

// changesOfCluster are the fields that the server completes on the Cluster itself, beside the mark.
func changesOfCluster(live, prepared *provv1.Cluster) ([]ObjectChange, error) {
	patch, err := topology.PreparePatch(live, prepared)
	if err != nil {
		return nil, err
	}
	var operations []struct {
		Path string `json:"path"`
		Op   string `json:"op"`
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, fmt.Errorf("read what is completed on the Cluster: %w", err)
	}
	change := ObjectChange{Kind: "Cluster.provisioning.cattle.io", Namespace: live.Namespace, Name: live.Name, Verb: applyset.Update, Class: planner.ClassNone}
	for _, o := range operations {
		var path []string
		for part := range strings.SplitSeq(strings.TrimPrefix(o.Path, "/"), "/") {
			path = append(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
		}
		if o.Op != "test" && !ofTheMark(path) {
			change.Fields = append(change.Fields, preview.Cause{Field: fieldPath(path), Class: planner.ClassNone})
		}
	}
	if len(change.Fields) == 0 {
		return nil, nil
	}
	return []ObjectChange{change}, nil
}

// ofTheMark reports fields of the Cluster that whoever adopts it writes, and not its server.
func ofTheMark(path []string) bool {
	last := path[len(path)-1]
	return last == rkev1.InstanceAnnotation || last == rkev1.ReleasedByAnnotation || last == "resourceVersion"
}

// setPrefix begins the labels and annotations that say to which set of Drover's or Rancher's an object belongs, and what it was made from.
const setPrefix = "objectset.rio.cattle.io/"

// told is a path as it is told: one for all notes of a set, which come and go together, and of what is reported only the outline.
func told(path []string) []string {
	const outline = 2
	switch {
	case strings.HasPrefix(path[len(path)-1], setPrefix):
		return []string{"metadata", "annotations", setPrefix + "*"}
	case path[0] == "status" && len(path) > outline:
		return path[:outline]
	}
	return path
}

// classifier says what writes to objects do to machines.
type classifier struct {
	// pools are by the name of their MachineDeployment, and plans the machines by the name of their plan secret.
	pools    map[string]string
	plans    map[string]string
	machines []AdoptedMachine
}

func poolsByDeployment(wanted []runtime.Object, live []*unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, object := range live {
		if object.GetKind() == "MachineDeployment" {
			pool, _, _ := unstructured.NestedString(object.Object, "spec", "template", "metadata", "labels", rkev1.MachinePoolNameLabel)
			out[object.GetName()] = pool
		}
	}
	for _, object := range wanted {
		if md, ok := object.(*clusterv1.MachineDeployment); ok {
			out[md.Name] = md.Spec.Template.Labels[rkev1.MachinePoolNameLabel]
		}
	}
	return out
}

func (c classifier) change(d applyset.Difference) ObjectChange {
	out := ObjectChange{Kind: d.Kind.Kind, Namespace: d.Namespace, Name: d.Name, Verb: d.Verb, Class: planner.ClassNone, Problem: d.Reason}
	if d.Kind.Kind == "Cluster" { // there are three of the name
		out.Kind += "." + d.Kind.Group
	}
	if strings.HasPrefix(d.Name, clusterproxy.TokenSecretPrefix) {
		out.Name = clusterproxy.TokenSecretPrefix + "*"
	}
	for _, path := range fieldsOf(d.Patch) {
		field := preview.Cause{Field: fieldPath(told(path)), Class: c.class(d, path)}
		if !slices.Contains(out.Fields, field) {
			out.Fields = append(out.Fields, field)
		}
	}
	for _, field := range out.Fields {
		if field.Class.Stronger(out.Class) {
			out.Class = field.Class
		}
	}
	if d.Kind.Kind == "Machine" && d.Verb == applyset.Delete {
		out.Class = c.ofMachine(d.Name)
	}
	if d.Kind.Kind == "MachineDeployment" && d.Verb != applyset.Update {
		out.Class = c.strongest(d.Name, planner.ClassAdd, planner.ClassRemove)
	}
	return out
}

// class is what a field does to machines: what it can do, if that is what becomes of some.
func (c classifier) class(d applyset.Difference, path []string) planner.Class {
	text := fieldPath(path)
	switch {
	case d.Kind.Kind == "Secret" && text == "data."+nodeplan.KeyPlan:
		return c.ofMachine(c.plans[d.Name])
	case d.Kind.Kind == "RKEControlPlane" && strings.HasPrefix(text, "spec."):
		return c.strongest("", planner.ClassInPlace, planner.ClassRestart)
	case d.Kind.Kind != "MachineDeployment":
	case strings.HasPrefix(text, "spec.template.spec.infrastructureRef"), strings.HasPrefix(text, "spec.template.spec.bootstrap"):
		return c.strongest(d.Name, planner.ClassReplace)
	case text == "spec.replicas":
		return c.strongest(d.Name, planner.ClassAdd, planner.ClassRemove)
	case strings.HasPrefix(text, "spec.template.metadata"):
		return c.strongest(d.Name, planner.ClassInPlace, planner.ClassRestart)
	}
	return planner.ClassNone
}

// ofMachine is what becomes of a machine.
func (c classifier) ofMachine(name string) planner.Class {
	at := slices.IndexFunc(c.machines, func(m AdoptedMachine) bool { return name != "" && m.Name == name })
	if at < 0 {
		return planner.ClassNone
	}
	return c.machines[at].Class
}

// machinesByPlan are the names of machines by those of their plan secrets.
func (r *Reader) machinesByPlan() (map[string]string, error) {
	machines, err := r.plans.Machines.Cache().List(r.namespace, labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	out := map[string]string{}
	for _, machine := range machines {
		out[naming.PlanSecret(machine.Spec.Bootstrap.ConfigRef.Name)] = machine.Name
	}
	return out, nil
}

// strongest is the strongest of some classes that becomes of the machines of a deployment, or of any machine.
func (c classifier) strongest(deployment string, of ...planner.Class) planner.Class {
	out := planner.ClassNone
	for _, m := range c.machines {
		if (deployment == "" || m.Pool == c.pools[deployment]) && slices.Contains(of, m.Class) && m.Class.Stronger(out) {
			out = m.Class
		}
	}
	return out
}

// fieldsOf are the paths of the fields that a merge patch sets or removes, sorted.
func fieldsOf(patch map[string]any) [][]string {
	var out [][]string
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		if fields, ok := patch[key].(map[string]any); ok && len(fields) > 0 {
			for _, rest := range fieldsOf(fields) {
				out = append(out, append([]string{key}, rest...))
			}
			continue
		}
		out = append(out, []string{key})
	}
	return out
}

// fieldPath is a path as messages of the server name it.
func fieldPath(path []string) string {
	var out strings.Builder
	for i, key := range path {
		switch {
		case strings.ContainsAny(key, "./"):
			out.WriteString("[" + key + "]")
		case i == 0:
			out.WriteString(key)
		default:
			out.WriteString("." + key)
		}
	}
	return out.String()
}
