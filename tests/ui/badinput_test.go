package ui

import (
	"context"
	"strconv"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestUIBadInput makes mistakes and lets things fail while a user edits. The YAML is broken, a field does not exist,
// the user may not write, or a policy refuses. A write gets no answer, the connection is cut, or the session ends.
// Another user edits the cluster. The page says each at its place, keeps what was typed, and writes each change once.
func TestUIBadInput(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true})
	namespace := plane.Namespace(t)
	st.Cluster(namespace, "demo", stage.K3s, stage.Pool("servers", "ecw", 1), stage.Pool("workers", "w", 0))
	plane.Until(t, clusterTime, func() string { return st.WaitingFor(namespace, "demo") })
	proxy := newTeller(t, st)
	connection := newCable(t, proxy.url)
	env := map[string]string{"URL": connection.url, "TOKEN": administrator(t, namespace), "NAMESPACE": namespace,
		"VIEWER": viewer(t, namespace, "viewer")}
	browseFor(t, previewTime, "badinput", env, steps{
		"lose the answer": proxy.lose,
		"writes":          proxy.count,
		"cut":             func() string { connection.cut(); return "" },
		"join":            func() string { connection.join(); return "" },
		"forbid":          func() string { forbid(t, namespace); return "" },
		"foreign edit": func() string {
			st.Edit(namespace, "demo", func(c *provv1.Cluster) {
				metav1.SetMetaDataLabel(&c.ObjectMeta, "foreign", "edit")
			})
			return ""
		},
		"generation": func() string {
			cluster := &provv1.Cluster{}
			check(t, st.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo"}, cluster))
			return strconv.FormatInt(cluster.Generation, 10)
		},
	})
}

// forbid makes the API server refuse a label of Clusters of a namespace.
func forbid(t *testing.T, namespace string) {
	t.Helper()
	policies := kube(t).AdmissionregistrationV1()
	name := "forbid-in-" + namespace
	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Update},
						Rule: admissionv1.Rule{APIGroups: []string{provv1.SchemeGroupVersion.Group},
							APIVersions: []string{"*"}, Resources: []string{"clusters"}},
					},
				}},
				NamespaceSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			},
			Validations: []admissionv1.Validation{{
				Expression: "!has(object.metadata.labels) || !('forbidden' in object.metadata.labels)",
				Message:    "the label forbidden is not allowed here",
			}},
		},
	}, metav1.CreateOptions{})
	check(t, err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(t.Context(),
		&admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name,
				ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
		}, metav1.CreateOptions{})
	check(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		check(t, policies.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}))
		check(t, policies.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}))
	})
	plane.Until(t, clusterTime, func() string { return allowed(t, namespace) })
}

// allowed says that the API server does not refuse the label yet, or "". It learns of a policy after a while.
func allowed(t *testing.T, namespace string) string {
	t.Helper()
	c, err := client.New(plane.Config(t, "ui-tests"), client.Options{})
	check(t, err)
	cluster := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"}}
	cluster.SetGroupVersionKind(provv1.SchemeGroupVersion.WithKind("Cluster"))
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"forbidden":"yes"}}}`))
	if err := c.Patch(t.Context(), cluster, patch, client.DryRunAll); err == nil {
		return "the policy has no effect yet"
	}
	return ""
}
