package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/pkg/admission/registration"
	"github.com/drover-io/drover/pkg/admission/webhook"
)

// registeredAgain is the interval of checking the webhook configurations. One path contains a word that changes every
// hour.
const registeredAgain = time.Minute

// register registers the webhooks with the API server, and keeps them registered. A tool that recreates the
// configurations, or removes what its own files lack, leaves webhooks that the API server cannot call. The API server
// then ignores them silently. Only the leader registers webhooks. A failure does not stop it, because the controllers
// refuse the same objects.
func (s *Server) register(ctx context.Context) {
	const failed = "Cannot register the admission webhooks; until then, only the conditions of a Cluster show its " +
		"mistakes"
	caCerts := []byte(s.opts.Admission.CACerts)
	switch s.opts.Admission.Mode {
	case AdmissionInstall:
		s.keep(ctx, failed, s.webhooksPointHere, func(ctx context.Context) error {
			client, err := dynamic.NewForConfig(s.every.Config)
			if err != nil {
				return fmt.Errorf("create the client for admission objects: %w", err)
			}
			return registration.Install(ctx, client, s.opts.Admission.URL, caCerts,
				webhook.Word(s.grantsKey, time.Now()))
		})
	case AdmissionHost:
		s.keep(ctx, failed, never, func(ctx context.Context) error {
			return registration.Fill(ctx, s.every.Kubernetes, caCerts, webhook.Word(s.grantsKey, time.Now()))
		})
	case AdmissionOff:
	}
}

// keep runs do until it succeeds, and again whenever isSo reports false.
func (s *Server) keep(ctx context.Context, failed string, isSo func(context.Context) bool,
	do func(context.Context) error) {
	s.retryUntilDone(ctx, failed, do)
	_ = wait.PollUntilContextCancel(ctx, registeredAgain, false, func(ctx context.Context) (bool, error) {
		if !isSo(ctx) {
			s.retryUntilDone(ctx, failed, do)
		}
		return false, nil
	}) // ends with ctx only
}

// never always runs do again, for functions that compare by themselves and write only differences.
func never(context.Context) bool { return false }

// webhooksPointHere reports whether both configurations point to this server. The check avoids a write on every
// interval.
func (s *Server) webhooksPointHere(ctx context.Context) bool {
	registered := s.every.Kubernetes.AdmissionregistrationV1()
	grants := s.opts.Admission.URL + webhook.GrantsPath
	here := func(config admissionv1.WebhookClientConfig) bool {
		return config.URL != nil && strings.HasPrefix(*config.URL, s.opts.Admission.URL+"/") &&
			string(config.CABundle) == s.opts.Admission.CACerts &&
			(!strings.HasPrefix(*config.URL, grants) || *config.URL == grants+webhook.Word(s.grantsKey, time.Now()))
	}
	validating, err := registered.ValidatingWebhookConfigurations().Get(ctx, registration.Name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	mutating, err := registered.MutatingWebhookConfigurations().Get(ctx, registration.Name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	elsewhere := slices.ContainsFunc(validating.Webhooks, func(w admissionv1.ValidatingWebhook) bool {
		return !here(w.ClientConfig)
	}) ||
		slices.ContainsFunc(mutating.Webhooks, func(w admissionv1.MutatingWebhook) bool {
			return !here(w.ClientConfig)
		})
	return !elsewhere && len(validating.Webhooks) > 0 && len(mutating.Webhooks) > 0
}
