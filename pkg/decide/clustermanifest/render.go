package clustermanifest

import (
	"bytes"
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

	"github.com/drover-io/drover/pkg/decide/naming"
)

// Names in the cluster. Users and tools look for them. (docs/wire/endpoints.md#manifest-of-the-agent.)
const (
	Namespace      = "cattle-system"
	ServiceAccount = "cattle"
	Deployment     = "cattle-cluster-agent"
	AppLabel       = "app"
	// PullSecretLabel is on the Secrets that pull the agent's image.
	PullSecretLabel = "management.cattle.io/cattle-cluster-agent-pull-secret"
	// CredentialPrefix begins the names of Secrets with a credential of the agent, and PriorityClass those of priority
	// classes.
	CredentialPrefix = "cattle-credentials-" //nolint:gosec // a name, no credential
	PriorityClass    = "cattle-cluster-agent-priority-class"
	// Budget is the disruption budget of the agent.
	Budget     = "cattle-cluster-agent-pod-disruption-budget"
	pullSecret = "cattle-private-registry"
)

// Drover's own names in the cluster.
const (
	// DigestAnnotation on the Deployment distinguishes manifests. A Deployment without it was not installed by Drover.
	DigestAnnotation = "drover.io/manifest-digest"
	// AgentRole is the ClusterRole of the agent's account.
	AgentRole = "drover-cluster-agent"
	// AdminBinding gives AdminGroup all rights.
	AdminBinding = "drover-cluster-admin"
	// AdminGroup is the group as which Drover itself impersonates when it works on a cluster.
	AdminGroup = "system:drover:cluster-admin"
)

// CredentialName is the name of the Secret with the agent's credential. A new credential gets a new Secret, so that the
// Deployment rolls out. (docs/wire/endpoints.md#manifest-of-the-agent.)
func CredentialName(serverURL, token, namespace string) string {
	return CredentialPrefix + naming.SHA256(serverURL + "." + token + "." + namespace)[:10]
}

// Render returns the objects in the order of their creation. Errors name the wrong field, and never contain the token.
func Render(in Input) ([]runtime.Object, error) {
	if err := in.check(); err != nil {
		return nil, fmt.Errorf("render the manifest of the cluster's agent: %w", err)
	}
	no := false
	objects := []runtime.Object{
		in.namespace(),
		&corev1.ServiceAccount{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: in.named(ServiceAccount),
			AutomountServiceAccountToken: &no,
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
	deployment.Annotations = map[string]string{DigestAnnotation: naming.SHA256(content)[:16]}
	return append(objects, deployment), nil
}

// namespace permits the pod to use the host network where it has to, whatever the cluster's pod security standard is.
func (in Input) namespace() *corev1.Namespace {
	namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if in.HostNetwork {
		namespace.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}
	}
	return namespace
}

func (in Input) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: Namespace, Name: name}
}

// rights are those of the agent, which may only impersonate, and those of Drover's own group. The authenticator chooses
// the keys of a user's extra attributes, so no rule can list them. The wildcard covers them and uids, and that API
// group contains nothing else to impersonate.
func rights() []runtime.Object {
	group := rbacv1.GroupName
	impersonate := []string{"impersonate"}
	return []runtime.Object{
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: AgentRole},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"users", "groups", "serviceaccounts"},
					Verbs: impersonate},
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
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: in.named(in.credentialName()),
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"url": []byte(in.ServerURL), "token": []byte(in.Token),
			"namespace": []byte(in.Namespace)},
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
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: in.named(pullSecretName(i)),
		Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: secret.DockerConfigJSON},
	}
	made.Labels = map[string]string{PullSecretLabel: "true"}
	return made
}

// priorityClass has a name derived from its content, because the content is immutable. Applying other content under the
// same name would fail, and with it the whole manifest. It is nil when the user asks for none.
func (in Input) priorityClass() *schedulingv1.PriorityClass {
	wanted := in.scheduling().PriorityClass
	if wanted == nil {
		return nil
	}
	policy := corev1.PreemptLowerPriority
	if wanted.PreemptionPolicy != nil && *wanted.PreemptionPolicy != "" {
		policy = *wanted.PreemptionPolicy
	}
	return &schedulingv1.PriorityClass{
		TypeMeta: metav1.TypeMeta{APIVersion: schedulingv1.SchemeGroupVersion.String(), Kind: "PriorityClass"},
		ObjectMeta: metav1.ObjectMeta{Name: PriorityClass + "-" +
			naming.SHA256(fmt.Sprintf("%d %s", wanted.Value, policy))[:8]},
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

// YAML writes the objects as one stream, with sorted keys and without the fields that only a server sets.
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

// document is one YAML document of the stream.
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
