package clustermanifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// Names in the cluster, which users and tools look for. (docs/wire/endpoints.md#manifest-of-the-agent.)
const (
	Namespace      = "cattle-system"
	ServiceAccount = "cattle"
	Deployment     = "cattle-cluster-agent"
	AppLabel       = "app"
	// PullSecretLabel is on Secrets with which the agent's image is pulled.
	PullSecretLabel = "management.cattle.io/cattle-cluster-agent-pull-secret"
	// CredentialPrefix is what names of Secrets with a credential of the agent begin with, and PriorityClass those of priority classes.
	CredentialPrefix = "cattle-credentials-" //nolint:gosec // a name, no credential
	PriorityClass    = "cattle-cluster-agent-priority-class"
	// Budget is the disruption budget of the agent.
	Budget     = "cattle-cluster-agent-pod-disruption-budget"
	pullSecret = "cattle-private-registry"
)

// Names of our own in the cluster.
const (
	// DigestAnnotation on the Deployment tells manifests apart. What Drover did not install has none.
	DigestAnnotation = "drover.io/manifest-digest"
	// AgentRole is what the agent's account may do.
	AgentRole = "drover-cluster-agent"
	// AdminBinding gives AdminGroup all rights.
	AdminBinding = "drover-cluster-admin"
	// AdminGroup is the group that Drover itself is a member of, when it works on a cluster by impersonation.
	AdminGroup = "system:drover:cluster-admin"
)

// CredentialName is the name of the Secret with the agent's credential. Another credential is another Secret, so that the Deployment follows.
// (docs/wire/endpoints.md#manifest-of-the-agent.)
func CredentialName(serverURL, token, namespace string) string {
	sum := sha256.Sum256([]byte(serverURL + "." + token + "." + namespace))
	return CredentialPrefix + hex.EncodeToString(sum[:])[:10]
}

// Render returns the objects in the order in which they can be made. Errors name the field that is wrong, and never hold the token.
func Render(in Input) ([]runtime.Object, error) {
	if err := in.check(); err != nil {
		return nil, fmt.Errorf("render the manifest of the cluster's agent: %w", err)
	}
	no := false
	objects := []runtime.Object{
		in.namespace(),
		&corev1.ServiceAccount{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: in.named(ServiceAccount), AutomountServiceAccountToken: &no,
		},
	}
	objects = append(objects, rights()...)
	objects = append(objects, in.credential())
	for i, secret := range in.PullSecrets {
		objects = append(objects, in.pullSecret(i, secret))
	}
	if class := in.priorityClass(); class != nil {
		objects = append(objects, class)
	}
	if wanted := in.budget(); wanted != nil {
		objects = append(objects, wanted)
	}
	deployment := in.deployment()
	content, err := YAML(append(objects, deployment))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	deployment.Annotations = map[string]string{DigestAnnotation: hex.EncodeToString(sum[:])[:16]}
	return append(objects, deployment), nil
}

// namespace lets the pod use the network of its host, where it has to, whatever the cluster's standard of pod security is.
func (in Input) namespace() *corev1.Namespace {
	namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if in.HostNetwork {
		namespace.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}
	}
	return namespace
}

func (in Input) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: Namespace, Name: name}
}

// rights are those of the agent, who may only say on whose behalf he asks, and those of Drover's own group. No rule can name the kinds of a user's
// extra attributes, which are whatever the authenticator makes them: the wildcard covers them and uids, and there is nothing else to
// impersonate in that group.
func rights() []runtime.Object {
	group := rbacv1.GroupName
	impersonate := []string{"impersonate"}
	return []runtime.Object{
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: AgentRole},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"users", "groups", "serviceaccounts"}, Verbs: impersonate},
				{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"*"}, Verbs: impersonate},
			},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: AgentRole},
			RoleRef:    rbacv1.RoleRef{APIGroup: group, Kind: "ClusterRole", Name: AgentRole},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: Namespace, Name: ServiceAccount}},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: AdminBinding},
			RoleRef:    rbacv1.RoleRef{APIGroup: group, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: group, Kind: "Group", Name: AdminGroup}},
		},
	}
}

func (in Input) credentialName() string { return CredentialName(in.ServerURL, in.Token, in.Namespace) }

func (in Input) credential() *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: in.named(in.credentialName()), Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"url": []byte(in.ServerURL), "token": []byte(in.Token), "namespace": []byte(in.Namespace)},
	}
}

func pullSecretName(i int) string {
	if i == 0 {
		return pullSecret
	}
	return pullSecret + "-" + strconv.Itoa(i+1)
}

func (in Input) pullSecret(i int, secret PullSecret) *corev1.Secret {
	made := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: in.named(pullSecretName(i)), Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: secret.DockerConfigJSON},
	}
	made.Labels = map[string]string{PullSecretLabel: "true"}
	return made
}

// priorityClass has a name that follows from its content, because its content can never be changed: applying another one under the same name
// would fail, and everything with it. nil when the user asks for none.
func (in Input) priorityClass() *schedulingv1.PriorityClass {
	wanted := in.scheduling().PriorityClass
	if wanted == nil {
		return nil
	}
	policy := corev1.PreemptLowerPriority
	if wanted.PreemptionPolicy != nil && *wanted.PreemptionPolicy != "" {
		policy = *wanted.PreemptionPolicy
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", wanted.Value, policy))
	return &schedulingv1.PriorityClass{
		TypeMeta:    metav1.TypeMeta{APIVersion: schedulingv1.SchemeGroupVersion.String(), Kind: "PriorityClass"},
		ObjectMeta:  metav1.ObjectMeta{Name: PriorityClass + "-" + hex.EncodeToString(sum[:])[:8]},
		Value:       int32(wanted.Value),
		Description: "For the agent of this cluster.", PreemptionPolicy: &policy,
	}
}

// budget is nil when the user asks for none.
func (in Input) budget() *policyv1.PodDisruptionBudget {
	wanted := in.scheduling().PodDisruptionBudget
	if wanted == nil || !set(wanted.MinAvailable) && !set(wanted.MaxUnavailable) {
		return nil
	}
	made := &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: in.named(Budget),
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels()}},
	}
	if set(wanted.MinAvailable) {
		made.Spec.MinAvailable = new(intstr.Parse(wanted.MinAvailable))
	} else {
		made.Spec.MaxUnavailable = new(intstr.Parse(wanted.MaxUnavailable))
	}
	return made
}

func labels() map[string]string { return map[string]string{AppLabel: Deployment} }

// YAML writes objects one after the other, their keys sorted, without what only a server fills in.
func YAML(objects []runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	for _, object := range objects {
		document, err := document(object)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(document)
	}
	return out.Bytes(), nil
}

// document is one object of it.
func document(object any) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest of the cluster's agent: %w", err)
	}
	unstructured.RemoveNestedField(content, "status")
	for _, at := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		unstructured.RemoveNestedField(content, append(at, "creationTimestamp")...)
	}
	document, err := yaml.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest of the cluster's agent: %w", err)
	}
	return document, nil
}
