package server

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/pkg/admission/registration"
	"github.com/drover-io/drover/pkg/admission/webhook"
)

// register makes the API server ask for the webhooks. Those who lead do it, and it is no reason not to lead that it does not
// work: what the webhooks refuse, the controllers refuse too.
func (s *Server) register(ctx context.Context) {
	const failed = "Admission webhooks could not be registered; until they are, what is wrong with a Cluster is in its conditions only"
	caCerts := []byte(s.opts.Admission.CACerts)
	switch s.opts.Admission.Mode {
	case AdmissionInstall:
		s.insist(ctx, failed, func(ctx context.Context) error {
			client, err := dynamic.NewForConfig(s.every.Config)
			if err != nil {
				return fmt.Errorf("make client of admission objects: %w", err)
			}
			return registration.Install(ctx, client, s.opts.Admission.URL, caCerts, webhook.Word(s.grantsKey))
		})
	case AdmissionHost:
		s.insist(ctx, failed, func(ctx context.Context) error {
			return registration.Fill(ctx, s.every.Kubernetes, caCerts, webhook.Word(s.grantsKey))
		})
	case AdmissionOff:
	}
}
