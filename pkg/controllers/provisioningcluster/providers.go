package provisioningcluster

import (
	"context"
	"fmt"

	crdcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/apiextensions.k8s.io/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// indexByProvider finds Clusters by the kinds of other infrastructure providers that they name. indexByKind finds
// CustomResourceDefinitions by their kind.
const (
	indexByProvider = "drover-by-provider-kind"
	indexByKind     = "drover-by-kind"
)

// wakeByProvider wakes Clusters when a kind that they name appears or goes.
func (h *handler) wakeByProvider(ctx context.Context) error {
	if h.CRDs == nil {
		return nil
	}
	h.clusters.AddIndexer(indexByProvider, func(c *provv1.Cluster) ([]string, error) {
		var kinds []string
		for _, kind := range topology.ProviderKinds(c) {
			kinds = append(kinds, kind.String())
		}
		return kinds, nil
	})
	h.CRDs.Cache().AddIndexer(indexByKind, func(crd *apiextv1.CustomResourceDefinition) ([]string, error) {
		return []string{kindOf(crd)}, nil
	})
	byProvider := wakeup.ByIndex[*apiextv1.CustomResourceDefinition](h.clusters, indexByProvider, kindOf)
	return wakeup.On(ctx, h.Clusters, byProvider, h.CRDs)
}

func kindOf(crd *apiextv1.CustomResourceDefinition) string {
	return schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}.String()
}

// servedBy returns a function that finds kinds in the cache of CustomResourceDefinitions.
func servedBy(crds crdcontrollers.CustomResourceDefinitionController) func(schema.GroupKind) (bool, error) {
	if crds == nil {
		return func(schema.GroupKind) (bool, error) { return true, nil }
	}
	known := crds.Cache()
	return func(kind schema.GroupKind) (bool, error) {
		found, err := known.GetByIndex(indexByKind, kind.String())
		return len(found) > 0, err
	}
}

// gatherProviders finds the kinds of other infrastructure providers that do not exist.
func (h *handler) gatherProviders(in *topology.Input) error {
	for _, kind := range topology.ProviderKinds(in.Cluster) {
		served, err := h.Serves(kind)
		if err != nil {
			return fmt.Errorf("find the definition of kind %s: %w", kind, err)
		}
		if !served {
			in.Unserved = append(in.Unserved, kind)
		}
	}
	return nil
}
