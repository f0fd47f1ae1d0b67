package planner

import (
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// splits says why a server does not get a plan that moves the cluster's data: away from its own place, or to another
// place than that of the server that it joins. It would serve another cluster under the same name. Operators of
// databases may move a cluster from one database to another.
func (p *pass) splits(m *machine, desired plan.NodePlan) string {
	if !m.roles.Server() || p.restoring || m.down() {
		return ""
	}
	others := m
	if !m.hasJoined() {
		others = p.init
	}
	wanted, says := render.KeepsDataElsewhere(desired)
	if !says || others == nil || others.Plan == nil || !others.keepsData(!wanted) || others.keepsData(wanted) {
		return ""
	}
	if wanted {
		return "key datastore-endpoint of spec.rkeConfig.machineGlobalConfig or machineSelectorConfig: the cluster's data are in etcd, and the server would begin " +
			"without them in another datastore: remove the key, it cannot be set once there are machines"
	}
	return "key datastore-endpoint of spec.rkeConfig.machineGlobalConfig or machineSelectorConfig: the cluster's data are in another datastore, and the server would begin " +
		"without them in etcd: set the key again for all servers, it cannot be removed once there are machines"
}

// keepsData reports that a server may keep the cluster's data in etcd, or elsewhere: one of its possible plans says so.
func (m *machine) keepsData(elsewhere bool) bool {
	return slices.ContainsFunc(m.mayHave(), func(have plan.NodePlan) bool {
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
