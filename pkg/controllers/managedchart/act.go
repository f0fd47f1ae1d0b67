package managedchart

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// rivalAgain is the interval at which Drover looks whether Rancher still runs.
const rivalAgain = 5 * time.Minute

// errUnseen means that a Bundle exists that the cache does not show yet. Its event requeues the ManagedChart.
var errUnseen = errors.New("the cache lacks the Bundle")

// act writes the Bundle and then the status. Nothing is written while Rancher runs, because it writes the same objects.
func (h *handler) act(facts *Facts, decided decision) (*mgmtv3.ManagedChart, error) {
	chart, end := facts.chart, decided.end
	hasBundle := decided.create != nil || decided.patch != nil && !h.isSent(facts, decided.patch)
	if _, retry, changed := h.status(facts, end); !hasBundle && !changed {
		return chart, retry.Err
	}
	if other, err := h.Rival.Running(h.ctx); err != nil || other != "" {
		h.ManagedCharts.EnqueueAfter(chart.Namespace, chart.Name, rivalAgain)
		return chart, err
	}
	if hasBundle {
		err := h.write(facts, decided)
		if errors.Is(err, errUnseen) {
			return chart, nil
		}
		if err != nil {
			end = err
		}
	}
	return h.report(facts, end)
}

// write creates or patches the Bundle.
func (h *handler) write(facts *Facts, decided decision) error {
	chart, name := facts.chart, fleet.BundleName(facts.chart.Name)
	var err error
	if decided.create != nil {
		err = h.Kinds.CreateStrict(h.ctx, decided.create)
	} else {
		err = h.Kinds.PatchStrict(h.ctx, fleet.BundleKind, chart.Namespace, name, decided.patch)
	}
	switch {
	case err == nil:
		h.setSent(facts, decided.patch)
		return nil
	case apierrors.IsAlreadyExists(err):
		return errUnseen
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return outcome.Stall(reasonBundle, "spec: Fleet's CRD "+fleet.BundleDefinition+" does not accept the Bundle: "+
			outcome.Stable(err.Error()))
	case apierrors.IsRequestEntityTooLargeError(err):
		return outcome.Stall(reasonInvalid, "spec: the Bundle with the chart and its values is too large")
	}
	return fmt.Errorf("write Bundle %s/%s: %w", chart.Namespace, name, err)
}

// isSent reports whether the same patch was sent for the same version of the Bundle. Either the cache lacks its result,
// or the API server stores something else than was sent, such as a default. To repeat it would never end.
func (h *handler) isSent(facts *Facts, patch []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent[keyOf(facts.chart)] == sentID(facts, patch)
}

func (h *handler) setSent(facts *Facts, patch []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if patch != nil {
		h.sent[keyOf(facts.chart)] = sentID(facts, patch)
	}
}

func (h *handler) forget(key types.NamespacedName) {
	h.downloads.forget(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sent, key)
}

func sentID(facts *Facts, patch []byte) string {
	return fmt.Sprintf("%s %d %s", facts.bundle.GetUID(), facts.bundle.GetGeneration(), naming.SHA256(patch))
}

func keyOf(chart *mgmtv3.ManagedChart) types.NamespacedName {
	return types.NamespacedName{Namespace: chart.Namespace, Name: chart.Name}
}
