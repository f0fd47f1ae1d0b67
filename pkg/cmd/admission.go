package cmd

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/admission/registration"
	"github.com/drover-io/drover/pkg/local/managementplane/pki"
	"github.com/drover-io/drover/pkg/server"
)

// checkAdmission also resolves an empty flag: an embedded plane calls this server's webhooks.
func (o *serverOptions) checkAdmission() error {
	switch server.AdmissionMode(o.admission) {
	case "":
		o.admission = string(server.AdmissionOff)
		if o.embedded {
			o.admission = string(server.AdmissionInstall)
		}
	case server.AdmissionInstall, server.AdmissionHost, server.AdmissionOff:
	default:
		return fmt.Errorf("--admission: %q is unknown; use install, host or off", o.admission)
	}
	host, _, err := net.SplitHostPort(o.admissionAddress)
	if err != nil {
		return fmt.Errorf("--admission-address: %w; use HOST:PORT", err)
	}
	if o.admission == string(server.AdmissionInstall) && (host == "" || net.ParseIP(host).IsUnspecified()) {
		return fmt.Errorf("--admission-address: %q has no host that the API server can reach; use HOST:PORT",
			o.admissionAddress)
	}
	return nil
}

// admissionCertificate returns the TLS configuration of the webhooks, nil if there are none. It also sets the URL and
// the authorities with which the API server calls the webhooks. Drover's own authority always signs this certificate,
// even if the endpoints for machines use another one. The API server calls names that no public authority can sign.
func (o *serverOptions) admissionCertificate(ctx context.Context, config *rest.Config, log logrus.FieldLogger,
	options *server.Options) (*tls.Config, error) {
	options.Admission.Mode = server.AdmissionMode(o.admission)
	if options.Admission.Mode == server.AdmissionOff {
		return nil, nil
	}
	ca, err := o.authority(ctx, config)
	if err != nil {
		return nil, err
	}
	names := []string{"localhost", "127.0.0.1", registration.Service + "." + authorityNamespace + ".svc"}
	if host, _, err := net.SplitHostPort(o.admissionAddress); err == nil && host != "" &&
		!net.ParseIP(host).IsUnspecified() {
		names = append(names, host)
	}
	pair, err := o.signed(ctx, log, func() (pki.Pair, error) { return ca.Serving("drover-admission", names...) })
	if err != nil {
		return nil, err
	}
	options.Admission.URL, options.Admission.CACerts = "https://"+o.admissionAddress, string(ca.CertPEM)
	return servingConfig(ctx, pair, log)
}
