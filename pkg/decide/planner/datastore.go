package planner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// misplaces says why a machine does not get a plan that keeps the cluster's data in another place. A member that may
// have the configuration of that plan already needs no check: its data stay where they are.
func (r *renderer) misplaces(m *machine, desired plan.NodePlan) string {
	same := func(have plan.NodePlan) bool { return render.SameConfig(have, desired) }
	if m.roles.ETCD && m.hasJoined() && slices.ContainsFunc(m.Plan.mayHave(), same) {
		return ""
	}
	return cmp.Or(r.moves(m, desired), r.splits(m, desired))
}

// moves says why an etcd member does not get a plan that starts it in an empty directory. The init node would start a
// second cluster, and the others would lose their copy of the data. Only a restore may do that. A directory that the
// node may have already is no move, so an edit that was delivered and not carried out can be undone.
func (r *renderer) moves(m *machine, desired plan.NodePlan) string {
	if !m.roles.ETCD || !m.hasJoined() || r.restoring || m.down() {
		return ""
	}
	wanted, says := render.HomeOf(desired)
	var homes []render.Home
	for _, have := range m.Plan.mayHave() {
		if home, known := render.HomeOf(have); known {
			homes = append(homes, home)
		}
	}
	if !says || len(homes) == 0 || slices.Contains(homes, wanted) {
		return ""
	}
	had := homes[0]
	if had.Runtime != wanted.Runtime {
		return fmt.Sprintf("spec.kubernetesVersion: the node has the cluster's data as %s, which %s does not take over"+
			": name a version of %s", had.Runtime, wanted.Runtime, had.Runtime)
	}
	return fmt.Sprintf("%s: the node has the cluster's data in %s, and would begin without them in %s: "+
		"set it back, it cannot change once there are machines", r.movedBy(m), had.Dir, wanted.Dir)
}

// movedBy is the field that moves a machine away from its data: the field that names the directory now, or named it
// before.
func (r *renderer) movedBy(m *machine) string {
	in := r.inputFor(m, "")
	now := render.DataDirField(in)
	if now == "" && r.s.ControlPlane.Status.AppliedSpec != nil {
		in.ControlPlane.Spec = *r.s.ControlPlane.Status.AppliedSpec
		now = render.DataDirField(in)
	}
	return cmp.Or(now, render.FieldDataDir)
}

// splits says why a server does not get a plan that moves the cluster's data: away from its own place, or to another
// place than that of the server that it joins. It would serve another cluster under the same name. Operators of
// databases may move a cluster from one database to another.
func (r *renderer) splits(m *machine, desired plan.NodePlan) string {
	if !m.roles.Server() || r.restoring || m.down() {
		return ""
	}
	others := m
	if !m.hasJoined() {
		others = r.init
	}
	wanted, says := render.KeepsDataElsewhere(desired)
	if !says || others == nil || others.Plan == nil || !others.keepsData(!wanted) || others.keepsData(wanted) {
		return ""
	}
	if wanted {
		return "key datastore-endpoint of spec.rkeConfig.machineGlobalConfig or machineSelectorConfig: the " +
			"cluster's data are in etcd, and the server would begin " +
			"without them in another datastore: remove the key, it cannot be set once there are machines"
	}
	return "key datastore-endpoint of spec.rkeConfig.machineGlobalConfig or machineSelectorConfig: the cluster's " +
		"data are in another datastore, and the server would begin " +
		"without them in etcd: set the key again for all servers, it cannot be removed once there are machines"
}

// keepsData reports that a server may keep the cluster's data in etcd, or elsewhere: one of its possible plans says so.
func (m *machine) keepsData(elsewhere bool) bool {
	return slices.ContainsFunc(m.Plan.mayHave(), func(have plan.NodePlan) bool {
		found, known := render.KeepsDataElsewhere(have)
		return known && found == elsewhere
	})
}

// KeepsDataElsewhere reports that a server keeps the cluster's data in another datastore than etcd: every plan that it
// may have says so.
func KeepsDataElsewhere(secret *PlanSecret) bool {
	return secret.Malformed == "" && !slices.ContainsFunc(secret.mayHave(), func(have plan.NodePlan) bool {
		elsewhere, _ := render.KeepsDataElsewhere(have)
		return !elsewhere
	})
}
