package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/admission/registration"
)

func TestNew_AdmissionNeedsAReachableAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		admission Admission
		want      string
	}{
		"an unknown mode":      {Admission{Mode: "on"}, `Admission.Mode: "on" is unknown`},
		"without an authority": {Admission{Mode: AdmissionHost}, "Admission.CACerts: are required"},
		"without an address": {Admission{Mode: AdmissionInstall, CACerts: "pem"},
			`Admission.URL: "" is not an address`},
		"an address with a path": {
			Admission{Mode: AdmissionInstall, CACerts: "pem", URL: "https://127.0.0.1:9443/admission"},
			"is not an address that the API server can reach",
		},
		"installed by another program": {Admission{Mode: AdmissionHost, CACerts: "pem"}, ""},
		"disabled":                     {Admission{}, ""},
	} {
		o := Options{
			RESTConfig: &rest.Config{Host: "https://127.0.0.1:1"}, InstanceID: "test",
			Settings: Settings{ServerURL: "https://drover.example.com"}, Admission: tc.admission,
		}
		if _, err := o.complete(); (err == nil) != (tc.want == "") || err != nil &&
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

// AdmissionHandler answers every path that a host routes, also before Start. The handler for machines does not.
func TestAdmissionHandler_AnswersItsPaths(t *testing.T) {
	s, err := New(options(t, newAPI(t)))
	check(t, err)
	for _, path := range AdmissionPaths() {
		if strings.HasSuffix(path, "/") {
			path += "word" // any suffix is answered
		}
		w := httptest.NewRecorder()
		s.AdmissionHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", path, w.Code)
		}
		if status(s, path) == http.StatusOK || status(s, path) == http.StatusMethodNotAllowed {
			t.Errorf("the endpoint for machines answers %d for %s", status(s, path), path)
		}
	}
}

// guarded returns a server in a cluster that also has webhook configurations of other programs.
func guarded(t *testing.T, mode AdmissionMode) (*Server, *fake.Clientset) {
	t.Helper()
	hook := func() admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "drover-system",
			Name: registration.Service}}
	}
	api := fake.NewClientset(
		&admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: registration.Name},
			Webhooks:   []admissionv1.ValidatingWebhook{{Name: "a.drover.io", ClientConfig: hook()}},
		},
		&admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: registration.Name},
			Webhooks:   []admissionv1.MutatingWebhook{{Name: "b.drover.io", ClientConfig: hook()}},
		},
	)
	opts := options(t, newAPI(t))
	opts.Admission = Admission{Mode: mode, CACerts: "pem", URL: "https://127.0.0.1:9443"}
	s, err := New(opts)
	check(t, err)
	s.every.Kubernetes = api
	return s, api
}

// If a tool removes the CA bundle from the configurations, the leader restores it within a minute.
func TestRegister_RestoresRemovedAuthorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, api := guarded(t, AdmissionHost)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.register(ctx) }()
		bundle := func() string {
			found, err := api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, registration.Name,
				metav1.GetOptions{})
			check(t, err)
			return string(found.Webhooks[0].ClientConfig.CABundle)
		}
		settle()
		if bundle() != "pem" {
			t.Fatalf("the authorities are %q", bundle())
		}
		before := writes(api)
		time.Sleep(10 * time.Minute)
		if writes(api) != before {
			t.Error("the registration writes without a difference")
		}
		stripped, err := api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, registration.Name,
			metav1.GetOptions{})
		check(t, err)
		stripped.Webhooks[0].ClientConfig.CABundle = nil
		_, err = api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(ctx, stripped,
			metav1.UpdateOptions{})
		check(t, err)
		time.Sleep(registeredAgain + time.Second)
		if bundle() != "pem" {
			t.Errorf("a minute later the authorities are %q", bundle())
		}
		cancel()
		<-ended
	})
}

func writes(api *fake.Clientset) int {
	n := 0
	for _, action := range api.Actions() {
		if action.GetVerb() != "get" {
			n++
		}
	}
	return n
}

// Drover applies its own configurations again only when they point elsewhere.
func TestWebhooksPointHere_DetectsOtherAddresses(t *testing.T) {
	s, api := guarded(t, AdmissionInstall)
	if s.webhooksPointHere(t.Context()) {
		t.Error("configurations with a Service count as directed here")
	}
	here := admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:9443/validate"), CABundle: []byte("pem")}
	registered := api.AdmissionregistrationV1()
	validating, err := registered.ValidatingWebhookConfigurations().Get(t.Context(), registration.Name,
		metav1.GetOptions{})
	check(t, err)
	mutating, err := registered.MutatingWebhookConfigurations().Get(t.Context(), registration.Name, metav1.GetOptions{})
	check(t, err)
	validating.Webhooks[0].ClientConfig, mutating.Webhooks[0].ClientConfig = here, here
	_, err = registered.ValidatingWebhookConfigurations().Update(t.Context(), validating, metav1.UpdateOptions{})
	check(t, err)
	_, err = registered.MutatingWebhookConfigurations().Update(t.Context(), mutating, metav1.UpdateOptions{})
	check(t, err)
	if !s.webhooksPointHere(t.Context()) {
		t.Error("configurations with this address do not count as directed here")
	}
	check(t, registered.MutatingWebhookConfigurations().Delete(t.Context(), registration.Name, metav1.DeleteOptions{}))
	if s.webhooksPointHere(t.Context()) {
		t.Error("a deleted configuration counts as directed here")
	}
}
