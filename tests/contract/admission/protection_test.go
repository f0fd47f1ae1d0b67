package admission

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	check(t, provv1.AddToScheme(scheme))
	return scheme
}

// protects tries every way to delete a protected cluster, and then the changes that are still allowed.
func protects(t *testing.T, st *stage.Stage, alice *person, namespace string) {
	demo := object(provisioning, "Cluster", namespace, "demo")
	alice.annotate(t, demo, "true")
	awaitParameter(t, alice, namespace)
	refused(t, "the cluster", alice.Delete(t.Context(), demo), "is protected: remove its annotation drover.io/protect",
		"")
	for _, doomed := range everything(t, alice, namespace) {
		refused(t, doomed.GetKind()+" "+doomed.GetName(), alice.Delete(t.Context(), &doomed), "protected Cluster demo",
			"")
	}
	refused(t, "its finalizers",
		alice.Patch(t.Context(), demo,
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))),
		"is protected: remove its annotation drover.io/protect first", "")
	for _, definition := range []string{"machines.cluster.x-k8s.io", "simmachines.rke-machine.cattle.io"} {
		doomed := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", definition)
		// If the webhook takes longer than two seconds, as it may on a busy machine, the API server ignores it.
		plane.Until(t, time.Minute, func() string {
			return unlike(definition, alice.Delete(t.Context(), doomed, client.DryRunAll), "protected Cluster "+
				namespace+"/demo needs them")
		})
	}
	refused(t, "its namespace",
		alice.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}),
		"has a protected cluster", "")

	// Cluster API may scale.
	st.Edit(namespace, "demo", func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(1)) })
	st.AwaitMachines(namespace, 2)
	// A removed pool is deleted.
	st.Edit(namespace, "demo", func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools = c.Spec.RKEConfig.MachinePools[:1]
	})
	st.AwaitMachines(namespace, 1)
	// One machine is exempt by name and is replaced.
	machine := alice.list(t, capi, "Machine", namespace)[0]
	alice.annotate(t, &machine, "false")
	if err := alice.Delete(t.Context(), &machine, client.DryRunAll); err != nil {
		t.Errorf("an exempt machine: %v", err)
	}
	alice.annotate(t, &machine, "")
}

// everything returns the objects of a cluster whose deletion deletes a part of it.
func everything(t *testing.T, alice *person, namespace string) []unstructured.Unstructured {
	t.Helper()
	var out []unstructured.Unstructured
	for _, kind := range []struct{ apiVersion, kind string }{
		{capi, "Cluster"}, {capi, "MachineDeployment"}, {capi, "MachineSet"}, {capi, "Machine"},
		{"rke.cattle.io/v1", "RKEControlPlane"}, {"rke.cattle.io/v1", "RKEBootstrap"},
		{"rke-machine.cattle.io/v1", "SimMachine"}, {"rke-machine-config.cattle.io/v1", "SimConfig"},
	} {
		found := alice.list(t, kind.apiVersion, kind.kind, namespace)
		if len(found) == 0 {
			t.Errorf("%s does not exist", kind.kind)
		}
		out = append(out, found...)
	}
	return out
}

// awaitParameter waits until the API server's policies know the Clusters of a namespace.
func awaitParameter(t *testing.T, alice *person, namespace string) {
	t.Helper()
	plane.Until(t, time.Minute, func() string {
		if err := alice.Delete(t.Context(), object(capi, "Cluster", namespace, "demo"),
			client.DryRunAll); !apierrors.IsForbidden(err) {
			return "the Cluster is not protected yet"
		}
		return ""
	})
}

// holds removes the policies, so that deletions succeed. The hosts and all other objects must stay while the annotation
// exists.
func holds(t *testing.T, st *stage.Stage, alice *person) {
	policies := alice.list(t, "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "")
	for i := range policies {
		check(t, alice.Delete(t.Context(), &policies[i]))
	}
	namespace := plane.Namespace(t)
	st.Apply(namespace, 2, map[string]string{"held": stage.K3s}).AwaitReady()
	identities := st.ManagementNames(namespace)
	held, core := object(provisioning, "Cluster", namespace, "held"), object(capi, "Cluster", namespace, "held")
	alice.annotate(t, held, "true")
	plane.Until(t, time.Minute, func() string {
		if err := alice.Delete(t.Context(), core); err != nil {
			return "the policies are still in force: " + err.Error()
		}
		return ""
	})
	plane.Until(t, time.Minute, func() string {
		machines := alice.list(t, "rke-machine.cattle.io/v1", "SimMachine", namespace)
		for i := range machines {
			if reason := conditionOf(&machines[i], "Ready"); reason == "Protected" {
				return ""
			}
		}
		return "no machine reports that it is protected"
	})
	check(t, alice.Delete(t.Context(), held))
	plane.Until(t, time.Minute, func() string {
		check(t, alice.Get(t.Context(), client.ObjectKeyFromObject(held), held))
		if reason := conditionOf(held, "Removed"); reason != "Protected" {
			return "condition Removed has the reason " + reason
		}
		return ""
	})
	if hosts := st.World.Machines(namespace); len(hosts) != 2 {
		t.Errorf("%d of 2 hosts remain", len(hosts))
	}
	// The policies also allow the end of the deletion.
	for i := range policies {
		policies[i].SetResourceVersion("")
		check(t, alice.Create(t.Context(), &policies[i]))
	}
	guarded := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "guarded",
		Annotations: map[string]string{"drover.io/protect": "true"}}}
	check(t, alice.Create(t.Context(), guarded))
	plane.Until(t, time.Minute, func() string {
		if err := alice.Delete(t.Context(), guarded, client.DryRunAll); !apierrors.IsForbidden(err) {
			return "policies are not in force again"
		}
		return ""
	})
	alice.annotate(t, held, "")
	plane.Until(t, 2*time.Minute, func() string { return st.Gone(held) })
	st.AwaitNothingLeft(namespace, identities)
}

// conditionOf returns the reason of a condition.
func conditionOf(o *unstructured.Unstructured, kind string) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok && condition["type"] == kind {
			reason, _ := condition["reason"].(string)
			return reason
		}
	}
	return ""
}

// goesOn makes requests that do not concern Drover, and requests that a webhook would have changed or rejected.
func goesOn(t *testing.T, alice *person, namespace string) {
	begin := time.Now()
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "others-"}}
	check(t, alice.Create(t.Context(), other))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: other.Name, Name: "theirs"}}
	check(t, alice.Create(t.Context(), config))
	check(t, alice.Delete(t.Context(), config))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other.Name, Name: "theirs"}}
	check(t, alice.Create(t.Context(), secret))
	check(t, alice.Delete(t.Context(), secret))
	check(t, alice.Delete(t.Context(), other))
	plane.Until(t, time.Minute, func() string {
		if err := alice.Get(t.Context(), client.ObjectKeyFromObject(other), other); !apierrors.IsNotFound(err) {
			return "the namespace still exists"
		}
		return ""
	})
	check(t, alice.apply(t,
		cluster(namespace, "unreviewed", set(map[string]any{"systemAgent": "/data", "k8sDistro": "/data/k8s"},
			"rkeConfig", "dataDirectories")), client.DryRunAll))
	t.Logf("the deletion of all took %s", time.Since(begin).Round(time.Millisecond))
	// The policies work without a server.
	plane.Until(t, time.Minute, func() string {
		if err := alice.Delete(t.Context(), object(provisioning, "Cluster", namespace, "demo"),
			client.DryRunAll); !apierrors.IsForbidden(err) {
			return "the cluster could be deleted"
		}
		return ""
	})
}

// keepsTheNamespace deletes the namespace of a protected cluster. Only Drover would have rejected that.
func keepsTheNamespace(t *testing.T, alice *person, namespace string) {
	awaitParameter(t, alice, namespace)
	counts := func() map[string]int {
		out := map[string]int{}
		for _, o := range append(everything(t, alice, namespace), alice.list(t, "v1", "Secret", namespace)...) {
			if o.GetDeletionTimestamp() == nil {
				out[o.GetKind()]++
			}
		}
		return out
	}
	before := counts()
	check(t, alice.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	plane.Until(t, time.Minute, func() string {
		found := &corev1.Namespace{}
		check(t, alice.Get(t.Context(), client.ObjectKey{Name: namespace}, found))
		for _, c := range found.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionContentFailure && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "the namespace controller has not tried yet"
	})
	after := counts()
	for kind, n := range before {
		if n == 0 || after[kind] != n {
			t.Errorf("%d of %d %s remain", after[kind], n, kind)
		}
	}
}
