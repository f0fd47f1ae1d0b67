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
		"an apply set deletes unwanted objects; for whole clusters, the garbage collector deletes these", rights.Own,
		"delete: rkeclusters.rke.cattle.io rkecontrolplanes.rke.cattle.io",
	},
	{
		"checked within another request: it allows the binding to this role", rights.Own,
		"bind: roles.rbac.authorization.k8s.io=rke2-machine-provisioner",
	},
	{
		"checked within other requests: they allow the rights of the creator of a FleetWorkspace", rights.Own,
		`bind: clusterroles.rbac.authorization.k8s.io=fleetworkspace-admin
		get update delete: fleetworkspaces.management.cattle.io`,
	},
	{
		"checked within other requests if the admission plugin OwnerReferencesPermissionEnforcement is enabled, as " +
			"in OpenShift", rights.Own,
		`update: clusters/finalizers.provisioning.cattle.io rkebootstraps/finalizers.rke.cattle.io rkecontrolplanes/finalizers.rke.cattle.io
		update: clusters/finalizers.cluster.x-k8s.io machines/finalizers.cluster.x-k8s.io
		update: managedcharts/finalizers.management.cattle.io`,
	},
	{
		"checked within other requests if the admission plugin OwnerReferencesPermissionEnforcement is enabled, as " +
			"in OpenShift", rights.Core,
		`update: clusters/finalizers.cluster.x-k8s.io machines/finalizers.cluster.x-k8s.io machinedeployments/finalizers.cluster.x-k8s.io
		update: machinehealthchecks/finalizers.cluster.x-k8s.io machinesets/finalizers.cluster.x-k8s.io`,
	},
	{
		"used while a Cluster names a Secret of another namespace, and when a user reaches a cluster through Drover",
		rights.Own,
		"create: subjectaccessreviews.authorization.k8s.io",
	},
	{
		"checked within other requests: they allow the permissions of the accounts of autoscalers", rights.Own,
		`get update patch: machinedeployments/scale.cluster.x-k8s.io
		watch: machinepools.cluster.x-k8s.io machinesets.cluster.x-k8s.io`,
	},
	{"pools with sizes for an autoscaler", rights.Own, "create: serviceaccounts/token"},
	{"replicas that end, and deleted ones", rights.System, "delete: leases.coordination.k8s.io"},
	{"machines whose Jobs have pods, which the simulated ones lack", rights.Own, "get: pods/log"},
	{"settings that differ at the next start", rights.System, "update: configmaps"},
	{"CRDs of an older Drover", rights.Own, "update: customresourcedefinitions.apiextensions.k8s.io"},
	{
		"the previous version writes conditions of Machines, and leads until an upgrade ends", rights.Own,
		"update: machines/status.cluster.x-k8s.io",
	},
	{"existing hosts", rights.Core, "watch patch delete: custommachines.rke.cattle.io"},
	{
		"a user's ClusterResourceSets", rights.Core,
		`get patch: configmaps secrets
		patch: clusterresourcesets.addons.cluster.x-k8s.io clusterresourcesets/status.addons.cluster.x-k8s.io
		create patch delete: clusterresourcesetbindings.addons.cluster.x-k8s.io`,
	},
	{"a user's MachinePools", rights.Core, "patch: machinepools.cluster.x-k8s.io machinepools/status.cluster.x-k8s.io"},
	{"nodes that are drained", rights.Core, "watch: machinedrainrules.cluster.x-k8s.io"},
}

// atTimes are permissions that the stories use only with certain timing.
var atTimes = []exception{
	{
		"an apply set repairs foreign changes, and reads existing objects", rights.Own,
		`get patch: namespaces serviceaccounts roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io
		get patch: customresourcedefinitions.apiextensions.k8s.io
		get patch: rkeclusters.rke.cattle.io rkebootstraptemplates.rke.cattle.io *.rke-machine.cattle.io
		get patch: machinehealthchecks.cluster.x-k8s.io machinedeployments.cluster.x-k8s.io clusters.cluster.x-k8s.io
		get patch: clusters.management.cattle.io clusterregistrationtokens.management.cattle.io
		get patch: clusters.fleet.cattle.io clusterroles.rbac.authorization.k8s.io
		get patch: clusterrolebindings.rbac.authorization.k8s.io`,
	},
	{
		"in the caches of the embedded core, which are shared; either controller may start the watch", rights.Own,
		"watch: clusters.cluster.x-k8s.io machinedeployments.cluster.x-k8s.io machinehealthchecks.cluster.x-k8s.io " +
			"machines.cluster.x-k8s.io",
	},
	{"read live after a conflict", rights.Own, "get: clusters.provisioning.cattle.io"},
	{"a repeated event", rights.Own, "patch: events"},
	{"a repeated event", rights.Core, "patch: events"},
	{"a health check that changes its own annotations", rights.Core, "patch: machinehealthchecks.cluster.x-k8s.io"},
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
