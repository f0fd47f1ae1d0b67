package inspect

import (
	"errors"
	"fmt"
	"strings"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/operation"
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

// PreviewRequest returns the effect of a request for an operation, with a warning about an unknown version.
func (r *Reader) PreviewRequest(s operation.Scene, o operation.Order) (preview.Report, error) {
	edited, err := s.Edited(o)
	if err != nil {
		return preview.Report{}, err
	}
	report, err := r.PreviewEdit(edited)
	if version := o.KubernetesVersion; err == nil && version != "" && !r.KnowsVersion(version) {
		report.Warnings = append(report.Warnings, preview.Warning{
			Field: "spec.kubernetesVersion", Message: "the release data do not know " + version +
				": is there such a release?",
		})
	}
	return report, err
}

// Scene reads the state that a request for an operation depends on.
func (r *Reader) Scene(name string) (operation.Scene, error) {
	cluster, err := r.Cluster(name)
	if err != nil {
		return operation.Scene{}, err
	}
	controlPlane, err := r.controlPlane(name)
	return operation.Scene{Cluster: cluster, ControlPlane: controlPlane}, err
}

// KnowsVersion reports whether the release data contain a Kubernetes version, or another of the same minor.
func (r *Reader) KnowsVersion(version string) bool { return r.opts.Releases.Release(version).Known }
