package autoscaling

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	// Namespace is that of the Deployment in the cluster.
	Namespace = metav1.NamespaceSystem
	// ProgramName is the name of the Deployment, its account and its roles.
	ProgramName = "drover-cluster-autoscaler"
	// DigestAnnotation is the digest of what Drover applied. Objects without it belong to others.
	DigestAnnotation = "drover.io/autoscaler-digest"
	// kubeconfigAnnotation is the digest of the kubeconfig with which a pod starts.
	kubeconfigAnnotation = "drover.io/autoscaler-kubeconfig"
	// mountPath is where the autoscaler reads its kubeconfig.
	mountPath = "/etc/kubernetes/mgmt-cluster"
	// minorPlaceholder stands for the minor version of the cluster in the setting of the image.
	minorPlaceholder = "{minor}"
	appLabel         = "app.kubernetes.io/name"
	// userID is that of the autoscaler: the user without rights of most systems.
	userID = int64(65534)
)

// Image returns the image for a cluster. In the setting, {minor} stands for the cluster's minor version, such as 1.36,
// because each release of the autoscaler is made for one.
func Image(setting, kubernetesVersion, registry string) string {
	parts := strings.SplitN(strings.TrimPrefix(kubernetesVersion, "v"), ".", 3)
	if len(parts) == 3 {
		setting = strings.ReplaceAll(setting, minorPlaceholder, parts[0]+"."+parts[1])
	}
	return naming.ImageIn(registry, setting)
}

// Program is the autoscaler in a cluster.
type Program struct {
	// Namespace and Cluster name the CAPI Cluster whose MachineDeployments the autoscaler sizes.
	Namespace, Cluster string
	Image              string
	// Paused lets no autoscaler run.
	Paused bool
	// Kubeconfig is the digest of the kubeconfig. The autoscaler reads a new token by itself, and a new kubeconfig only
	// when it starts.
	Kubeconfig string
}

// Objects returns the objects in the cluster, in the order in which they are applied, and their digest. Each has the
// digest as an annotation.
func (p Program) Objects() (objects []runtime.Object, digest string, err error) {
	made := []metav1.Object{p.account(), clusterRole(), p.clusterRoleBinding(), role(), p.roleBinding(), p.deployment()}
	content, err := json.Marshal(made)
	if err != nil {
		return nil, "", fmt.Errorf("encode the autoscaler's objects: %w", err)
	}
	digest = naming.SHA256(content)[:16]
	for _, object := range made {
		object.SetAnnotations(map[string]string{DigestAnnotation: digest})
		objects = append(objects, object.(runtime.Object))
	}
	return objects, digest, nil
}

func meta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: ProgramName, Labels: map[string]string{appLabel: ProgramName}}
}

func kind(gv interface{ String() string }, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: gv.String(), Kind: kind}
}

func (p Program) account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{TypeMeta: kind(corev1.SchemeGroupVersion, "ServiceAccount"),
		ObjectMeta: meta(Namespace), AutomountServiceAccountToken: new(false)}
}

func rule(group, verbs string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: strings.Fields(verbs)}
}

// clusterRole has the permissions that the autoscaler needs to simulate the scheduler and to drain nodes.
func clusterRole() *rbacv1.ClusterRole {
	const read = "get list watch"
	return &rbacv1.ClusterRole{
		TypeMeta: kind(rbacv1.SchemeGroupVersion, "ClusterRole"), ObjectMeta: meta(""),
		Rules: []rbacv1.PolicyRule{
			rule("", read, "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods",
				"replicationcontrollers", "services"),
			rule("", read+" update patch", "nodes"),
			rule("", "create patch", "events"),
			rule("", "create", "pods/eviction"),
			rule("", "update", "pods/status"),
			rule("apps", read, "daemonsets", "replicasets", "statefulsets"),
			rule("batch", read, "jobs"),
			rule("policy", read, "poddisruptionbudgets"),
			rule("storage.k8s.io", read, "csidrivers", "csinodes", "csistoragecapacities", "storageclasses",
				"volumeattachments"),
			rule("resource.k8s.io", read, "deviceclasses", "resourceclaims", "resourceslices"),
		}}
}

// role has the permissions on the autoscaler's own lease and status.
func role() *rbacv1.Role {
	leases := rule("coordination.k8s.io", "get update patch", "leases")
	leases.ResourceNames = []string{"cluster-autoscaler"}
	status := rule("", "get update patch delete", "configmaps")
	status.ResourceNames = []string{"cluster-autoscaler-status", "cluster-autoscaler-priority-expander"}
	return &rbacv1.Role{TypeMeta: kind(rbacv1.SchemeGroupVersion, "Role"), ObjectMeta: meta(Namespace),
		Rules: []rbacv1.PolicyRule{rule("coordination.k8s.io", "create", "leases"), leases,
			rule("", "create list watch", "configmaps"), status}}
}

func subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: ProgramName}}
}

func (p Program) clusterRoleBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{TypeMeta: kind(rbacv1.SchemeGroupVersion, "ClusterRoleBinding"),
		ObjectMeta: meta(""), Subjects: subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ProgramName}}
}

func (p Program) roleBinding() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{TypeMeta: kind(rbacv1.SchemeGroupVersion, "RoleBinding"),
		ObjectMeta: meta(Namespace), Subjects: subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: ProgramName}}
}

func (p Program) deployment() *appsv1.Deployment {
	replicas := int32(1)
	if p.Paused {
		replicas = 0
	}
	labels := map[string]string{appLabel: ProgramName}
	return &appsv1.Deployment{TypeMeta: kind(appsv1.SchemeGroupVersion, "Deployment"), ObjectMeta: meta(Namespace),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels,
				Annotations: map[string]string{kubeconfigAnnotation: p.Kubeconfig}}, Spec: p.pod()},
		}}
}

// pod runs on servers if it can, because the autoscaler removes idle workers.
func (p Program) pod() corev1.PodSpec {
	id := userID
	const server = "node-role.kubernetes.io/control-plane"
	return corev1.PodSpec{
		ServiceAccountName: ProgramName, AutomountServiceAccountToken: new(true),
		PriorityClassName: "system-cluster-critical",
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: &id, RunAsGroup: &id, FSGroup: &id,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100,
				Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: server, Operator: corev1.NodeSelectorOpExists},
				}}}}}},
		Tolerations: []corev1.Toleration{
			{Key: server, Operator: corev1.TolerationOpExists},
			{Key: "node-role.kubernetes.io/etcd", Operator: corev1.TolerationOpExists},
			{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists},
		},
		Containers: []corev1.Container{p.container()},
		Volumes: []corev1.Volume{{Name: "management", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: CopyName}}}},
	}
}

// Arguments returns the arguments of the autoscaler. cloudConfig is the path of its kubeconfig.
func Arguments(namespace, cluster, cloudConfig string) []string {
	return []string{
		"--cloud-provider=clusterapi", "--cloud-config=" + cloudConfig, "--clusterapi-cloud-config-authoritative",
		fmt.Sprintf("--node-group-auto-discovery=clusterapi:namespace=%s,clusterName=%s", namespace, cluster),
	}
}

func (p Program) container() corev1.Container {
	arguments := append(Arguments(p.Namespace, p.Cluster, mountPath+"/"+KeyKubeconfig), "--namespace="+Namespace,
		"--v=2")
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: "/health-check", Port: intstr.FromInt32(8085), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds: 30, FailureThreshold: 5, TimeoutSeconds: 5}
	return corev1.Container{
		Name: "cluster-autoscaler", Image: p.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"/cluster-autoscaler"}, Args: arguments,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		LivenessProbe: probe, VolumeMounts: []corev1.VolumeMount{{Name: "management", MountPath: mountPath,
			ReadOnly: true}},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}
