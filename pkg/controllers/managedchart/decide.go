package managedchart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/chartrepo"
)

const (
	// reasonUnavailable means that the repository does not answer as it should.
	reasonUnavailable = "RepositoryUnavailable"
	// reasonRefused means that the rules do not permit the address, or a field is wrong.
	reasonRefused = "RepositoryRefused"
	// reasonMissing means that the repository does not have the chart or the version.
	reasonMissing = "ChartMissing"
	// reasonInvalid means that the chart cannot be used.
	reasonInvalid = "ChartInvalid"
	// reasonSecret means that the Secret with the credential does not exist.
	reasonSecret = "CredentialMissing" //nolint:gosec // the name of a reason, no credential
	// reasonTaken means that another Bundle has the name.
	reasonTaken = "BundleTaken"
	// reasonBundle means that Fleet's definition does not accept the Bundle.
	reasonBundle = "BundleRefused"
)

// fillsSoon is the retry interval while the cache of Bundles is filled.
const fillsSoon = 2 * time.Second

// decision is what happens to the Bundle and the condition.
type decision struct {
	// create is the Bundle to create, and patch the JSON patch of the existing one; nil without.
	create *unstructured.Unstructured
	patch  []byte
	// silent means that nothing is written.
	silent bool
	// end is the problem that the condition shows.
	end error
	// after is the time until the next look without an event.
	after time.Duration
}

func (f *Facts) decide() decision {
	switch f.fleet {
	case clients.Absent:
		return decision{end: outcome.Wait("", "Waiting for Fleet: CRD "+fleet.BundleDefinition+" is not established",
			"CustomResourceDefinition")}
	case clients.Filling:
		return decision{silent: true, after: fillsSoon}
	case clients.Served:
	}
	switch {
	case f.isForeign():
		return decision{end: outcome.Stall(reasonTaken, fmt.Sprintf("Bundle %s/%s exists, and does not belong to this "+
			"ManagedChart: delete it, or choose another name for the ManagedChart", f.chart.Namespace,
			f.bundle.GetName()))}
	case f.bundle != nil && f.bundle.GetDeletionTimestamp() != nil:
		return decision{end: outcome.Wait("", "Waiting until Bundle "+f.bundle.GetName()+" is deleted, to create it "+
			"again", "Bundle")}
	case f.chart.Spec.Repo == "":
		return decision{end: outcome.Stall(reasonRefused, f.withoutRepository())}
	case f.isSecretMissing:
		decided := f.update(nil)
		decided.end = outcome.Stall(reasonSecret,
			fmt.Sprintf("spec.helmSecretName: Secret %s/%s does not exist: create "+
				"it, or remove the field", f.chart.Namespace, f.chart.Spec.HelmSecretName))
		return decided
	}
	return f.afterDownload()
}

func (f *Facts) withoutRepository() string {
	text := "spec.repo: must be the address of the chart's repository: https://HOST/PATH or oci://HOST/PATH"
	if f.chart.Spec.RepoName != "" {
		text += "; spec.repoName has no effect"
	}
	return text
}

// afterDownload decides with the result of the download.
func (f *Facts) afterDownload() decision {
	got := f.download
	var decided decision
	switch {
	case got.found != nil && got.err == nil && got.found.resources != nil && !f.hasVersion(got.found.version):
		decided = f.update(got.found)
	case got.err != nil:
		decided = f.update(nil)
		decided.end = explain(got.err)
	default:
		decided = f.update(nil)
		if !f.hasFiles() {
			decided.end = outcome.Wait("", "Waiting until the chart is downloaded from "+f.chart.Spec.Repo, "download")
		}
	}
	decided.after = got.after
	return decided
}

// hasVersion reports whether the Bundle has the files of that version.
func (f *Facts) hasVersion(version string) bool { return f.hasFiles() && f.origin.Version == version }

// explain returns the problem of a failed download.
func explain(err error) error {
	found, ok := errors.AsType[*chartrepo.Error](err)
	if !ok {
		return err
	}
	reason := map[chartrepo.Kind]string{chartrepo.Unavailable: reasonUnavailable, chartrepo.Refused: reasonRefused,
		chartrepo.Missing: reasonMissing, chartrepo.Invalid: reasonInvalid}[found.Kind]
	return outcome.Stall(reason, found.Message)
}

// files are downloaded files of a chart, as a Bundle stores them. Nil resources mean that only the version is known.
type files struct {
	resources []any
	version   string
}

// update brings the Bundle up to date with the spec and the new files, which may be nil. Without the files that the
// spec asks for, the Bundle stays as it is.
func (f *Facts) update(found *files) decision {
	if found == nil && !f.hasFiles() {
		return decision{}
	}
	wanted := fleet.BundleSpec(&f.chart.Spec)
	annotations := map[string]string{}
	if found != nil {
		origin := fleet.Origin{Source: fleet.SourceOf(&f.chart.Spec), Version: found.version,
			Resources: fleet.Checksum(found.resources)}
		annotations[mgmtv3.ChartAnnotation] = origin.String()
	}
	if f.bundle == nil {
		wanted["resources"] = found.resources
		return decision{create: f.newBundle(wanted, annotations)}
	}
	patch, err := patchOf(f.bundle, wanted, found, annotations)
	return decision{patch: patch, end: err}
}

func (f *Facts) newBundle(spec map[string]any, annotations map[string]string) *unstructured.Unstructured {
	bundle := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	bundle.SetGroupVersionKind(fleet.BundleKind)
	bundle.SetNamespace(f.chart.Namespace)
	bundle.SetName(fleet.BundleName(f.chart.Name))
	bundle.SetAnnotations(annotations)
	bundle.SetOwnerReferences([]metav1.OwnerReference{
		*metav1.NewControllerRef(f.chart, mgmtv3.SchemeGroupVersion.WithKind("ManagedChart")),
	})
	return bundle
}

// operation is one operation of a JSON patch. A merge patch could not write a null in the values of a chart.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patchOf returns the JSON patch of a Bundle, nil if nothing changes.
func patchOf(bundle *unstructured.Unstructured, wanted map[string]any, found *files,
	annotations map[string]string) ([]byte, error) {
	stored := fleet.SpecOf(bundle)
	var operations []operation
	for _, field := range slices.Sorted(maps.Keys(wanted)) {
		if !same(stored[field], wanted[field]) {
			operations = append(operations, operation{Op: "add", Path: "/spec/" + field, Value: wanted[field]})
		}
	}
	for _, field := range slices.Sorted(maps.Keys(stored)) {
		if _, ok := wanted[field]; !ok {
			operations = append(operations, operation{Op: "remove", Path: "/spec/" + field})
		}
	}
	if found != nil {
		operations = append(operations, operation{Op: "add", Path: "/spec/resources", Value: found.resources})
		if bundle.GetAnnotations() == nil {
			operations = append(operations, operation{Op: "add", Path: "/metadata/annotations", Value: annotations})
		}
		for key, value := range annotations {
			operations = append(operations, operation{Op: "add", Value: value,
				Path: "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")})
		}
	}
	if len(operations) == 0 {
		return nil, nil
	}
	// The test stops the patch if another Bundle has the name now.
	operations = append([]operation{{Op: "test", Path: "/metadata/uid", Value: bundle.GetUID()}}, operations...)
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encode the patch of Bundle %s: %w", bundle.GetName(), err)
	}
	return patch, nil
}

// same compares two values as JSON, because a whole number has another type when it is read again.
func same(a, b any) bool {
	before, err := json.Marshal(a)
	if err != nil {
		return false
	}
	after, err := json.Marshal(b)
	return err == nil && bytes.Equal(before, after)
}
