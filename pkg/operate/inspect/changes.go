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

// ObjectChange is the change of one object.
type ObjectChange struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Verb is Create, Update, Delete or Refuse.
	Verb applyset.Verb `json:"verb"`
	// Class is the strongest class of its fields.
	Class planner.Class `json:"class"`
	// Fields that an update changes.
	Fields []preview.Cause `json:"fields,omitempty"`
	// Problem says why the change is impossible.
	Problem string `json:"problem,omitempty"`
}

// changes fills in all writes that the controllers would make to the objects of a cluster. The planner's marks that an
// adoption writes to Machines are not included. cluster is the live one.
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

// replaced marks the machines that a controller would delete, for example machines whose host could not be created.
// Others replace them.
func (a *Adoption) replaced(found []applyset.Difference) {
	for _, d := range found {
		if d.Kind.Kind == "Machine" && d.Verb == applyset.Delete {
			a.replace(d.Name)
		}
	}
}

// managementSet compares the objects of the management side. If the user may not read them, the rehearsal of the
// controllers reports that.
func (r *Reader) managementSet(ctx context.Context, in topology.Input) ([]applyset.Difference, error) {
	registry := topology.Registry{URL: r.settings.SystemDefaultRegistry}
	live, err := r.get(ctx, topology.Management(in.Cluster, registry))
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return provisioningcluster.RehearseManagement(r.rehearsal(live), in.Cluster, registry)
}

// merged adds the change of an object to the known changes. It drops an update without fields.
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

// changesOfConfigs lists the machine configs that the cluster takes over.
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

// list reads all objects of these kinds in the namespace. A kind that is not served has no objects.
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

// get reads the existing objects.
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

// changesOfCluster lists the fields that the server completes on the Cluster, without the mark.
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

// ofTheMark reports whether the adopting command, and not the server, writes the Cluster's field.
func ofTheMark(path []string) bool {
	last := path[len(path)-1]
	return last == rkev1.InstanceAnnotation || last == rkev1.ReleasedByAnnotation || last == "resourceVersion"
}

// setPrefix is the prefix of labels and annotations that name the apply set and the origin of an object.
const setPrefix = "objectset.rio.cattle.io/"

// told shortens a path for the report. All metadata of an apply set appear as one path, because they change together.
// In status only the outline appears.
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

// classifier determines what writes to objects do to machines.
type classifier struct {
	// pools maps MachineDeployments to pools. plans maps plan Secrets to machines.
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
	if d.Kind.Kind == "Cluster" { // three kinds have this name
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

// class returns the effect of a field on machines: its possible effect, if it happens to at least one machine.
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

// ofMachine returns the effect on a machine.
func (c classifier) ofMachine(name string) planner.Class {
	at := slices.IndexFunc(c.machines, func(m AdoptedMachine) bool { return name != "" && m.Name == name })
	if at < 0 {
		return planner.ClassNone
	}
	return c.machines[at].Class
}

// machinesByPlan maps names of plan Secrets to names of machines.
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

// strongest returns the strongest of the given classes that occurs among the machines of a deployment. An empty
// deployment means all machines.
func (c classifier) strongest(deployment string, of ...planner.Class) planner.Class {
	out := planner.ClassNone
	for _, m := range c.machines {
		if (deployment == "" || m.Pool == c.pools[deployment]) && slices.Contains(of, m.Class) && m.Class.Stronger(out) {
			out = m.Class
		}
	}
	return out
}

// fieldsOf returns the paths of the fields that a merge patch sets or removes, sorted.
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

// fieldPath formats a path as the server's messages do.
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
