package leastprivilege

import (
	"testing"

	"github.com/drover-io/drover/pkg/testkit/rights"
)

// exception is permissions that the roles have although the stories do not use them.
type exception struct {
	// reason is why the roles have them.
	reason string
	role   string
	// needs are the permissions, in the format of rights.Needs.
	needs string
}

// exceptions are permissions that the stories never use. A used permission is no exception and fails the test.
var exceptions = []exception{
	{
		"an apply set removes what is not wanted any more; with whole clusters the garbage collector removes these", rights.Own,
		"delete: rkeclusters.rke.cattle.io rkecontrolplanes.rke.cattle.io",
	},
	{
		"asked within another request: it makes the binding to this role possible", rights.Own,
		"bind: roles.rbac.authorization.k8s.io=rke2-machine-provisioner",
	},
	{
		"asked within other requests where the admission plugin OwnerReferencesPermissionEnforcement is on, as in OpenShift", rights.Own,
		`update: clusters/finalizers.provisioning.cattle.io rkebootstraps/finalizers.rke.cattle.io rkecontrolplanes/finalizers.rke.cattle.io
		update: clusters/finalizers.cluster.x-k8s.io machines/finalizers.cluster.x-k8s.io`,
	},
	{
		"asked within other requests where the admission plugin OwnerReferencesPermissionEnforcement is on, as in OpenShift", rights.Core,
		`update: clusters/finalizers.cluster.x-k8s.io machines/finalizers.cluster.x-k8s.io machinedeployments/finalizers.cluster.x-k8s.io
		update: machinehealthchecks/finalizers.cluster.x-k8s.io machinesets/finalizers.cluster.x-k8s.io`,
	},
	{
		"asked when a Cluster names a Secret of another namespace, and as long as it does, and when somebody uses a cluster through Drover", rights.Own,
		"create: subjectaccessreviews.authorization.k8s.io",
	},
	{"replicas that end, and those that are gone", rights.System, "delete: leases.coordination.k8s.io"},
	{"settings that are others at the next start", rights.System, "update: configmaps"},
	{"definitions of an older Drover", rights.Own, "update: customresourcedefinitions.apiextensions.k8s.io"},
	{"hosts that exist already", rights.Core, "watch patch delete: custommachines.rke.cattle.io"},
	{
		"a user's ClusterResourceSets", rights.Core,
		`get patch: configmaps secrets
		patch: clusterresourcesets.addons.cluster.x-k8s.io clusterresourcesets/status.addons.cluster.x-k8s.io
		create patch delete: clusterresourcesetbindings.addons.cluster.x-k8s.io`,
	},
	{"a user's MachinePools", rights.Core, "patch: machinepools.cluster.x-k8s.io machinepools/status.cluster.x-k8s.io"},
	{"nodes that are drained", rights.Core, "watch: machinedrainrules.cluster.x-k8s.io"},
	{"a health check that changes its own annotations", rights.Core, "patch: machinehealthchecks.cluster.x-k8s.io"},
}

// atTimes are permissions that the stories use only with certain timing.
var atTimes = []exception{
	{
		"an apply set repairs what somebody else has changed, and reads what is there already, if it comes to that", rights.Own,
		`get patch: namespaces serviceaccounts roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io
		get patch: customresourcedefinitions.apiextensions.k8s.io
		get patch: rkeclusters.rke.cattle.io rkebootstraptemplates.rke.cattle.io *.rke-machine.cattle.io
		get patch: machinehealthchecks.cluster.x-k8s.io machinedeployments.cluster.x-k8s.io
		get patch: clusters.management.cattle.io clusterregistrationtokens.management.cattle.io`,
	},
	{
		"in the caches of the core, where that runs in Drover, and not watched a second time; which of both watches is a matter of time", rights.Own,
		"watch: clusters.cluster.x-k8s.io machinedeployments.cluster.x-k8s.io machinehealthchecks.cluster.x-k8s.io machines.cluster.x-k8s.io",
	},
	{"read live after a conflict", rights.Own, "get: clusters.provisioning.cattle.io"},
	{"an event that comes again", rights.Own, "patch: events"},
	{"an event that comes again", rights.Core, "patch: events"},
	{"read live after a conflict", rights.Core, "get: rkebootstraps.rke.cattle.io *.rke-machine.cattle.io"},
}

// granted returns the permissions of exceptions.
func granted(t *testing.T, exceptions []exception) []rights.Grant {
	t.Helper()
	var out []rights.Grant
	for _, e := range exceptions {
		needs, err := rights.Needs(e.role, e.needs)
		if err != nil {
			t.Fatalf("exception %q: %v", e.reason, err)
		}
		out = append(out, needs...)
	}
	return out
}
