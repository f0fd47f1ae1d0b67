package clustermanifest

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	// Auth is the name of all objects in a cluster that verify tokens of the authorized endpoint for its API servers.
	Auth = "drover-cluster-auth"
	// TrustKey is the key of the ConfigMap that holds the public keys.
	TrustKey = "trust.json"
	// trustFolder is where the program reads them.
	trustFolder = "/etc/drover/cluster-auth"
)

// AuthObjects are the objects that install the program behind a cluster's authorized endpoint.
type AuthObjects struct {
	Keys   *corev1.ConfigMap
	Server *appsv1.DaemonSet
}

// RenderAuth returns the program that verifies tokens for the API servers of a cluster. It runs on each server that has
// an API server, at the address in the file that the plan gives the API server. loopback is the host in that file, and
// trust is the set of public keys.
//
// The program is in no plan. Whether a cluster has it, and which keys it trusts, changes while the cluster runs. The
// Secret from which plans take the agent's manifest does not change (Install). Before the agent has connected, the
// program is not needed: users can get tokens only for a cluster that Drover reaches.
func RenderAuth(in Input, loopback string, trust []byte) (AuthObjects, error) {
	if err := in.check(); err != nil {
		return AuthObjects{}, fmt.Errorf("render the token authenticator: %w", err)
	}
	labels := map[string]string{AppLabel: Auth}
	named := in.named(Auth)
	named.Labels = labels
	keys := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: *named.DeepCopy(),
		Data: map[string]string{TrustKey: string(trust)},
	}
	one := intstr.FromInt32(1)
	server := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet"},
		ObjectMeta: *named.DeepCopy(),
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			// Two pods cannot listen at one address. The old pod ends first, on one server after the other.
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &one},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: in.authPod(loopback)},
		},
	}
	return AuthObjects{Keys: keys, Server: server},
		errors.Join(mark(keys, &keys.ObjectMeta), mark(server, &server.ObjectMeta))
}

// DesiredAuth returns the token verification of a cluster that Drover makes.
func DesiredAuth(source Source, f Facts, trust []byte) (AuthObjects, error) {
	return RenderAuth(source.Input(f.Management, f.Token, f.PullSecrets),
		distro.LoopbackHost(f.Cluster.Spec.RKEConfig.Networking), trust)
}

// mark writes a digest on an object. It distinguishes the object from that of another release or of other keys.
func mark(object any, meta *metav1.ObjectMeta) error {
	content, err := document(object)
	if err != nil {
		return err
	}
	meta.Annotations = map[string]string{DigestAnnotation: naming.SHA256(content)[:16]}
	return nil
}

func (in Input) authPod(loopback string) corev1.PodSpec {
	yes, no, id := true, false, user
	pod := corev1.PodSpec{
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		HostNetwork: true, DNSPolicy: corev1.DNSDefault,
		PriorityClassName: "system-node-critical",
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: servers()}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{in.authContainer(loopback)},
		Volumes: []corev1.Volume{
			{Name: "trust", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: Auth},
			}}}},
	}
	for i := range in.PullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: pullSecretName(i)})
	}
	return pod
}

// servers selects the nodes with an API server.
func servers() *corev1.NodeSelector {
	return &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.NodeSelectorOpExists},
		}}}}
}

func (in Input) authContainer(loopback string) corev1.Container {
	yes, no := true, false
	probe := func(path string, period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Host: strings.Trim(loopback, "[]"), Port: intstr.FromInt32(distro.AuthnEndpointPort), Path: path,
				Scheme: corev1.URISchemeHTTP,
			}},
			PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 5,
		}
	}
	return corev1.Container{
		Name: "cluster-auth", Image: in.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args: []string{
			"cluster-auth", "--address=" + net.JoinHostPort(strings.Trim(loopback, "[]"),
				strconv.Itoa(distro.AuthnEndpointPort)),
			"--trust-file=" + trustFolder + "/" + TrustKey,
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("48Mi"),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		ReadinessProbe:           probe("/readyz", 10, 3), LivenessProbe: probe("/healthz", 20, 6),
		VolumeMounts: []corev1.VolumeMount{{Name: "trust", MountPath: trustFolder, ReadOnly: true}},
	}
}
