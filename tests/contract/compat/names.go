package compat

// names are the labels, annotations, finalizers, types of Secrets and conditions.
var names = []Names{labels, annotations, finalizers, secrets, conditions}

var labels = Names{
	Title: "Labels",
	Rows: []NameRow{
		{"Cluster", "rke.cattle.io/init-node-machine-id", Works, ""},
		{"Machine, RKEBootstrap, plan Secret", "rke.cattle.io/cluster-name rke.cattle.io/control-plane-role " +
			"rke.cattle.io/etcd-role rke.cattle.io/worker-role rke.cattle.io/rke-machine-pool-name " +
			"rke.cattle.io/machine-id rke.cattle.io/node-name cattle.io/os", Works, ""},
		{"plan Secret", "rke.cattle.io/init-node rke.cattle.io/machine-name plan.cattle.io/cluster-group " +
			"plan.cattle.io/cluster-kind plan.cattle.io/cluster-name plan.cattle.io/machine-group " +
			"plan.cattle.io/machine-kind plan.cattle.io/machine-name", Works, ""},
		{"downstream Node", "rke.cattle.io/machine", Works, ""},
		{"machine request", "rke.cattle.io/machine-namespace", Works, ""},
		{"machine template", "rke.cattle.io/machine-template-hash objectset.rio.cattle.io/prune", Works, ""},
		{"accounts of a machine, and their Secrets", "rke.cattle.io/rkebootstrap-name " +
			"rke.cattle.io/service-account-role rke.cattle.io/plan-secret-name " +
			"cattle.io/service-account.name", Works, ""},
		{"Jobs of machines", "rke.cattle.io/infra-machine-group rke.cattle.io/infra-machine-version " +
			"rke.cattle.io/infra-machine-kind rke.cattle.io/infra-machine-name rke.cattle.io/infra-remove " +
			"rke.cattle.io/capi-machine-name", Works, ""},
		{"DynamicSchema", "io.cattle.node_driver.name", Works, ""},
		{"objects that a backup needs", "resources.cattle.io/backup", Works, ""},
		{"definitions of kinds", "auth.cattle.io/cluster-indexed", Differs,
			"Drover sets the label, and creates no permissions from it: it has no users of its own."},
		{"Cluster of management.cattle.io", "cluster-api.cattle.io/capi-cluster-owner " +
			"cluster-api.cattle.io/capi-cluster-owner-ns", NoEffect, "Drover imports no clusters of Cluster API."},
		{"Cluster of Fleet", "management.cattle.io/cluster-name management.cattle.io/cluster-display-name", Works, ""},
		{"kubeconfig Secret", "provisioning.cattle.io/kubeconfig-type", Works, ""},
		{"definitions of kinds", "app.kubernetes.io/managed-by", Differs, "The value is `drover`."},
		{"definitions of kinds", "clusterctl.cluster.x-k8s.io", Added,
			"`clusterctl move` works ([backup.md](backup.md#move-with-clusterctl))."},
	},
}

var annotations = Names{
	Title: "Annotations",
	Text: "An empty value counts as absent. As in Rancher, the management Cluster has a copy of the annotations of a " +
		"Cluster.",
	Rows: []NameRow{
		{"Cluster", "field.cattle.io/description ui.rancher/provider " +
			"provisioning.cattle.io/management-cluster-display-name provisioning.cattle.io/rke2-prime-enabled " +
			"provisioning.cattle.io/allow-dynamic-schema-drop", Works, ""},
		{"Cluster", "provisioning.cattle.io/management-cluster-name", Differs,
			"Only a user who may create `clusters.management.cattle.io` may set it."},
		{"Cluster", "provisioning.cattle.io/fleet-workspace-name", Differs,
			"The Namespace that it names must admit the Cluster ([fleet.md](fleet.md#workspaces))."},
		{"Cluster", "provisioning.cattle.io/externally-managed", Works, ""},
		{"Cluster", "field.cattle.io/creatorId", Differs,
			"It is the name of the Kubernetes user. The creator gets permissions on a FleetWorkspace and on a cloud " +
				"credential, and not on a Cluster ([security.md](security.md#creators-of-credentials))."},
		{"Cluster", "field.cattle.io/no-creator-rbac", Differs,
			"Drover then sets no `creatorId`. On a FleetWorkspace and a cloud credential, it prevents the " +
				"permissions " +
				"of the creator."},
		{"Cluster", "provisioning.cattle.io/cluster-autoscaler-paused", Differs,
			"The value `false` does not pause."},
		{"Cluster", "provisioning.cattle.io/enable-scheduling-customization", Differs,
			"It changes the agent and not the spec ([import.md](import.md#what-is-in-the-manifest))."},
		{"Cluster", "provisioning.cattle.io/enable-fleet-scheduling-customization", NoEffect,
			"Set `schedulingCustomization` of `spec.fleetAgentDeploymentCustomization`."},
		{"Cluster", "rke.cattle.io/delete-missing-custom-machines-after", Differs,
			"Drover also removes a host whose node exists and does not report " +
				"([hosts.md](hosts.md#hosts-that-are-away))."},
		{"Cluster", "harvesterhci.io/removeAllPersistentVolumeClaims", NoEffect,
			"Delete the volumes in Harvester after the machines are gone."},
		{"Harvester machine", "harvesterhci.io/skipHarvesterMachineProvisionCleanup", NoEffect,
			"Drover does no cleanup of its own for Harvester."},
		{"Cluster of management.cattle.io", "provisioning.cattle.io/administrated", Works, ""},
		{"Cluster of Cluster API", "provisioning.cattle.io/cluster-autoscaler-enabled", Works, ""},
		{"FleetWorkspace", "provisioning.cattle.io/managed", Works, ""},
		{"RKEControlPlane", "rke.cattle.io/cluster-spec", Works, ""},
		{"RKEControlPlane", "rke.cattle.io/applied-system-agent-upgrader-hash", NoEffect,
			"Drover installs no system-upgrade-controller."},
		{"RKEControlPlane", "rke.cattle.io/operation-leader", NoEffect,
			"`status` of the RKEControlPlane has the machine that carries out a rotation of encryption keys."},
		{"Machine, RKEBootstrap, plan Secret", "rke.cattle.io/address rke.cattle.io/internal-address " +
			"rke.cattle.io/labels rke.cattle.io/taints rke.cattle.io/hostname-length-limit", Works, ""},
		{"downstream Node", "rke.cattle.io/external-ip", NoEffect, "An annotation of RKE1."},
		{"plan Secret", "rke.cattle.io/join-url rke.cattle.io/joined-to rke.cattle.io/join-url-autoset-disabled " +
			"rke.cattle.io/drain-options rke.cattle.io/pre-drain rke.cattle.io/drain-done rke.cattle.io/uncordon " +
			"rke.cattle.io/post-drain rke.cattle.io/drain-error rke.cattle.io/plan-last-updated " +
			"rke.cattle.io/plan-probes-passed", Works, ""},
		{"Machine, RKEBootstrap", "pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup " +
			"rke.cattle.io/etcd-force-remove", Works, ""},
		{"downstream Node", "etcd.rke2.cattle.io/remove etcd.k3s.cattle.io/remove " +
			"etcd.rke2.cattle.io/removed-node-name etcd.k3s.cattle.io/removed-node-name", Works, ""},
		{"infrastructure machine", "provisioning.cattle.io/force-machine-remove", Works, ""},
		{"machine template", "rke.cattle.io/cloned-from-group-version rke.cattle.io/cloned-from-kind " +
			"rke.cattle.io/cloned-from-name", Works, ""},
		{"Secret, ConfigMap", "rke.cattle.io/object-authorized-for-clusters " +
			"v2prov-secret-authorized-for-cluster", Differs,
			"For Clusters in other namespaces, write `NAMESPACE/NAME` or `NAMESPACE/*` " +
				"([security.md](security.md#what-a-cluster-may-name))."},
		{"Secret", "v2prov-authorized-secret-deletes-on-cluster-removal", Differs,
			"A Secret that lists several clusters is deleted with the last one " +
				"([drivers.md](drivers.md#delete-a-secret-with-its-cluster))."},
		{"Secret, ConfigMap", "provisioning.cattle.io/sync provisioning.cattle.io/sync-target-namespace " +
			"provisioning.cattle.io/sync-target-name", Differs,
			"Drover never overwrites an object that it did not copy ([copies.md](copies.md))."},
		{"Secret, ConfigMap", "provisioning.cattle.io/sync-bootstrap", Differs,
			"It means the same as `provisioning.cattle.io/sync`: Drover makes all copies when the API answers."},
		{"copy in a cluster", "provisioning.cattle.io/synced-at", Differs, "Rancher never stores it."},
		{"machine config", "provisioning.cattle.io/keep-machine-config", Added,
			"Drover keeps a machine config that no Cluster names ([drivers.md](drivers.md#unused-machine-configs))."},
		{"Secrets and account of a machine", "rke.cattle.io/bootstrap-token rke.cattle.io/last-access-timestamp " +
			"rke.cattle.io/bootstrap-token-invalidated rancher.io/service-account.secret-ref", Works, ""},
		{"ETCDSnapshot", "etcdsnapshot.rke.io/snapshot-name etcdsnapshot.rke.io/snapshot-file-name " +
			"etcdsnapshot.rke.io/storage etcdsnapshot.rke.io/restore-mode-options", Works, ""},
		{"objects of a Cluster", "clusterctl.cluster.x-k8s.io/block-move " +
			"clusterctl.cluster.x-k8s.io/delete-for-move", Added,
			"They control `clusterctl move` ([backup.md](backup.md#move-with-clusterctl))."},
		{"NodeDriver", "publicCredentialFields privateCredentialFields passwordFields optionalCredentialFields " +
			"defaults nodedriver.cattle.io/file-to-field-aliases io.cattle.nodedriver/ui-field-hints", Works, ""},
	},
}

// formerFinalizer is what Drover does with finalizers that only Rancher needs.
const formerFinalizer = "Drover never adds it, and removes it with the object, without Rancher's work for it."

var finalizers = Names{
	Title: "Finalizers",
	Text: "Drover uses those of Rancher under the same names. [Deleting an adopted " +
		"cluster](adopt.md#delete-an-adopted-cluster) says what remains.",
	Rows: []NameRow{
		{"Cluster", "wrangler.cattle.io/rke-cluster-remove wrangler.cattle.io/provisioning-cluster-remove", Works, ""},
		{"Cluster", "wrangler.cattle.io/cloud-config-secret-remover auth.cattle.io/capi-resources-cleanup", Differs,
			formerFinalizer},
		{"Cluster of management.cattle.io", "wrangler.cattle.io/mgmt-cluster-remove " +
			"controller.cattle.io/cluster-agent-controller-cleanup " +
			"controller.cattle.io/cluster-provisioner-controller controller.cattle.io/cluster-scoped-gc " +
			"controller.cattle.io/mgmt-cluster-rbac-remove", Differs, formerFinalizer},
		{"namespace of a management Cluster", "controller.cattle.io/namespace-auth", Differs, formerFinalizer},
		{"RKEControlPlane", "wrangler.cattle.io/rke-control-plane-remove", Works, ""},
		{"RKEBootstrap", "wrangler.cattle.io/rke-bootstrap-etcd-removal", Works, ""},
		{"CustomMachine", "wrangler.cattle.io/unmanaged-machine", Differs,
			"Drover adds it too, and cleans the host before it removes it ([hosts.md](hosts.md#remove-a-host))."},
		{"infrastructure machine", "wrangler.cattle.io/machine-provision-remove", Works, ""},
	},
}

var secrets = Names{
	Title: "Types of Secrets",
	Text:  "[wire/secrets.md](wire/secrets.md) describes their keys.",
	Rows: []NameRow{
		{"Secrets of Drover", "rke.cattle.io/machine-plan rke.cattle.io/bootstrap rke.cattle.io/cluster-state " +
			"rke.cattle.io/machine-request rke.cattle.io/machine-state", Works, ""},
		{"Secrets of users", "rke.cattle.io/auth-config", Works, ""},
		{"Secrets of users", "provisioning.cattle.io/cloud-credential", Differs,
			"Drover reads the keys of a cloud credential from a Secret of any type."},
		{"kubeconfig Secret", "cluster.x-k8s.io/secret", Differs,
			"In Rancher the type is `Opaque`. Name and keys are the same."},
	},
}

var conditions = Names{
	Title: "Conditions",
	Rows: []NameRow{
		{"Cluster", "Created RKECluster Ready Updated Provisioned Reconciling Removed Waiting Pending", Works, ""},
		{"Cluster", "Stalled", Differs, "It is `True` while a user must act, for example because the spec is refused."},
		{"Cluster", "FleetCluster", Added,
			"It is `False` while Fleet does not get the Cluster as its spec asks ([fleet.md](fleet.md))."},
		{"Cluster", "CloudCredentialValid", Added,
			"It says whether the clouds accept the credentials ([drivers.md](drivers.md#check-a-credential))."},
		{"Cluster", "ClusterAutoscalerDeploymentReady", Differs,
			"It exists while Drover deploys an autoscaler ([autoscaling.md](autoscaling.md))."},
		{"RKEControlPlane", "Ready Reconciled Stable Provisioned Bootstrapped ScalingUp ScalingDown RollingOut " +
			"Removed Waiting Pending Updated", Works, ""},
		{"RKEControlPlane", "SystemUpgradeControllerReady", Absent, "Drover installs no system-upgrade-controller."},
		{"Machine", "Reconciled PlanApplied InfrastructureReady", Works, ""},
		{"RKEBootstrap", "EtcdMemberLeft", Added, "It says why the removal of a machine waits for its etcd member."},
		{"infrastructure machine", "CreateJob DeleteJob Ready", Works, ""},
		{"CustomMachine", "HostCleaned", Added, "It says how far the cleaning of a removed host is."},
		{"Cluster of management.cattle.io", "Connected Ready AgentDeployed Updated Provisioned", Works, ""},
		{"Cluster of management.cattle.io", "PreBootstrapped", Absent, "Drover has no phase before the " +
			"bootstrap, and " +
			"makes all copies when the API answers ([copies.md](copies.md#when-copies-arrive-and-change)). Wait for " +
			"`Connected`."},
		{"Cluster of management.cattle.io", "Removed", Absent, "Drover never writes it."},
		{"NodeDriver", "Downloaded Installed Active Inactive", Works, ""},
		{"ManagedChart", "Defined", Works, ""},
		{"NodeDriver", "Verifiable", Added,
			"It is `False` for a driver without https or a strong checksum " +
				"([drivers.md](drivers.md#without-https-or-a-checksum))."},
	},
}

// endpoints are paths of the server that nodes, agents and scripts use.
var endpoints = Names{
	Title: "Endpoints",
	Text:  "[wire/endpoints.md](wire/endpoints.md) describes them.",
	Rows: []NameRow{
		{"nodes", "/system-agent-install.sh /cacerts /v3/settings/cacerts /v3/connect/agent", Works, ""},
		{"agents in clusters", "/v3/import/ /v3/connect /v3/connect/register", Works, ""},
		{"users", "/k8s/clusters/", Works, ""},
		{"nodes", "/v3/connect/config-yaml /v3/connect/cluster-info", Absent,
			"The plan of a node has its configuration. Read the Cluster for its version."},
		{"nodes", "/wins-agent-install.ps1", Absent, "[Linux only](install.md#linux-only)."},
		{"users", "/v1/ /v3/", Absent, "Drover has no API of its own. Use the Kubernetes API of the management " +
			"cluster."},
	},
}

// settings map a setting of Rancher to a flag of the server. Without a flag, the text says why.
var settings = []Setting{
	{"server-url, internal-server-url", "--server-url", ""},
	{"cacerts, internal-cacerts", "--cacerts-file", ""},
	{"agent-tls-mode", "", "Agents always verify certificates, with the authority of the server or of the system."},
	{"system-default-registry", "--system-default-registry", ""},
	{"system-default-registry-pull-secrets", "--system-default-registry-pull-secrets", ""},
	{"agent-image, auth-image", "--cluster-agent-image", ""},
	{"machine-provision-image", "--machine-provision-image", ""},
	{"machine-provision-image-pull-policy", "--machine-provision-image-pull-policy", ""},
	{"delete-machine-on-failure-after", "--delete-machine-on-failure-after", ""},
	{"system-agent-installer-image", "--system-agent-installer-image", ""},
	{"system-agent-version, system-agent-install-script", "--agent-binary", ""},
	{"system-agent-installer-token-short-ttl, …-long-ttl", "--bootstrap-token-ttl", ""},
	{"rke-metadata-config, kdm-branch", "--release-data", ""},
	{"fleet-default-workspace-name", "", "Each Cluster has its namespace or its annotation."},
	{"rke2-default-version, k3s-default-version", "", "Each Cluster names its version."},
	{"cluster-agent-default-…, fleet-agent-default-…", "", "Each Cluster has its own customization."},
	{"system-upgrade-controller-chart-version", "", "Drover does not install that program."},
	{"cluster-autoscaler-image", "--cluster-autoscaler-image", "It has no default ([autoscaling.md](autoscaling.md))."},
	{"wins-agent-…", "", "[Linux only](install.md#linux-only)."},
}

// Setting is one or more settings of Rancher, with the flag that replaces them.
type Setting struct {
	Names, Flag, Text string
}
