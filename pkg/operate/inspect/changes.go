package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/applyset"
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

// changes fills in all writes that the controllers would make to the objects of a cluster. The marks that an adoption
// writes to the Cluster and its Machines are not included.
func (r *Reader) changes(ctx context.Context, out *Adoption, cluster *provv1.Cluster) error {
	classes := classifier{pools: map[string]string{}, plans: map[string]string{}}
	if err := r.classes(&classes); err != nil {
		return err
	}
	found, notes, err := r.rehearse(ctx, cluster, out)
	if err != nil {
		return err
	}
	out.Notes = append(out.Notes, notes...)
	if err := r.classes(&classes); err != nil { // with new MachineDeployments
		return err
	}
	for _, d := range found {
		if d.Kind.Kind == "Machine" && d.Verb == applyset.Delete {
			out.replace(d.Name) // for example a machine whose host could not be created
		}
	}
	classes.machines = out.Machines
	for _, d := range found {
		out.Objects = append(out.Objects, classes.change(d))
	}
	out.Objects = slices.CompactFunc(out.Objects, func(a, b ObjectChange) bool { // tokens with random names
		return a.Verb == b.Verb && a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name
	})
	return nil
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

// classes reads the pools of the MachineDeployments and the Machines of the plan Secrets.
func (r *Reader) classes(out *classifier) error {
	deployments, err := r.topology.MachineDeployments.Cache().List(r.namespace, labels.Everything())
	if err != nil {
		return fmt.Errorf("list machine deployments: %w", err)
	}
	for _, deployment := range deployments {
		out.pools[deployment.Name] = deployment.Spec.Template.Labels[rkev1.MachinePoolNameLabel]
	}
	machines, err := r.plans.Machines.Cache().List(r.namespace, labels.Everything())
	if err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	for _, machine := range machines {
		out.plans[naming.PlanSecret(machine.Spec.Bootstrap.ConfigRef.Name)] = machine.Name
	}
	return nil
}

func (c classifier) change(d applyset.Difference) ObjectChange {
	out := ObjectChange{Kind: d.Kind.Kind, Namespace: d.Namespace, Name: d.Name, Verb: d.Verb, Class: planner.ClassNone,
		Problem: d.Reason}
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
	slices.SortFunc(out.Fields, func(a, b preview.Cause) int { return strings.Compare(a.Field, b.Field) })
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
	case strings.HasPrefix(text, "spec.template.spec.infrastructureRef"),
		strings.HasPrefix(text, "spec.template.spec.bootstrap"):
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

// strongest returns the strongest of the given classes that occurs among the machines of a deployment. An empty
// deployment means all machines.
func (c classifier) strongest(deployment string, of ...planner.Class) planner.Class {
	out := planner.ClassNone
	for _, m := range c.machines {
		if (deployment == "" || m.Pool == c.pools[deployment]) && slices.Contains(of, m.Class) &&
			m.Class.Stronger(out) {
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
