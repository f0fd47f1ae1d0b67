package provisioningcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/kube/access"
)

// sharedCredential makes the cluster name a credential in another namespace.
func sharedCredential(annotation string) func(*world) {
	return func(w *world) {
		w.cluster.Spec.CloudCredentialSecretName = "cattle-global-data:cc"
		w.secrets = map[string]*corev1.Secret{"cattle-global-data/cc": {ObjectMeta: metav1.ObjectMeta{
			Namespace: "cattle-global-data", Name: "cc",
			Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: annotation},
		}}}
	}
}

// A Secret of another namespace is used only if it allows that itself; otherwise nothing is made, and what runs stays.
func TestOnChange_SecretsOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		annotation string
		allowed    bool
	}{
		"says nothing":                              {},
		"lists the cluster":                         {annotation: "fleet-default/demo", allowed: true},
		"lists all clusters of the namespace":       {annotation: "other/x, fleet-default/*", allowed: true},
		"lists a cluster of that name, in its own":  {annotation: "demo"},
		"lists a cluster of that name, in a third":  {annotation: "other/demo"},
		"lists another cluster of that namespace":   {annotation: "fleet-default/other"},
		"lists what looks like everything, but not": {annotation: "*,*/*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, sharedCredential(tc.annotation), func(w *world) {
				w.controlPlane = &rkev1.RKEControlPlane{}
				conditions.Set(&w.controlPlane.Status.Conditions, conditions.Condition{Type: "Ready", Status: "True"},
					now)
			})
			if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"RKECluster": "False AccessDenied", "Updated": "False AccessDenied",
				"Ready": "True "}
			if tc.allowed {
				want = map[string]string{"RKECluster": "True ", "Updated": "True ", "Ready": "True "}
			}
			got := map[string]string{}
			for kind := range want {
				c := conditions.Get(w.cluster.Status.Conditions, kind)
				got[kind] = c.Status + " " + c.Reason
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if applied := len(w.applied) > 0; applied != tc.allowed {
				t.Errorf("objects are applied: %t", applied)
			}
		})
	}
}

// unanswered is an API server that does not answer questions about access.
type unanswered string

func (u unanswered) Check(*provv1.Cluster, types.NamespacedName, map[string]string) (access.Verdict, string) {
	return access.Unknown, string(u)
}

func (unanswered) OnChange(func(types.NamespacedName)) {}

// Without an answer nothing is done, and a long wait is reported.
func TestOnChange_SaysThatNobodyKnows(t *testing.T) {
	t.Parallel()
	for because, want := range map[unanswered]string{"": "",
		"the API server does not answer": "Unknown the API server does not answer"} {
		w := newWorld(t, sharedCredential(""), func(w *world) { w.access = because })
		if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		got := ""
		if c := conditions.Get(w.cluster.Status.Conditions, "RKECluster"); c != nil {
			got = c.Status + " " + c.Message
		}
		if got != want || len(w.applied) > 0 {
			t.Errorf("condition %q, want %q; applied %v", got, want, w.applied)
		}
	}
}
