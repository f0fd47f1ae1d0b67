package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificates whose end is told.
const (
	// CertificateServing is that of the endpoints for machines, of the replica that is asked.
	CertificateServing = "serving"
	// CertificateKubeconfig is one in a cluster's kubeconfig, with which Drover reaches the cluster.
	CertificateKubeconfig = "kubeconfig"
)

// NewServingCertificate registers the end of the serving certificate; nil is the process-wide registerer. The time is asked for whenever
// metrics are read: certificates are renewed. While it is zero, the metric is 0, which counts as expired.
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
