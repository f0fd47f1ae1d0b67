package planner

import (
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// splits says why a server does not get a plan that has it keep the cluster's data elsewhere than it did, or than the server that it joins: it would serve
// another cluster under the same name. From one database to another a cluster may be moved by who looks after them.
func (p *pass) splits(m *machine, desired plan.NodePlan) string {
	if !m.roles.Server() || p.restoring || m.down() {
		return ""
	}
	others := m
	if !m.inEtcdBefore() {
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

// keepsData reports that a server may keep the cluster's data elsewhere than in etcd, or in etcd: it has a plan that says so.
func (m *machine) keepsData(elsewhere bool) bool {
	return slices.ContainsFunc(m.mayHave(), func(have plan.NodePlan) bool {
		found, known := render.KeepsDataElsewhere(have)
		return known && found == elsewhere
	})
}

// KeepsDataElsewhere reports that a server keeps the cluster's data in another datastore than etcd: every plan that it may have says so.
func KeepsDataElsewhere(secret *PlanSecret) bool {
	return secret.Malformed == "" && !slices.ContainsFunc(secret.mayHave(), func(have plan.NodePlan) bool {
		elsewhere, _ := render.KeepsDataElsewhere(have)
		return !elsewhere
	})
}
