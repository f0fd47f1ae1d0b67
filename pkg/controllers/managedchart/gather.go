package managedchart

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/chartrepo"
)

// Facts holds the cached facts about a ManagedChart. Absent objects are nil.
type Facts struct {
	chart *mgmtv3.ManagedChart
	// fleet is whether Bundles can be read.
	fleet  clients.Presence
	bundle *unstructured.Unstructured
	// isSecretMissing means that the Secret that the spec names does not exist.
	isSecretMissing bool
	// origin is where the files of the Bundle are from. It is zero if another program has changed the files.
	origin fleet.Origin
	// download is the result of the download; zero if none is needed.
	download result
	now      time.Time
}

func (h *handler) gather(chart *mgmtv3.ManagedChart) (*Facts, error) {
	facts := &Facts{chart: chart, now: h.Now()}
	var err error
	if facts.fleet, err = h.Kinds.Presence(fleet.BundleKind, fleet.BundleDefinition); err != nil {
		return nil, err
	}
	if facts.fleet != clients.Served {
		return facts, nil
	}
	facts.bundle, err = clients.Optional(h.Kinds.Get(fleet.BundleKind, chart.Namespace, fleet.BundleName(chart.Name)))
	if err != nil {
		return nil, fmt.Errorf("read the Bundle of ManagedChart %s/%s: %w", chart.Namespace, chart.Name, err)
	}
	if facts.bundle != nil {
		facts.origin = fleet.OriginOf(facts.bundle)
		if facts.origin.Resources != fleet.ChecksumOf(facts.bundle) {
			facts.origin = fleet.Origin{}
		}
	}
	return facts, h.gatherDownload(facts)
}

// gatherDownload asks for a download if the Bundle needs one.
func (h *handler) gatherDownload(facts *Facts) error {
	chart, key := facts.chart, keyOf(facts.chart)
	if chart.Spec.Repo == "" || !facts.takesFiles() {
		return nil
	}
	known := ""
	if facts.hasFiles() {
		known = facts.origin.Version
		if !chartrepo.IsFloating(chart.Spec.Version) {
			h.downloads.forget(key)
			return nil
		}
	}
	request, err := h.gatherRequest(facts)
	if err != nil || facts.isSecretMissing {
		return err
	}
	facts.download = h.downloads.get(key, request, known)
	if downloaded := facts.download.found; known != "" && downloaded != nil && downloaded.version == known {
		h.downloads.release(key)
	}
	return nil
}

// gatherRequest returns what to download, with the credential in the Secret that the spec names. It records whether
// that Secret is missing.
func (h *handler) gatherRequest(facts *Facts) (chartrepo.Request, error) {
	chart := facts.chart
	request := chartrepo.Request{Repository: chart.Spec.Repo, Chart: chart.Spec.Chart, Version: chart.Spec.Version}
	name := chart.Spec.HelmSecretName
	if name == "" {
		return request, nil
	}
	secret, err := clients.Optional(h.secrets.Get(chart.Namespace, name))
	if err != nil {
		return request, fmt.Errorf("read Secret %s/%s: %w", chart.Namespace, name, err)
	}
	if secret == nil {
		facts.isSecretMissing = true
		return request, nil
	}
	request.Credential = credentialIn(secret)
	return request, nil
}

// credentialIn returns the credential in a Secret, whose keys are those of Fleet's Secrets for charts.
func credentialIn(secret *corev1.Secret) chartrepo.Credential {
	return chartrepo.Credential{
		Username: string(secret.Data[corev1.BasicAuthUsernameKey]),
		Password: string(secret.Data[corev1.BasicAuthPasswordKey]), Authorities: string(secret.Data["cacerts"]),
	}
}

// hasFiles reports whether the Bundle has the files that the spec asks for.
func (f *Facts) hasFiles() bool {
	return f.bundle != nil && f.origin.Source == fleet.SourceOf(&f.chart.Spec)
}

// takesFiles reports whether Drover may put files into the Bundle, which may not exist yet.
func (f *Facts) takesFiles() bool {
	return f.bundle == nil || !f.isForeign() && f.bundle.GetDeletionTimestamp() == nil
}

// isForeign reports whether the Bundle does not belong to the ManagedChart.
func (f *Facts) isForeign() bool {
	if f.bundle == nil {
		return false
	}
	for _, owner := range f.bundle.GetOwnerReferences() {
		if owner.UID == f.chart.UID && owner.Controller != nil && *owner.Controller {
			return false
		}
	}
	return true
}
