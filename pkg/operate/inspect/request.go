package inspect

import (
	"errors"
	"fmt"
	"strings"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// Request is a request for an operation that was made.
type Request struct {
	// Cluster is its namespace and name.
	Cluster string `json:"cluster"`
	// Operation is the name of its record in status.operations of the RKEControlPlane.
	Operation string `json:"operation"`
	// Field of the Cluster that has the request, and the generation that it has there.
	Field      string `json:"field"`
	Generation int64  `json:"generation"`
	// Snapshot is the name that a restore has.
	Snapshot string `json:"snapshot,omitempty"`
	// Services whose certificates are rotated, none for all.
	Services []string `json:"services,omitempty"`
	// KubernetesVersion is what spec.kubernetesVersion was set to beside the request, empty when it was left alone.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Notes are what else there is to know of it.
	Notes []string `json:"notes,omitempty"`
}

// PreviewEdit says what an edit of a cluster would do that somebody makes without a file.
func (r *Reader) PreviewEdit(edited *provv1.Cluster) (preview.Report, error) {
	report, err := r.Preview(File{Cluster: edited})
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		return report, errors.New(strings.Replace(invalid.Error(), "the Cluster in the file is not valid:", "the Cluster would not be valid:", 1))
	}
	if err == nil && report.New {
		return report, fmt.Errorf("the Cluster %s, which was there before, is not found any more", report.Cluster)
	}
	return report, err
}

// KnowsVersion reports that the release data tell of a Kubernetes version, or of others of its minor.
func (r *Reader) KnowsVersion(version string) bool { return r.opts.Releases.Release(version).Known }
