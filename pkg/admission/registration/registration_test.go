package registration

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// installed returns the webhook configurations as the chart creates them.
func installed(t *testing.T) (*admissionregistrationv1.ValidatingWebhookConfiguration,
	*admissionregistrationv1.MutatingWebhookConfiguration) {
	t.Helper()
	objects, err := Objects()
	check(t, err)
	validating, mutating := &admissionregistrationv1.ValidatingWebhookConfiguration{},
		&admissionregistrationv1.MutatingWebhookConfiguration{}
	for _, object := range objects {
		switch object.GetKind() {
		case "ValidatingWebhookConfiguration":
			check(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, validating,
				true))
		case "MutatingWebhookConfiguration":
			check(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, mutating, true))
		}
	}
	return validating, mutating
}

// While Drover is down, its webhooks block no request: none fails closed or has a long timeout.
func TestObjects_WebhooksFailOpenAndFast(t *testing.T) {
	validating, mutating := installed(t)
	if len(validating.Webhooks) == 0 || len(mutating.Webhooks) == 0 || validating.Name != Name ||
		mutating.Name != Name {
		t.Fatalf("%+v %+v", validating, mutating)
	}
	for _, w := range validating.Webhooks {
		if *w.FailurePolicy != admissionregistrationv1.Ignore || *w.TimeoutSeconds > 5 ||
			*w.SideEffects != admissionregistrationv1.SideEffectClassNone {
			t.Errorf("%s: %+v", w.Name, w)
		}
	}
	for _, w := range mutating.Webhooks {
		if *w.FailurePolicy != admissionregistrationv1.Ignore || *w.TimeoutSeconds > 5 ||
			*w.SideEffects != admissionregistrationv1.SideEffectClassNone {
			t.Errorf("%s: %+v", w.Name, w)
		}
	}
}

// Every policy is bound, and every kind can be installed.
func TestObjects_AreComplete(t *testing.T) {
	objects, err := Objects()
	check(t, err)
	bound := map[string]bool{}
	for _, object := range objects {
		if resources[object.GetKind()] == "" {
			t.Errorf("kind %s is not installed", object.GetKind())
		}
		if policy, found, _ := unstructured.NestedString(object.Object, "spec", "policyName"); found {
			bound[policy] = true
		}
	}
	for _, object := range objects {
		if object.GetKind() == "ValidatingAdmissionPolicy" && !bound[object.GetName()] {
			t.Errorf("policy %s has no binding", object.GetName())
		}
	}
}

func TestFill_WritesOnlyDifferences(t *testing.T) {
	validating, mutating := installed(t)
	client := fake.NewClientset(validating, mutating)
	for _, authority := range []string{"one", "one", "two"} {
		check(t, Fill(t.Context(), client, []byte(authority), "word"))
		got, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), Name,
			metav1.GetOptions{})
		check(t, err)
		for _, w := range got.Webhooks {
			if string(w.ClientConfig.CABundle) != authority || w.ClientConfig.Service == nil ||
				w.ClientConfig.Service.Name != Service {
				t.Errorf("%s: %+v", w.Name, w.ClientConfig)
			}
		}
		other, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), Name,
			metav1.GetOptions{})
		check(t, err)
		if string(other.Webhooks[0].ClientConfig.CABundle) != authority {
			t.Errorf("%+v", other.Webhooks[0].ClientConfig)
		}
	}
	writes := 0
	for _, action := range client.Actions() {
		if _, patch := action.(clienttesting.PatchAction); patch {
			writes++
		}
	}
	if writes != 4 {
		t.Errorf("%d writes for two authorities of two objects", writes)
	}
}

func TestFill_NamesTheMissingConfiguration(t *testing.T) {
	if err := Fill(t.Context(), fake.NewClientset(), []byte("one"), "word"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestDirect_SetsAnAddress(t *testing.T) {
	objects, err := Objects()
	check(t, err)
	object := objects[len(objects)-1]
	check(t, direct(object, "https://127.0.0.1:9443", []byte("pem"), "word"))
	list, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	check(t, err)
	want := map[string]any{"url": "https://127.0.0.1:9443/admission/mutate",
		"caBundle": base64.StdEncoding.EncodeToString([]byte("pem"))}
	if diff := cmp.Diff(want, list[0].(map[string]any)["clientConfig"]); diff != "" {
		t.Error(diff)
	}
}
