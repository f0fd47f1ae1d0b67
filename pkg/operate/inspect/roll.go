package inspect

import (
	"fmt"
	"slices"
	"strings"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Roll is the effect of a command that moves machines to another render version.
type Roll struct {
	// Cluster is the cluster's namespace and name, as NAMESPACE/NAME.
	Cluster string `json:"cluster"`
	// To is the target version.
	To string `json:"to"`
	// Command is the annotation's value after the command. Was is its current value.
	Command string `json:"command"`
	Was     string `json:"was,omitempty"`
	// SettingsUnknown says why the server's settings are unknown, empty if they are known. With unknown settings, plans
	// can differ from the plans on the nodes.
	SettingsUnknown string `json:"settingsUnknown,omitempty"`
	// Result is the strongest class: None, InPlace or Restart.
	Result planner.Class `json:"result"`
	// Machines that the command addresses, by name.
	Machines []RollMachine `json:"machines,omitempty"`
}

// RollMachine is the effect on one machine.
type RollMachine struct {
	Name  string `json:"name"`
	Pool  string `json:"pool,omitempty"`
	Roles string `json:"roles,omitempty"`
	// From is the render version of the machine's plan, empty if it has no plan.
	From string `json:"from,omitempty"`
	// Class is None, InPlace or Restart.
	Class planner.Class `json:"class"`
	// Drained means that Drover drains the node first.
	Drained bool `json:"drained,omitempty"`
	// Cause is the cause of the change. Pending means that the change is independent of the command.
	Cause   disruption.Cause `json:"cause,omitempty"`
	Pending bool             `json:"pending,omitempty"`
	// Held says why the change must wait, or why it is unknown.
	Held string `json:"held,omitempty"`
	// Problem says why no plan can be made for the machine.
	Problem string `json:"problem,omitempty"`
}

// Pending returns the machines that are not at the version yet.
func (r Roll) Pending() []string {
	var names []string
	for _, m := range r.Machines {
		if m.From != r.To {
			names = append(names, m.Name)
		}
	}
	return names
}

// HeldUp returns the machines that have not moved, each with its reason. It returns nil unless every one of them is
// held.
func (r Roll) HeldUp() []string {
	var held []string
	for _, m := range r.Machines {
		switch {
		case m.From == r.To:
		case m.Held == "":
			return nil
		default:
			held = append(held, fmt.Sprintf("machine %s: %s", m.Name, m.Held))
		}
	}
	return held
}

// Roll returns the effect of moving the machines of some pools, or all machines. An empty version means the newest.
func (r *Reader) Roll(name, to string, pools []string) (Roll, error) {
	out := Roll{Cluster: r.namespace + "/" + name, To: to, Result: planner.ClassNone}
	if out.To == "" {
		out.To = render.Versions{}.Newest()
	}
	if known := (render.Versions{}); !known.Knows(out.To) {
		return out, fmt.Errorf("unknown render version %q; use one of %s", out.To, strings.Join(known.Names(), ", "))
	}
	cluster, err := r.Cluster(name)
	if err != nil {
		return out, err
	}
	controlPlane, err := r.controlPlane(name)
	if err != nil {
		return out, err
	}
	switch {
	case cluster.DeletionTimestamp != nil:
		return out, fmt.Errorf("cluster %s is being deleted: its machines keep their render versions", out.Cluster)
	case cluster.Spec.RKEConfig == nil || controlPlane == nil:
		return out, fmt.Errorf(
			"cluster %s has no control plane yet: its machines will start with the newest render version", out.Cluster)
	}
	for _, pool := range pools {
		if !slices.ContainsFunc(cluster.Spec.RKEConfig.MachinePools, func(p provv1.RKEMachinePool) bool {
			return p.Name == pool
		}) {
			return out, fmt.Errorf("cluster %s has no machine pool %q", out.Cluster, pool)
		}
	}
	out.SettingsUnknown = r.learn(cluster)
	snapshot, err := r.planner.Snapshot(controlPlane)
	if err != nil {
		return out, fmt.Errorf("read cluster %s: %w", out.Cluster, err)
	}
	out.Was = cluster.Annotations[rkev1.RollAnnotation]
	command := planner.ParseRoll(out.Was).With(out.To, pools...)
	out.Command = command.String()
	out.expect(snapshot, command, pools)
	return out, nil
}

// expect fills in the effect on each machine.
func (r *Roll) expect(snapshot planner.Snapshot, command planner.Roll, pools []string) {
	before := planner.Assess(snapshot)
	snapshot.Roll = command
	after := planner.Assess(snapshot)
	for _, m := range snapshot.Machines {
		pool := m.Labels[rkev1.MachinePoolNameLabel]
		if m.Deleting || len(pools) > 0 && !slices.Contains(pools, pool) {
			continue
		}
		was, _ := before.Find(m.Name)
		expected, _ := after.Find(m.Name)
		line := RollMachine{
			Name: m.Name, Pool: pool, Roles: planner.RolesText(m.Labels), From: m.Marks.RenderVersion,
			Class:   expected.Class,
			Drained: expected.Drained, Held: expected.Held, Problem: expected.Problem,
		}
		switch {
		case planner.ClassBetween(was, expected) != planner.ClassNone:
			line.Cause = disruption.CommandRoll
		case line.Class != planner.ClassNone:
			line.Pending = true
		}
		if line.Cause != "" && line.Class.Stronger(r.Result) {
			r.Result = line.Class
		}
		r.Machines = append(r.Machines, line)
	}
	slices.SortFunc(r.Machines, func(a, b RollMachine) int { return strings.Compare(a.Name, b.Name) })
}
