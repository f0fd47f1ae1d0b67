package compat

import provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"

// cluster is the kind that users write.
var cluster = Kind{
	Group: "provisioning.cattle.io/v1", Name: "Cluster", Object: provv1.Cluster{},
	Text: "Users write this kind. For a field without effect, `kubectl apply` shows a warning, and condition " +
		"`ConfigurationUnderstood` has the reason [FieldWithoutEffect](reasons/FieldWithoutEffect.md).",
	Works: []string{
		"spec: kubernetesVersion agentEnvVars",
		"spec.rkeConfig: upgradeStrategy chartValues machineGlobalConfig machineSelectorConfig machineSelectorFiles " +
			"additionalManifest registries etcd networking dataDirectories provisionGeneration etcdSnapshotCreate " +
			"etcdSnapshotRestore rotateCertificates rotateEncryptionKeys machinePoolDefaults infrastructureRef",
		"spec.rkeConfig.machinePools[]: name etcdRole controlPlaneRole workerRole taints machineConfigRef " +
			"rollingUpdate drainBeforeDelete drainBeforeDeleteTimeout machineDeploymentAnnotations " +
			"nodeStartupTimeout unhealthyRange dynamicSchemaSpec hostnameLengthLimit autoscalingMinSize " +
			"autoscalingMaxSize",
		"status: ready clusterName fleetWorkspaceName clientSecretName agentDeployed observedGeneration conditions",
	},
	Rows: []Row{
		{"spec.cloudCredentialSecretName spec.rkeConfig.machinePools[].cloudCredentialSecretName " +
			"spec.rkeConfig.etcd.s3.cloudCredentialName", Differs,
			"A Secret of another namespace must list the Cluster, or its author must be allowed to get it " +
				"([security.md](security.md#what-a-cluster-may-name))."},
		{"spec.localClusterAuthEndpoint", Differs,
			"Users get tokens from `drover token`, and Rancher's tokens are not valid. Imported clusters have no " +
				"endpoint ([reach.md](reach.md#without-drover-in-the-path))."},
		{"spec.clusterAgentDeploymentCustomization", Differs,
			"It applies to Drover's own agent, also the Deployment `cattle-cluster-agent` " +
				"([import.md](import.md#what-is-in-the-manifest)). Its `schedulingCustomization` needs no feature."},
		{"spec.fleetAgentDeploymentCustomization", Differs,
			"Drover writes it into the Cluster of Fleet ([fleet.md](fleet.md#what-drover-writes)). Without Fleet it " +
				"has no effect, and condition `FleetCluster` says so."},
		{"spec.webhookDeploymentCustomization", NoEffect,
			"Drover installs no webhook in clusters. It only copies the field to the Cluster of management.cattle.io."},
		{"spec.defaultPodSecurityAdmissionConfigurationTemplateName", Differs,
			"Drover writes the configuration into the plans, and not into the spec. A new cluster waits for a valid " +
				"template ([pod-security.md](pod-security.md)). Imported clusters ignore it."},
		{"spec.defaultPodSecurityPolicyTemplateName", NoEffect, "Kubernetes no longer has PodSecurityPolicies."},
		{"spec.defaultClusterRoleForProjectMembers", NoEffect,
			"Drover has no projects, and only copies the field to the Cluster of management.cattle.io. Create " +
				"RoleBindings in the cluster."},
		{"spec.enableNetworkPolicy", NoEffect,
			"Drover has no projects, and only copies the field to the Cluster of management.cattle.io. Create " +
				"NetworkPolicies in the cluster."},
		{"spec.redeploySystemAgentGeneration", Differs,
			"Another value upgrades the agents to the server's by a step in the plans, one first and then a share. " +
				"Rancher uses a Plan of system-upgrade-controller, which registers the node again."},
		{"spec.clusterAPIConfig", NoEffect, "Drover does not adopt an existing cluster of Cluster API."},
		{"spec.rkeConfig.upgradeStrategy.controlPlaneDrainOptions.ignoreErrors " +
			"spec.rkeConfig.upgradeStrategy.workerDrainOptions.ignoreErrors", Differs,
			"Rancher ignores it. Here a drain that still fails after its `timeout` ends, and the node restarts with " +
				"its pods."},
		{"spec.rkeConfig.etcdSnapshotRestore.restoreRKEConfig", Differs,
			"The same fields go back. Drover acts on a request once, and machines get the configuration only " +
				"after they " +
				"have stopped ([operations.md](operations.md#what-goes-back-with-the-data))."},
		{"spec.rkeConfig.machinePools[].displayName", NoEffect, "Rancher ignores it, too."},
		{"spec.rkeConfig.machinePools[].labels spec.rkeConfig.machinePools[].machineDeploymentLabels", Differs,
			"Drover refuses values for labels that it sets itself: `rke.cattle.io/…`, `cluster.x-k8s.io/…` and " +
				"`cattle.io/os`."},
		{"spec.rkeConfig.machinePools[].machineConfigRef.namespace", NoEffect,
			"The machine config must be in the namespace of the Cluster."},
		{"spec.rkeConfig.machinePools[].quantity", Differs,
			"Without a quantity, or with autoscaling, Drover keeps the current size. A new pool then starts with its " +
				"quantity or one machine."},
		{"spec.rkeConfig.machinePools[].paused", Differs,
			"Drover also delivers no changed plan to the machines of the pool."},
		{"spec.rkeConfig.machinePools[].unhealthyNodeTimeout spec.rkeConfig.machinePools[].maxUnhealthy", Differs,
			"Pools with etcd share one health check. It replaces a machine only while the other members are a " +
				"majority."},
		{"spec.rkeConfig.machinePools[].machineOS", Differs,
			"Drover refuses `windows`: [Linux only](install.md#linux-only)."},
		{"spec.rkeConfig.machinePools[].userdata", Differs,
			"It works with an `infrastructureRef`, as in Rancher. For a node driver, Drover warns: set the user data " +
				"in the machine config."},
	},
}
