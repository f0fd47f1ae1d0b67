package agent

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/drover-io/drover/pkg/admission/registration"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/tests/contract/plane"
)

// accountPolicy is the policy for accounts of machines. It is in force in all tests of this package.
const accountPolicy = "drover-plan-account"

// installed installs the policy once.
var installed sync.Once

// installPolicy installs the policy for accounts of machines, without the other objects, which need Drover's kinds.
func installPolicy(t *testing.T) {
	t.Helper()
	installed.Do(func() {
		client, err := dynamic.NewForConfig(plane.Config(t, "agent-suite"))
		if err != nil {
			t.Fatal(err)
		}
		objects, err := registration.Objects()
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if object.GetName() != accountPolicy {
				continue
			}
			resource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
				Resource: "validatingadmissionpolicies"}
			if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
				resource.Resource = "validatingadmissionpolicybindings"
			}
			if _, err := client.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// as returns a client with the token of the machine's account. contentType may be empty.
func (m *machine) as(contentType string) kubernetes.Interface {
	m.t.Helper()
	config := rest.AnonymousClientConfig(plane.Config(m.t, "agent-suite"))
	config.BearerToken, config.ContentType = m.token, contentType
	client, err := kubernetes.NewForConfig(config)
	m.must(err)
	return client
}

// widen gives the machine's account all rights for Secrets, as in a role that a user has extended.
func (m *machine) widen() {
	m.t.Helper()
	meta := metav1.ObjectMeta{Namespace: m.namespace, Name: "wide"}
	_, err := m.client.RbacV1().Roles(m.namespace).Create(m.t.Context(), &rbacv1.Role{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}}}},
		metav1.CreateOptions{})
	m.must(err)
	_, err = m.client.RbacV1().RoleBindings(m.namespace).Create(m.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: m.namespace, Name: secretName}},
	}, metav1.CreateOptions{})
	m.must(err)
}

// update reads the plan Secret with the machine's token, changes it and writes all of it, as agents do.
func update(ctx context.Context, client kubernetes.Interface, namespace string, edit func(*corev1.Secret)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		secret, err := client.CoreV1().Secrets(namespace).Get(ctx, secretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(secret)
		_, err = client.CoreV1().Secrets(namespace).Update(ctx, secret, metav1.UpdateOptions{})
		return err
	})
}

// TestPlanAccount: with its own token and directly at the API server, a node can write its report, and nothing else.
func TestPlanAccount(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.patch(map[string]any{"data": map[string]any{"foreign": []byte("kept"), "empty": []byte("")},
		"metadata": map[string]any{"labels": map[string]string{"foreign": "kept"},
			"annotations": map[string]string{"foreign": "kept"}, "finalizers": []string{"example.org/keep"}}})
	m.deliver(m.run("real", "echo report"))
	m.start()
	m.awaitApplied()
	m.stop(syscall.SIGTERM)
	m.widen()
	awaitPolicy(t, m)
	reportsPass(t, m)
	changesAreRefused(t, m)
	requestsAreRefused(t, m)
	if err := update(t.Context(), m.client, m.namespace, func(s *corev1.Secret) {
		s.Labels, s.Finalizers, s.Data["foreign"] = nil, nil, []byte("changed")
	}); err != nil {
		t.Errorf("a user with the right may change a plan Secret: %v", err)
	}
}

// awaitPolicy waits until the API server enforces the policy.
func awaitPolicy(t *testing.T, m *machine) {
	t.Helper()
	plane.Until(t, time.Minute, func() string {
		if err := m.as("").CoreV1().Secrets(m.namespace).Delete(t.Context(), secretName,
			metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			return "the policy is not in force"
		}
		return ""
	})
}

// reportsPass writes all keys of a report, as JSON and as protobuf.
func reportsPass(t *testing.T, m *machine) {
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		if err := update(t.Context(), m.as(contentType), m.namespace, func(s *corev1.Secret) {
			for _, key := range []string{nodeplan.KeyAppliedChecksum, nodeplan.KeyAppliedOutput,
				nodeplan.KeyAppliedPeriodicOutput, nodeplan.KeyFailedChecksum, nodeplan.KeyFailedOutput,
				nodeplan.KeyFailureCount, nodeplan.KeySuccessCount, nodeplan.KeyLastApplyTime,
				nodeplan.KeyProbeStatuses, nodeplan.KeyPlanState, nodeplan.KeyPlanRevision} {
				s.Data[key] = []byte(contentType)
			}
			s.Data[nodeplan.KeyAppliedOutput] = make([]byte, 512<<10)
			delete(s.Data, nodeplan.KeyFailureCount)
		}); err != nil {
			t.Errorf("a report as %s: %v", contentType, err)
		}
		if err := update(t.Context(), m.as(contentType), m.namespace, func(s *corev1.Secret) {
			s.Data[nodeplan.KeyAppliedOutput] = nil
		}); err != nil {
			t.Errorf("a smaller report as %s: %v", contentType, err)
		}
	}
}

// changesAreRefused changes each other part of the Secret.
func changesAreRefused(t *testing.T, m *machine) {
	for name, tc := range map[string]struct {
		edit func(*corev1.Secret)
		want string
	}{
		"the plan":          {func(s *corev1.Secret) { s.Data[nodeplan.KeyPlan] = []byte("{}") }, "changes data: plan"},
		"no plan":           {func(s *corev1.Secret) { delete(s.Data, nodeplan.KeyPlan) }, "changes data: plan"},
		"a key of others":   {func(s *corev1.Secret) { s.Data["foreign"] = nil }, "changes data: foreign"},
		"another key":       {func(s *corev1.Secret) { s.Data["other"] = []byte("x") }, "changes data: other"},
		"a key as text":     {func(s *corev1.Secret) { s.StringData = map[string]string{"o": "x"} }, "changes data: o"},
		"labels":            {func(s *corev1.Secret) { s.Labels = nil }, "changes metadata: labels"},
		"an annotation":     {func(s *corev1.Secret) { s.Annotations["foreign"] = "x" }, "metadata: annotations"},
		"finalizers":        {func(s *corev1.Secret) { s.Finalizers = nil }, "changes metadata: finalizers"},
		"another finalizer": {func(s *corev1.Secret) { s.Finalizers = append(s.Finalizers, "a/b") }, "finalizers"},
		"an owner": {func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
		}, "changes metadata: ownerReferences"},
		"immutability": {func(s *corev1.Secret) { s.Immutable = new(true) }, "changes immutable"},
		"the type":     {func(s *corev1.Secret) { s.Type = "Opaque" }, "field is immutable"},
		"a value that is too large": {func(s *corev1.Secret) {
			s.Data[nodeplan.KeyFailedOutput] = make([]byte, 512<<10+3)
		}, "larger than 512 KiB in data: failed-output"},
	} {
		err := update(t.Context(), m.as(""), m.namespace, tc.edit)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %s", name, err, tc.want)
		}
	}
}

// requestsAreRefused makes the other requests that write.
func requestsAreRefused(t *testing.T, m *machine) {
	secrets := m.as("").CoreV1().Secrets(m.namespace)
	merge := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	apply := []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + secretName +
		`","labels":{"a":"b"}},"type":"` + secretType + `"}`)
	for name, request := range map[string]func() error{
		"a patch": func() error {
			_, err := secrets.Patch(t.Context(), secretName, types.MergePatchType, merge, metav1.PatchOptions{})
			return err
		},
		"an apply": func() error {
			_, err := secrets.Patch(t.Context(), secretName, types.ApplyPatchType, apply,
				metav1.PatchOptions{FieldManager: "node", Force: new(true)})
			return err
		},
		"a deletion": func() error { return secrets.Delete(t.Context(), secretName, metav1.DeleteOptions{}) },
		"a deletion of all": func() error {
			return secrets.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{
				FieldSelector: "metadata.name=" + secretName})
		},
	} {
		if err := request(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the account of a machine") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if secret := m.secret(); secret.DeletionTimestamp != nil || secret.Labels["a"] != "" {
		t.Errorf("the Secret has labels %v, deleted at %v", secret.Labels, secret.DeletionTimestamp)
	}
}
