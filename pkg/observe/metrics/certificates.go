package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificates whose expiration is reported.
const (
	// CertificateServing is the certificate of the endpoints for machines, on the replica that is scraped.
	CertificateServing = "serving"
	// CertificateKubeconfig is a certificate in a cluster's kubeconfig, with which Drover reaches the cluster.
	CertificateKubeconfig = "kubeconfig"
)

// NewServingCertificate registers the expiration of the serving certificate; nil is the process-wide registerer. It
// calls notAfter on every scrape, because certificates are renewed. For the zero time the metric is 0, which counts as
// expired.
func NewServingCertificate(registerer prometheus.Registerer, notAfter func() time.Time) error {
	_, err := register(registerer, certificateExpiration.Name, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: certificateExpiration.Name, Help: certificateExpiration.Help,
		ConstLabels: prometheus.Labels{certificateExpiration.Labels[0]: CertificateServing},
	}, func() float64 {
		at := notAfter()
		if at.IsZero() {
			return 0
		}
		return float64(at.Unix())
	}))
	return err
}
