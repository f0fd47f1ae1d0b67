package rights

// Purposes are the purposes of the chart's roles. The first purpose that matches a request covers it, so those of the
// Role in Drover's own namespace precede those of the ClusterRole.
var Purposes = []Purpose{
	{Role: System, Group: "coordination.k8s.io", Resources: "leases", Names: "drover", Text: "Which replica runs the controllers."},
	{
		Role: System, Group: "coordination.k8s.io", Resources: "leases",
		Text: "Which replica runs the controllers, the first time; and how many replicas there are, each of which has a Lease of its own.",
	},
	{Role: System, Resources: "configmaps", Text: "What Drover publishes in its own namespace."},

	{
		Role: Own, Resources: "namespaces",
		Text: "Those of clusters' identities, and those that Drover takes for granted. kube-system tells clusters apart.",
	},
	{Role: Own, Resources: "secrets", Text: "Plans, tokens, credentials, kubeconfigs, and the state of machines, in the namespaces of clusters: any."},
	{Role: Own, Resources: "configmaps", Text: "Configuration that clusters refer to."},
	{
		Role: Own, Resources: "serviceaccounts",
		Text: "Every machine's agent has an account, which may read and write its own plan only; and so has every Job that makes a machine.",
	},
	{
		Role: Own, Group: "rbac.authorization.k8s.io", Resources: "roles", Names: "rke2-machine-provisioner", Verbs: "bind",
		Text: "The one role that Drover gives without having it: what an operator lets the Jobs of machines do besides. By default there is none.",
	},
	{
		Role: Own, Group: "rbac.authorization.k8s.io", Resources: "roles rolebindings",
		Text: "What the accounts of machines and of Jobs may do: read and write Secrets that the role names. And that everybody may get what Drover publishes.",
	},
	{Role: Own, Group: "batch", Resources: "jobs", Text: "Jobs make and remove machines."},
	{Role: Own, Resources: "pods", Text: "Pods of Jobs say why they failed."},
	{
		Role: Own, Resources: "events",
		Text: "What happens to clusters and machines. Events about what belongs to no namespace are in default.",
	},
	{
		Role: Own, Group: "apiextensions.k8s.io", Resources: "customresourcedefinitions", Verbs: "update", When: WhenDefinitions,
		Text: "Definitions of Drover's kinds and of Cluster API's, where the chart drover-crd did not install them.",
	},
	{Role: Own, Group: "apiextensions.k8s.io", Resources: "customresourcedefinitions", Text: "Definitions of node drivers' kinds."},
	{
		Role: Own, Group: "admissionregistration.k8s.io", Resources: "mutatingwebhookconfigurations validatingwebhookconfigurations",
		Names: "drover", When: WhenAdmission,
		Text: "The authority by which the API server knows the admission webhooks is made by Drover.",
	},
	{
		Role: Own, Group: "authorization.k8s.io", Resources: "subjectaccessreviews",
		Text: "Who has named a Secret of another namespace in a Cluster must be allowed to get it, for as long as it is used; who uses a cluster " +
			"through Drover must be allowed to get the Cluster; who brings one from another management cluster with all that it was granted, to create management Clusters.",
	},
	{Role: Own, Group: "authentication.k8s.io", Resources: "tokenreviews", Text: "Who it is that uses a cluster through Drover."},
	{
		Role: Own, Group: "apps", Resources: "deployments", Names: "rancher",
		Text: "Whether Rancher is installed here, too: Drover claims no new cluster beside it.",
	},
	{
		Role: Own, Group: "coordination.k8s.io", Resources: "leases", Names: "cattle-controllers",
		Text: "Whether Rancher runs here, too: Drover claims no new cluster beside it.",
	},
	{Role: Own, Group: "provisioning.cattle.io", Resources: "clusters", Text: "The clusters that users ask for."},
	{Role: Own, Group: "provisioning.cattle.io", Resources: "clusters/status", Text: "How far these clusters are."},
	{Role: Own, Group: "provisioning.cattle.io", Resources: "clusters/finalizers", Text: owners},
	{
		Role: Own, Group: "management.cattle.io", Resources: "clusters clusterregistrationtokens",
		Text: "Identities of clusters, and the tokens by which hosts register with them.",
	},
	{Role: Own, Group: "management.cattle.io", Resources: "clusters/status", Text: "The status of these identities."},
	{Role: Own, Group: "management.cattle.io", Resources: "clusterregistrationtokens/status", Text: "How hosts and agents register, and until when with which token."},
	{
		Role: Own, Group: "management.cattle.io", Resources: "dynamicschemas nodedrivers",
		Text: "Node drivers, those that come with Drover and others, and the fields of their kinds.",
	},
	{
		Role: Own, Group: "rke.cattle.io", Resources: "rkeclusters rkecontrolplanes rkebootstraptemplates rkebootstraps custommachines",
		Text: "Drover's half of clusters and machines.",
	},
	{
		Role: Own, Group: "rke.cattle.io", Resources: "rkeclusters/status rkecontrolplanes/status rkebootstraps/status custommachines/status",
		Text: "The status of Drover's half, from which Cluster API goes on.",
	},
	{Role: Own, Group: "rke.cattle.io", Resources: "rkecontrolplanes/finalizers rkebootstraps/finalizers", Text: owners},
	{Role: Own, Group: "rke.cattle.io", Resources: "etcdsnapshots", Text: "Snapshots that clusters list, and those that a restore names."},
	{
		Role: Own, Group: "cluster.x-k8s.io", Resources: "clusters machinedeployments machinehealthchecks",
		Text: "Cluster API's half of clusters, which Drover asks for.",
	},
	{
		Role: Own, Group: "cluster.x-k8s.io", Resources: "machines",
		Text: "Machines, which Cluster API makes, and Drover of hosts that exist already: what Drover marks on them, and those that it removes.",
	},
	{
		Role: Own, Group: "cluster.x-k8s.io", Resources: "clusters/status machines/status",
		Text: "How far plans of machines are, and that the API of a cluster is gone, which Cluster API would never take back by itself.",
	},
	{Role: Own, Group: "cluster.x-k8s.io", Resources: "clusters/finalizers machines/finalizers", Text: owners},
	{Role: Own, Group: "rke-machine.cattle.io", Resources: "*", Text: "Machines of node drivers, whose kinds are made while Drover runs."},
	{
		Role: Own, Group: "rke-machine-config.cattle.io", Resources: "*",
		Text: "Configurations of machines of node drivers, whose kinds are made while Drover runs, too.",
	},

	{Role: Core, Resources: "events", Text: "What happens to clusters and machines."},
	{Role: Core, Resources: "configmaps secrets", Text: "Kubeconfigs of clusters, and what ClusterResourceSets bring to them."},
	{
		Role: Core, Group: "apiextensions.k8s.io", Resources: "customresourcedefinitions",
		Text: "Which versions of the kinds that clusters refer to are for Cluster API.",
	},
	{
		Role: Core, Group: "cluster.x-k8s.io", Resources: "clusters machinehealthchecks machinedeployments machinesets machines",
		Text: "Clusters and machines.",
	},
	{
		Role: Core, Group: "cluster.x-k8s.io",
		Resources: "clusters/status machinehealthchecks/status machinedeployments/status machinesets/status machines/status",
		Text:      "The status of clusters and machines.",
	},
	{
		Role: Core, Group: "cluster.x-k8s.io",
		Resources: "clusters/finalizers machinehealthchecks/finalizers machinedeployments/finalizers machinesets/finalizers machines/finalizers",
		Text:      owners,
	},
	{Role: Core, Group: "cluster.x-k8s.io", Resources: "machinedrainrules", Text: "How nodes of removed machines are drained."},
	{
		Role: Core, Group: "cluster.x-k8s.io", Resources: "machinepools machinepools/status",
		Text: "Drover makes no machine pools. Who does finds them served.",
	},
	{
		Role: Core, Group: "addons.cluster.x-k8s.io", Resources: "clusterresourcesets clusterresourcesets/status clusterresourcesetbindings",
		Text: "Drover makes no ClusterResourceSets. Who does finds them served.",
	},
	{
		Role: Core, Group: "rke.cattle.io", Resources: "rkebootstraps rkebootstraptemplates custommachines rkeclusters rkecontrolplanes",
		Text: "Drover's half of clusters and machines, which Cluster API copies, owns and removes.",
	},
	{
		Role: Core, Group: "rke-machine.cattle.io", Resources: "*",
		Text: "Machines of node drivers, and their templates. Their kinds are made while Drover runs.",
	},
}

// owners is the reason for rights on the subresource finalizers.
const owners = "To make objects that keep their owner from going before them, where the API server asks for this right (OwnerReferencesPermissionEnforcement)."
