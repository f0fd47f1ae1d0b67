package leastprivilege

import (
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/testkit/rights"
)

// exception are permissions that the story does not use, and why they are given.
type exception struct {
	reason string
	// role is its ending.
	role string
	// verbs and resources are lists with blanks; resources are as in Request.String.
	verbs, resources string
}

func (e exception) covers(grant rights.Grant) bool {
	resource := grant.Resource
	if grant.Group != "" {
		resource += "." + grant.Group
	}
	return strings.HasSuffix(grant.Role, e.role) && slices.Contains(strings.Fields(e.verbs), grant.Verb) &&
		slices.Contains(strings.Fields(e.resources), resource)
}

var exceptions = []exception{
	{
		"an apply set repairs what somebody else has changed, and reads what is there already, if it comes to that", "drover", "get patch",
		`namespaces serviceaccounts roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io
		customresourcedefinitions.apiextensions.k8s.io rkeclusters.rke.cattle.io rkebootstraptemplates.rke.cattle.io
		machinehealthchecks.cluster.x-k8s.io machinedeployments.cluster.x-k8s.io clusters.management.cattle.io
		clusterregistrationtokens.management.cattle.io *.rke-machine.cattle.io`,
	},
	{
		"an apply set removes what is not wanted any more; with whole clusters the garbage collector removes these", "drover", "delete",
		"rkeclusters.rke.cattle.io rkecontrolplanes.rke.cattle.io",
	},
	{
		"asked within another request: it makes the binding to this role possible", "drover", "bind", "roles.rbac.authorization.k8s.io",
	},
	{
		"asked within other requests where the admission plugin OwnerReferencesPermissionEnforcement is on, as in OpenShift", "", "update",
		`clusters/finalizers.provisioning.cattle.io rkebootstraps/finalizers.rke.cattle.io rkecontrolplanes/finalizers.rke.cattle.io
		clusters/finalizers.cluster.x-k8s.io machines/finalizers.cluster.x-k8s.io machinedeployments/finalizers.cluster.x-k8s.io
		machinehealthchecks/finalizers.cluster.x-k8s.io machinesets/finalizers.cluster.x-k8s.io`,
	},
	{
		"asked when a Cluster names a Secret of another namespace, and as long as it does", "drover", "create",
		"subjectaccessreviews.authorization.k8s.io",
	},
	{"settings that are others at the next start", "drover", "update", "configmaps"},
	{"definitions of an older Drover", "drover", "update", "customresourcedefinitions.apiextensions.k8s.io"},
	{"read live after a conflict", "drover", "get", "clusters.provisioning.cattle.io"},
	{"hosts that exist already", "cluster-api", "list watch patch delete", "custommachines.rke.cattle.io"},
	{"an event that comes again", "", "patch", "events"},
	{"a user's ClusterResourceSets", "cluster-api", "get patch", "configmaps secrets"},
	{
		"a user's ClusterResourceSets", "cluster-api", "create patch delete",
		`clusterresourcesets.addons.cluster.x-k8s.io clusterresourcesets/status.addons.cluster.x-k8s.io
		clusterresourcesetbindings.addons.cluster.x-k8s.io`,
	},
	{"a user's MachinePools", "cluster-api", "patch", "machinepools.cluster.x-k8s.io machinepools/status.cluster.x-k8s.io"},
	{"nodes that are drained", "cluster-api", "list watch", "machinedrainrules.cluster.x-k8s.io"},
	{"read live after a conflict", "cluster-api", "get", "rkebootstraps.rke.cattle.io *.rke-machine.cattle.io"},
	{"a health check that changes its own annotations", "cluster-api", "patch", "machinehealthchecks.cluster.x-k8s.io"},
}
