package inspect

import (
	"errors"
	"fmt"
	"strings"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// Request is a request for an operation that was written.
type Request struct {
	// Cluster is the cluster's namespace and name, as NAMESPACE/NAME.
	Cluster string `json:"cluster"`
	// Operation is the name of its record in status.operations of the RKEControlPlane.
	Operation string `json:"operation"`
	// Field of the Cluster that holds the request, and the request's generation in that field.
	Field      string `json:"field"`
	Generation int64  `json:"generation"`
	// Snapshot is the name in a request for a restore.
	Snapshot string `json:"snapshot,omitempty"`
	// RestoreRKEConfig is the mode of the request for a restore, empty if only data are restored.
	RestoreRKEConfig string `json:"restoreRKEConfig,omitempty"`
	// Services whose certificates are rotated, empty for all.
	Services []string `json:"services,omitempty"`
	// KubernetesVersion is the new spec.kubernetesVersion of the same write, empty if it did not change.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Notes are additional information for the user.
	Notes []string `json:"notes,omitempty"`
}

// PreviewEdit returns the effect of an edit that does not come from a file.
func (r *Reader) PreviewEdit(edited *provv1.Cluster) (preview.Report, error) {
	report, err := r.Preview(File{Cluster: edited})
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		return report,
			errors.New(strings.Replace(invalid.Error(), "the Cluster in the file is not valid:",
				"the Cluster would not be valid:", 1))
	}
	if err == nil && report.New {
		return report, fmt.Errorf("the Cluster %s no longer exists", report.Cluster)
	}
	return report, err
}

// KnowsVersion reports whether the release data contain a Kubernetes version, or another of the same minor.
func (r *Reader) KnowsVersion(version string) bool { return r.opts.Releases.Release(version).Known }
