package provisioningcluster

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// replacements remembers which roll-outs of pools were counted: a cache that is behind shows the old template once more.
type replacements struct {
	mu      sync.Mutex
	counted map[types.UID]string // name of the template by MachineDeployment
}

// first reports that the roll-out of a template was not counted yet, and remembers it.
func (r *replacements) first(of topology.Replacement) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counted[of.Deployment.UID] == of.Template {
		return false
	}
	if r.counted == nil || len(r.counted) >= maxCounted {
		r.counted = map[types.UID]string{} // to forget one costs at worst that it counts twice
	}
	r.counted[of.Deployment.UID] = of.Template
	return true
}

// maxCounted is how many MachineDeployments are remembered.
const maxCounted = 10000

// machineTemplate is a machine template of ours from the cache, nil when it is not there.
func (h *handler) machineTemplate(namespace string) func(clusterv1.ContractVersionedObjectReference) *unstructured.Unstructured {
	return func(ref clusterv1.ContractVersionedObjectReference) *unstructured.Unstructured {
		found, err := h.DynamicKinds.Get(schema.GroupVersionKind{Group: ref.APIGroup, Version: "v1", Kind: ref.Kind}, namespace, ref.Name)
		if err != nil {
			return nil
		}
		return found
	}
}

// countReplacements counts the machines of pools that were given another template.
func (h *handler) countReplacements(planned []topology.Replacement, done applyset.Result) {
	for _, replaced := range planned {
		written := "machinedeployments " + replaced.Deployment.Namespace + "/" + replaced.Deployment.Name
		if slices.Contains(done.Updated, written) && h.replaced.first(replaced) {
			h.Disruptions.Count(replaced.Cause, replaced.Machines)
		}
	}
}
