package compat

import (
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// driverMachine has the parts of a <Driver>Machine that Drover defines. The other fields come from the driver.
type driverMachine struct {
	Spec   driverMachineSpec      `json:"spec"`
	Status rkev1.RKEMachineStatus `json:"status"`
}

type driverMachineSpec struct {
	Common rkev1.RKECommonNodeConfig `json:"common"`
}

// configuration are the fields that an RKEControlPlane has from the Cluster.
const configuration = "upgradeStrategy chartValues machineGlobalConfig machineSelectorConfig machineSelectorFiles " +
	"additionalManifest registries etcd networking dataDirectories provisionGeneration etcdSnapshotCreate " +
	"etcdSnapshotRestore rotateCertificates rotateEncryptionKeys agentEnvVars kubernetesVersion"

// kinds are the kinds that Drover has. Controllers write most of them, and users read them.
var kinds = []Kind{
	cluster,
	{
		Group: "rke.cattle.io/v1", Name: "RKECluster", Object: rkev1.RKECluster{},
		Text:  "Drover creates it as the infrastructure cluster of Cluster API.",
		Works: []string{"spec: controlPlaneEndpoint", "status: initialization"},
		Rows: []Row{{"status.ready status.conditions", NoEffect,
			"Fields of an older Cluster API. Drover keeps them in stored objects and never writes them."}},
	},
	{
		Group: "rke.cattle.io/v1", Name: "RKEControlPlane", Object: rkev1.RKEControlPlane{},
		Text: "Drover creates it from the Cluster. Its status has the progress of operations.",
		Works: []string{
			"spec: " + configuration + " clusterName managementClusterName unmanagedConfig",
			"status: conditions observedGeneration initialization initialized agentConnected appliedSpec " +
				"configGeneration certificateRotationGeneration rotateEncryptionKeys rotateEncryptionKeysPhase " +
				"rotateEncryptionKeysLeader etcdSnapshotCreate etcdSnapshotCreatePhase etcdSnapshotRestore " +
				"etcdSnapshotRestorePhase",
		},
		Rows: []Row{
			{"spec.localClusterAuthEndpoint spec.etcdSnapshotRestore.restoreRKEConfig " +
				"spec.etcd.s3.cloudCredentialName", Differs, "As in the Cluster."},
			{"spec.upgradeStrategy.controlPlaneDrainOptions.ignoreErrors " +
				"spec.upgradeStrategy.workerDrainOptions.ignoreErrors", Differs, "As in the Cluster."},
			{"status.ready", NoEffect,
				"A field of an older Cluster API. Drover keeps it in stored objects and never writes it."},
			{"status.ticket status.operations", Added,
				"The current disruption, and the record of each operation with its failure."},
		},
	},
	{
		Group: "rke.cattle.io/v1", Name: "RKEBootstrap", Object: rkev1.RKEBootstrap{},
		Text:  "Drover creates the plan Secret and the install script of a machine from it.",
		Works: []string{"spec: clusterName userdata", "status: initialization dataSecretName"},
		Rows: []Row{
			{"status.conditions", Added, "Cluster API shows them on the Machine."},
			{"status.ready", NoEffect,
				"A field of an older Cluster API. Drover keeps it in stored objects and never writes it."},
		},
	},
	{
		Group: "rke.cattle.io/v1", Name: "RKEBootstrapTemplate", Object: rkev1.RKEBootstrapTemplate{},
		Text:  "Cluster API clones an RKEBootstrap from it for each machine.",
		Works: []string{"spec: clusterName", "spec.template: spec.clusterName spec.userdata"},
		Rows: []Row{{"spec.template.status", NoEffect,
			"The template is a complete RKEBootstrap, but Cluster API clones only its metadata and spec."}},
	},
	{
		Group: "rke.cattle.io/v1", Name: "CustomMachine", Object: rkev1.CustomMachine{},
		Text:  "Drover creates it for a [registered host](hosts.md).",
		Works: []string{"spec: providerID", "status: conditions ready initialization addresses"},
	},
	{
		Group: "rke.cattle.io/v1", Name: "ETCDSnapshot", Object: rkev1.ETCDSnapshot{},
		Text: "Drover creates one for each snapshot that the cluster lists " +
			"([operations.md](operations.md#list-them)).",
		Works: []string{"spec: clusterName", "snapshotFile: name location metadata createdAt size s3 status message"},
		Rows: []Row{
			{"snapshotFile.nodeName", Differs, "For a snapshot in S3 it is the node that took it, and not `s3`."},
			{"status.missing", NoEffect, "It is always `false`, as in Rancher."},
		},
	},
	{
		Group: "rke-machine.cattle.io/v1", Name: "<Driver>Machine", Object: driverMachine{},
		Text: "Drover creates the definitions of `<Driver>Config`, `<Driver>Machine` and `<Driver>MachineTemplate` " +
			"from the flags of a driver ([drivers.md](drivers.md)). The fields of the driver have the same names and " +
			"types.",
		Works: []string{
			"spec: common",
			"status: conditions jobName ready initialization driverHash driverUrl cloudCredentialSecretName " +
				"failureReason failureMessage addresses",
		},
	},
	{
		Group: "management.cattle.io/v3", Name: "Cluster", Object: mgmtv3.Cluster{},
		Text: "Drover creates it for each Cluster, with an open schema: it keeps fields of other programs. Do not " +
			"create it yourself. To import a cluster, create a `provisioning.cattle.io/v1 Cluster` " +
			"([import.md](import.md)).",
		Works: []string{
			"spec: displayName description importedConfig fleetWorkspaceName localClusterAuthEndpoint agentEnvVars " +
				"clusterSecrets clusterAgentDeploymentCustomization",
			"status: conditions provider readyReconciling info",
		},
		Rows: []Row{
			{"spec.fleetAgentDeploymentCustomization spec.webhookDeploymentCustomization " +
				"spec.defaultPodSecurityAdmissionConfigurationTemplateName spec.defaultClusterRoleForProjectMembers " +
				"spec.enableNetworkPolicy", NoEffect,
				"Drover copies it from the Cluster, for other programs. Set it in the Cluster."},
			{"spec.desiredAgentImage spec.desiredAuthImage", NoEffect,
				"`--cluster-agent-image` sets the image of Drover's programs in clusters."},
			{"spec.desiredAssetsImage", NoEffect, "Drover installs no charts."},
			{"spec.internal", NoEffect, "Drover has no Cluster `local` for the management cluster."},
			{"status.driver", NoEffect, "Drover does not write it. Use `status.provider`."},
			{"status.nodeCount status.version status.info.nodeCount status.info.arch", Differs,
				"Drover writes it for imported clusters " +
					"([import.md](import.md#what-drover-knows-about-the-cluster)). In a provisioned cluster, " +
					"count the Machines."},
		},
	},
	{
		Group: "management.cattle.io/v3", Name: "ClusterRegistrationToken", Object: mgmtv3.ClusterRegistrationToken{},
		Text: "As in newer releases of Rancher, the token is in a Secret, and commands have the placeholder `{token}`. " +
			"The Secret has the complete commands ([import.md](import.md#install-it)).",
		Works: []string{
			"spec: clusterName ttl gracePeriod",
			"status: command manifestUrl tokenSecretName expiresAt gracePeriodExpiresAt",
		},
		Rows: []Row{
			{"status.nodeCommand", Differs,
				"The command is for the token `default-token` of a provisioned cluster " +
					"([hosts.md](hosts.md#the-command)). The token of the agent, `system`, has none."},
			{"status.insecureNodeCommand", Differs,
				"`curl` does not verify the server, and the command verifies the digest of the script instead."},
			{"status.insecureCommand", Differs,
				"Only the download is insecure. The agent always verifies certificates."},
			{"status.windowsNodeCommand status.insecureWindowsNodeCommand", NoEffect,
				"Empty: [Linux only](install.md#linux-only)."},
			{"status.token", NoEffect, "The Secret in `tokenSecretName` has the token."},
			{"spec.roles spec.maxHosts status.hosts", Added,
				"Limits of a token ([hosts.md](hosts.md#tokens-with-limits))."},
		},
	},
	{
		Group: "management.cattle.io/v3", Name: "NodeDriver", Object: mgmtv3.NodeDriver{},
		Text: "Drover creates the built-in ones, and users create others ([drivers.md](drivers.md#another-driver)).",
		Works: []string{
			"spec: active addCloudCredential builtin description displayName",
			"status: appliedURL appliedChecksum appliedDockerMachineVersion conditions",
		},
		Rows: []Row{
			{"spec.url spec.checksum", Differs,
				"Drover refuses a driver without https, or without SHA-256 or SHA-512, unless the administrator " +
					"permits it ([drivers.md](drivers.md#without-https-or-a-checksum))."},
			{"spec.uiUrl spec.whitelistDomains", NoEffect, "They are for Rancher's user interface."},
			{"spec.externalId", NoEffect, "Rancher ignores it, too."},
		},
	},
	{
		Group: "management.cattle.io/v3", Name: "DynamicSchema", Object: mgmtv3.DynamicSchema{},
		Text:  "Drover creates it from the flags of a driver.",
		Works: []string{"spec: schemaName embed embedType resourceFields"},
		Rows: []Row{
			{"spec.pluralName spec.resourceMethods spec.resourceActions spec.collectionMethods spec.collectionFields " +
				"spec.collectionActions spec.collectionFilters spec.includeableLinks " +
				"spec.dynamicSchemaVersion", NoEffect,
				"They describe Rancher's own API."},
			{"status", NoEffect, "Rancher ignores it, too."},
		},
	},
	{
		Group: "management.cattle.io/v3", Name: "PodSecurityAdmissionConfigurationTemplate",
		Object: mgmtv3.PodSecurityAdmissionConfigurationTemplate{},
		Text: "Administrators create it, and a Cluster names it ([pod-security.md](pod-security.md)). Drover creates " +
			"no templates of its own.",
		Works: []string{"configuration: defaults exemptions"},
		Rows:  []Row{{"description", NoEffect, "It is a note for users."}},
	},
	{
		Group: "management.cattle.io/v3", Name: "FleetWorkspace", Object: mgmtv3.FleetWorkspace{},
		Text: "Drover creates its namespace, and one for each namespace with objects of Fleet " +
			"([fleet.md](fleet.md#workspaces)).",
		Rows: []Row{{"status.conditions", Added, "`Ready` says what the namespace, or a deletion, waits for."}},
	},
	{
		Group: "management.cattle.io/v3", Name: "ManagedChart", Object: mgmtv3.ManagedChart{},
		Text: "Drover downloads the chart and makes a Bundle of Fleet ([managed-charts.md](managed-charts.md)).",
		Works: []string{
			"spec: paused chart releaseName timeoutSeconds values force takeOwnership maxHistory defaultNamespace " +
				"namespace serviceAccount diff rolloutStrategy targets",
			"status: conditions summary display newlyCreated unavailable unavailablePartitions maxUnavailable " +
				"maxUnavailablePartitions partitions resourceKey ociReference observedGeneration resourcesSha256Sum",
		},
		Rows: []Row{
			{"spec.repoName", NoEffect,
				"Drover has no ClusterRepo. Set `spec.repo` ([managed-charts.md](managed-charts.md#name-the-repository))."},
			{"spec.repo spec.helmSecretName", Added,
				"The address of the repository, and the Secret with its credential."},
			{"spec.version", Differs,
				"A range follows the newest release, once an hour ([managed-charts.md](managed-charts.md#versions))."},
		},
	},
}

// absentKinds are kinds of Rancher that Drover does not have.
var absentKinds = []Row{
	{"Setting Feature", Absent, "Flags of the server replace them, see [below](#settings)."},
	{"User Token GlobalRole GlobalRoleBinding RoleTemplate ClusterRoleTemplateBinding ProjectRoleTemplateBinding " +
		"AuthConfig", Absent,
		"Users and permissions are those of the management cluster: Roles and RoleBindings of Kubernetes " +
			"([reach.md](reach.md#as-a-user))."},
	{"Project", Absent, "Use namespaces, RoleBindings and ResourceQuotas in the cluster."},
	{"ClusterRepo App", Absent,
		"Name the repository in a [ManagedChart](managed-charts.md#name-the-repository). Without Fleet, use " +
			"`additionalManifest` of the Cluster, or Helm in the cluster."},
	{"KontainerDriver AKSClusterConfig EKSClusterConfig GKEClusterConfig", Absent,
		"Drover makes no clusters of cloud providers. [Import](import.md) them."},
	{"Node NodePool NodeTemplate ClusterTemplate", Absent,
		"They are of RKE1. Use `machinePools` and the kinds of Cluster API."},
	{"CloudCredential", Absent, "Create the Secret ([drivers.md](drivers.md#credentials))."},
	{"plan.cattle.io/Beacon operation.cattle.io/ETCDSnapshotSave operation.cattle.io/ETCDSnapshotRestore " +
		"operation.cattle.io/EncryptionKeyRotation", Absent,
		"Request operations in the spec of the Cluster ([operations.md](operations.md))."},
	{"upgrade.cattle.io/Plan", Absent,
		"Drover installs no system-upgrade-controller. To install the agent of a node again, run the registration " +
			"command, or replace the machine."},
}
