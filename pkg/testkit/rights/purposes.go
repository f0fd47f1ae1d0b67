package rights

// Purposes are the purposes of the chart's roles. The first purpose that matches a request covers it, so those of the
// Role in Drover's own namespace precede those of the ClusterRole.
var Purposes = []Purpose{
	{Role: System, Group: "coordination.k8s.io", Resources: "leases", Names: "drover",
		Text: "The Lease of the replica that runs the controllers."},
	{
		Role: System, Group: "coordination.k8s.io", Resources: "leases",
		Text: "The creation of the Lease of the leader, and the Leases of all replicas, which show their number.",
	},
	{Role: System, Resources: "configmaps", Text: "Objects that Drover publishes in its own namespace."},

	{
		Role: Own, Resources: "namespaces",
		Text: "Namespaces of cluster identities, and namespaces that Drover requires. The UID of kube-system " +
			"identifies a cluster.",
	},
	{Role: Own, Resources: "secrets", Text: "Plans, tokens, credentials, kubeconfigs and the state of machines. " +
		"Clusters can be in any namespace."},
	{Role: Own, Resources: "configmaps", Names: "provisioning-log", Verbs: "update",
		Text: "The provisioning logs of clusters."},
	{
		Role: Own, Resources: "configmaps", Verbs: "create",
		Text: "The provisioning logs of clusters. A role cannot limit the names of objects that it may create.",
	},
	{Role: Own, Resources: "configmaps", Text: "Configuration that clusters refer to."},
	{
		Role: Own, Resources: "serviceaccounts",
		Text: "Accounts of the agents of machines, and of the Jobs that create machines. An agent may access only " +
			"its own plan.",
	},
	{Role: Own, Resources: "serviceaccounts/token", Text: "Tokens of the accounts of clusters' autoscalers."},
	{
		Role: Own, Group: "rbac.authorization.k8s.io", Resources: "roles", Names: "rke2-machine-provisioner",
		Verbs: "bind",
		Text: "An optional role with more permissions for the Jobs of machines. An operator creates it, and Drover " +
			"itself does not have its permissions.",
	},
	{
		Role: Own, Group: "rbac.authorization.k8s.io", Resources: "clusterroles", Names: "fleetworkspace-admin",
		Verbs: "bind",
		Text: "Permissions of the creator of a workspace in its namespace. An administrator creates the role, and " +
			"Drover itself does not have its permissions.",
	},
	{
		Role: Own, Group: "rbac.authorization.k8s.io", Resources: "clusterroles clusterrolebindings",
		Text: "Permissions of the creator of a workspace on its FleetWorkspace.",
	},
	{
		Role: Own, Group: "rbac.authorization.k8s.io", Resources: "roles rolebindings",
		Text: "Permissions of the accounts of machines and Jobs on their own Secrets, and of users on their cloud " +
			"credentials. And the permission of all users to get the objects that Drover publishes.",
	},
	{Role: Own, Group: "batch", Resources: "jobs", Text: "Jobs create and remove machines."},
	{Role: Own, Resources: "pods", Text: "Pods of Jobs show why a Job failed."},
	{Role: Own, Resources: "pods/log", Text: "The output of Jobs, which Drover keeps after their pods are gone."},
	{
		Role: Own, Resources: "events",
		Text: "Events about clusters and machines. Events about cluster-scoped objects are in namespace default.",
	},
	{
		Role: Own, Group: "apiextensions.k8s.io", Resources: "customresourcedefinitions", Verbs: "update",
		When: WhenDefinitions,
		Text: "Definitions of the kinds of Drover and Cluster API, if the chart drover-crd did not install them.",
	},
	{Role: Own, Group: "apiextensions.k8s.io", Resources: "customresourcedefinitions",
		Text: "Definitions of node drivers' kinds."},
	{
		Role: Own, Group: "admissionregistration.k8s.io",
		Resources: "mutatingwebhookconfigurations validatingwebhookconfigurations",
		Names:     "drover", When: WhenAdmission,
		Text: "The authority of the admission webhooks, which Drover creates.",
	},
	{
		Role: Own, Group: "authorization.k8s.io", Resources: "subjectaccessreviews",
		Text: "Checks of users: a user who names a Secret of another namespace must be allowed to get it. A user of " +
			"a cluster must be allowed to get the Cluster. " +
			"A user who moves a Cluster with its grants must be allowed to create management Clusters.",
	},
	{Role: Own, Group: "authentication.k8s.io", Resources: "tokenreviews", Text: "Authentication of users who access " +
		"a cluster through Drover."},
	{
		Role: Own, Group: "apps", Resources: "deployments", Names: "rancher",
		Text: "Whether Rancher is installed: then Drover claims no new cluster.",
	},
	{
		Role: Own, Group: "coordination.k8s.io", Resources: "leases", Names: "cattle-controllers",
		Text: "Whether Rancher runs: then Drover claims no new cluster.",
	},
	{Role: Own, Group: "provisioning.cattle.io", Resources: "clusters", Text: "The clusters that users request."},
	{Role: Own, Group: "provisioning.cattle.io", Resources: "clusters/status", Text: "The progress of these clusters."},
	{Role: Own, Group: "provisioning.cattle.io", Resources: "clusters/finalizers", Text: owners},
	{
		Role: Own, Group: "management.cattle.io", Resources: "clusters clusterregistrationtokens",
		Text: "Identities of clusters, and the tokens with which hosts register.",
	},
	{Role: Own, Group: "management.cattle.io", Resources: "clusters/status", Text: "The status of these identities."},
	{Role: Own, Group: "management.cattle.io", Resources: "clusterregistrationtokens/status",
		Text: "Commands for the registration of hosts and agents, and the expiry of their tokens."},
	{
		Role: Own, Group: "management.cattle.io", Resources: "dynamicschemas nodedrivers",
		Text: "Node drivers, and the fields of their kinds.",
	},
	{Role: Own, Group: "management.cattle.io", Resources: "managedcharts",
		Text: "Charts that Fleet installs in clusters."},
	{Role: Own, Group: "management.cattle.io", Resources: "managedcharts/status",
		Text: "The progress of charts that Fleet installs."},
	{Role: Own, Group: "management.cattle.io", Resources: "managedcharts/finalizers", Text: owners},
	{
		Role: Own, Group: "management.cattle.io", Resources: "podsecurityadmissionconfigurationtemplates",
		Text: "Templates for Pod Security admission, which clusters name.",
	},
	{
		Role: Own, Group: "management.cattle.io", Resources: "fleetworkspaces",
		Text: "Workspaces for Fleet. The creator of a workspace gets all these permissions on it but create.",
	},
	{Role: Own, Group: "management.cattle.io", Resources: "fleetworkspaces/status", Text: "The status of workspaces."},
	{Role: Own, Group: "fleet.cattle.io", Resources: "clusters", Text: "Clusters for Fleet, if Fleet is installed."},
	{
		Role: Own, Group: "fleet.cattle.io", Resources: "bundles",
		Text: "Charts for Fleet are Bundles. Namespaces with Bundles get a FleetWorkspace.",
	},
	{
		Role: Own, Group: "rke.cattle.io",
		Resources: "rkeclusters rkecontrolplanes rkebootstraptemplates rkebootstraps custommachines",
		Text:      "Drover's half of clusters and machines.",
	},
	{
		Role: Own, Group: "rke.cattle.io",
		Resources: "rkeclusters/status rkecontrolplanes/status rkebootstraps/status custommachines/status",
		Text:      "The status of Drover's half, with which Cluster API continues.",
	},
	{Role: Own, Group: "rke.cattle.io", Resources: "rkecontrolplanes/finalizers rkebootstraps/finalizers",
		Text: owners},
	{Role: Own, Group: "rke.cattle.io", Resources: "etcdsnapshots", Text: "Snapshots of clusters, and snapshots for " +
		"restores."},
	{
		Role: Own, Group: "cluster.x-k8s.io", Resources: "clusters machinedeployments machinehealthchecks",
		Text: "Cluster API's half of clusters, which Drover creates.",
	},
	{
		Role: Own, Group: "cluster.x-k8s.io", Resources: "machines",
		Text: "Machines that Cluster API creates, and machines that Drover creates for existing hosts. Drover " +
			"annotates machines, and removes some.",
	},
	{
		Role: Own, Group: "cluster.x-k8s.io", Resources: "clusters/status machines/status",
		Text: "The progress of plans. And the loss of a cluster's API, a condition that Cluster API itself would " +
			"never reset.",
	},
	{Role: Own, Group: "cluster.x-k8s.io", Resources: "clusters/finalizers machines/finalizers", Text: owners},
	{
		Role: Own, Group: "cluster.x-k8s.io", Resources: "machinedeployments/scale machinepools machinesets",
		Text: "Permissions of the accounts of clusters' autoscalers. Drover can only give permissions that it has.",
	},
	{Role: Own, Group: "rke-machine.cattle.io", Resources: "*", Text: "Machines of node drivers, whose kinds are " +
		"created while Drover runs."},
	{
		Role: Own, Group: "rke-machine-config.cattle.io", Resources: "*",
		Text: "Machine configurations of node drivers, whose kinds are also created while Drover runs. Drover " +
			"deletes unused ones.",
	},

	{Role: Core, Resources: "events", Text: "Events about clusters and machines."},
	{Role: Core, Resources: "configmaps secrets", Text: "Kubeconfigs of clusters, and the content of " +
		"ClusterResourceSets."},
	{
		Role: Core, Group: "apiextensions.k8s.io", Resources: "customresourcedefinitions",
		Text: "The versions of referenced kinds that support Cluster API's contract.",
	},
	{
		Role: Core, Group: "cluster.x-k8s.io",
		Resources: "clusters machinehealthchecks machinedeployments machinesets machines",
		Text:      "Clusters and machines.",
	},
	{
		Role: Core, Group: "cluster.x-k8s.io",
		Resources: "clusters/status machinehealthchecks/status machinedeployments/status machinesets/status " +
			"machines/status",
		Text: "The status of clusters and machines.",
	},
	{
		Role: Core, Group: "cluster.x-k8s.io",
		Resources: "clusters/finalizers machinehealthchecks/finalizers machinedeployments/finalizers " +
			"machinesets/finalizers machines/finalizers",
		Text: owners,
	},
	{Role: Core, Group: "cluster.x-k8s.io", Resources: "machinedrainrules", Text: "Rules for the drain of removed " +
		"machines."},
	{
		Role: Core, Group: "cluster.x-k8s.io", Resources: "machinepools machinepools/status",
		Text: "Drover creates no machine pools, but serves those of users.",
	},
	{
		Role: Core, Group: "addons.cluster.x-k8s.io",
		Resources: "clusterresourcesets clusterresourcesets/status clusterresourcesetbindings",
		Text:      "Drover creates no ClusterResourceSets, but serves those of users.",
	},
	{
		Role: Core, Group: "rke.cattle.io",
		Resources: "rkebootstraps rkebootstraptemplates custommachines rkeclusters rkecontrolplanes",
		Text:      "Drover's half of clusters and machines, which Cluster API copies, owns and removes.",
	},
	{
		Role: Core, Group: "rke-machine.cattle.io", Resources: "*",
		Text: "Machines of node drivers, and their templates. Their kinds are created while Drover runs.",
	},
}

// owners is the reason for rights on the subresource finalizers.
const owners = "Objects that block the deletion of their owner, if the API server requires this permission " +
	"(OwnerReferencesPermissionEnforcement)."
