package clustermanifest

import (
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// container is the name of the agent's container. (docs/wire/endpoints.md#manifest-of-the-agent.)
	container = "cluster-register"
	// command is the agent's subcommand of the program.
	command = "cluster-agent"
	// healthAddress is the variable with the address at which the agent answers probes.
	healthAddress = "DROVER_HEALTH_ADDRESS"
	healthPort    = "health"
	// podPort is the port at which the agent answers probes in a pod network.
	podPort = 8080
	// runFolder has the socket at which the agent answers probes on the host network. There, all pods of a node share
	// the ports.
	runFolder    = "/run/drover"
	healthSocket = "unix:" + runFolder + "/health.sock"
	// everFailing is the number of probes that an agent may fail before it connects. The kubelet must not restart it
	// while the server is unreachable.
	everFailing = int32(1 << 30)
	// user is the user ID in Drover's image.
	user = int64(65532)
	// tokenSeconds is the lifetime of the account's token. The kubelet replaces the token in time.
	tokenSeconds = int64(3600)
	// accountPath is where programs in pods read their account.
	accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// CredentialPath is where the agent reads its credential. (docs/wire/endpoints.md#manifest-of-the-agent.)
	CredentialPath = "/cattle-credentials" //nolint:gosec // a folder
)

// deployment is the agent. The old agent ends only when its successor has connected. With an image that cannot be
// pulled or a wrong server address, Drover still reaches the cluster through the old agent.
func (in Input) deployment() *appsv1.Deployment {
	replicas, unavailable, surge := int32(2), intstr.FromInt32(0), intstr.FromInt32(1)
	if in.HostNetwork {
		replicas = 1
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Deployment, Labels: labels()},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels()},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable, MaxSurge: &surge},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels()}, Spec: in.pod()},
		},
	}
}

func (in Input) pod() corev1.PodSpec {
	yes, no, id := true, false, user
	pod := corev1.PodSpec{
		ServiceAccountName: ServiceAccount, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		Affinity: in.affinity(), Tolerations: in.tolerations(),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &id,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{in.container()},
		Volumes:    in.volumes(),
	}
	if class := in.priorityClass(); class != nil {
		pod.PriorityClassName = class.Name
	}
	for i := range in.PullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: pullSecretName(i)})
	}
	if in.HostNetwork {
		pod.HostNetwork = true
		pod.DNSPolicy = corev1.DNSDefault // the cluster's own DNS starts only with its network
	}
	return pod
}

// program is the path of Drover in the image (Dockerfile). An image need not set PATH.
const program = "/usr/local/bin/drover"

func (in Input) container() corev1.Container {
	yes, no := true, false
	resources := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("25m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}}
	if custom := in.customization().OverrideResourceRequirements; custom != nil {
		resources = *custom
	}
	made := corev1.Container{
		Name: container, Image: in.Image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{command},
		Env: in.environment(), Resources: resources,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts: []corev1.VolumeMount{
			{Name: "cattle-credentials", MountPath: CredentialPath, ReadOnly: true},
			{Name: "account", MountPath: accountPath, ReadOnly: true},
		},
	}
	in.addProbes(&made)
	return made
}

// addProbes lets the kubelet ask the agent whether it is connected. On the host network, two agents run on one node
// during a rollout, so they cannot listen on a port that the manifest names. There the kubelet runs a command, which
// costs more, but only until the agent has connected once.
func (in Input) addProbes(agent *corev1.Container) {
	if in.HostNetwork {
		agent.VolumeMounts = append(agent.VolumeMounts, corev1.VolumeMount{Name: "run", MountPath: runFolder})
		agent.StartupProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{program, command, "ready"}}},
			PeriodSeconds: 5, FailureThreshold: everFailing, TimeoutSeconds: 5,
		}
		return
	}
	agent.Ports = []corev1.ContainerPort{{Name: healthPort, ContainerPort: podPort, Protocol: corev1.ProtocolTCP}}
	agent.ReadinessProbe, agent.LivenessProbe = probe("/readyz", 10, 3), probe("/healthz", 20, 6)
}

func probe(path string, period, failures int32) *corev1.Probe {
	get := &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(healthPort), Scheme: corev1.URISchemeHTTP}
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get}, PeriodSeconds: period,
		FailureThreshold: failures, TimeoutSeconds: 5}
}

// environment begins with the variables that the agent depends on. It drops the user's variables with the same names,
// and all that the program or its library reads. Otherwise a user could turn off the verification of servers, or point
// the agent elsewhere.
func (in Input) environment() []corev1.EnvVar {
	address := ":" + strconv.Itoa(podPort)
	if in.HostNetwork {
		address = healthSocket
	}
	variables := []corev1.EnvVar{
		{Name: "CATTLE_SERVER", Value: in.ServerURL},
		{Name: "CATTLE_CA_CHECKSUM", Value: in.CAChecksum},
		{Name: "CATTLE_CLUSTER", Value: "true"},
		{Name: "CATTLE_K8S_MANAGED", Value: "true"},
		{Name: "CATTLE_CREDENTIAL_NAME", Value: in.credentialName()},
		{Name: "CATTLE_SYSTEM_DEFAULT_REGISTRY", Value: in.Registry},
		{Name: "STRICT_VERIFY", Value: "true"},
		{Name: healthAddress, Value: address},
	}
	own := len(variables)
	for _, variable := range in.Environment {
		reserved := strings.HasPrefix(variable.Name, "DROVER_") ||
			strings.HasPrefix(variable.Name, "KUBERNETES_SERVICE_")
		if !reserved && !slices.ContainsFunc(variables[:own], func(v corev1.EnvVar) bool {
			return v.Name == variable.Name
		}) {
			variables = append(variables, variable)
		}
	}
	return variables
}

func (in Input) volumes() []corev1.Volume {
	mode, seconds := int32(0o440), tokenSeconds
	volumes := []corev1.Volume{
		{Name: "cattle-credentials",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: in.credentialName(),
				DefaultMode: &mode}}},
		{Name: "account",
			VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode,
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token",
						ExpirationSeconds: &seconds}},
					{ConfigMap: &corev1.ConfigMapProjection{
						LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
						Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
					}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
						Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1",
							FieldPath: "metadata.namespace"},
					}}}},
				}}}},
	}
	if in.HostNetwork {
		volumes = append(volumes,
			corev1.Volume{Name: "run", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return volumes
}

// affinity prefers the nodes that live as long as the cluster, with one agent on each.
// (docs/wire/endpoints.md#manifest-of-the-agent.)
func (in Input) affinity() *corev1.Affinity {
	if custom := in.customization().OverrideAffinity; custom != nil {
		return custom.DeepCopy()
	}
	prefer := func(weight int32, label string) corev1.PreferredSchedulingTerm {
		return corev1.PreferredSchedulingTerm{Weight: weight,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{"true"}},
			}}}
	}
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"windows"}},
					},
				}}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
				prefer(100, "node-role.kubernetes.io/controlplane"),
				prefer(100, "node-role.kubernetes.io/control-plane"), prefer(1, "cattle.io/cluster-agent"),
			},
		},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
					LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: AppLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{Deployment}},
					}},
					TopologyKey: corev1.LabelHostname,
				},
			}},
		},
	}
}

// tolerations let the agent run on servers, and leave a lost node sooner than other pods. On the host network it also
// runs on nodes that wait for a network or a cloud provider. Their installation may need the connection through the
// agent.
func (in Input) tolerations() []corev1.Toleration {
	soon := int64(30)
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	lost := func(key string) corev1.Toleration {
		toleration := exists(key, corev1.TaintEffectNoExecute)
		toleration.TolerationSeconds = &soon
		return toleration
	}
	tolerations := []corev1.Toleration{
		exists("node-role.kubernetes.io/controlplane", corev1.TaintEffectNoSchedule),
		exists("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule),
		lost(corev1.TaintNodeUnreachable),
	}
	if in.HostNetwork {
		tolerations = append(tolerations,
			exists("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoExecute),
			exists("node-role.kubernetes.io/etcd", corev1.TaintEffectNoExecute),
			exists("node.cloudprovider.kubernetes.io/uninitialized", corev1.TaintEffectNoSchedule),
			exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule),
			exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule),
			exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute), // nodes without network
		)
	} else {
		tolerations = append(tolerations, lost(corev1.TaintNodeNotReady))
	}
	return append(tolerations, in.customization().AppendTolerations...)
}
