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

// replacements remembers the counted rollouts of pools, because a late cache shows the old template again.
type replacements struct {
	mu      sync.Mutex
	counted map[types.UID]string // name of the template by MachineDeployment
}

// first reports that the rollout of a template is not counted yet, and remembers it.
func (r *replacements) first(of topology.Replacement) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counted[of.Deployment.UID] == of.Template {
		return false
	}
	if r.counted == nil || len(r.counted) >= maxCounted {
		r.counted = map[types.UID]string{} // forgetting one may count it twice
	}
	r.counted[of.Deployment.UID] = of.Template
	return true
}

// maxCounted limits the remembered MachineDeployments.
const maxCounted = 10000

// machineTemplate returns a function that reads a machine template from the cache, nil if it is absent.
func (h *handler) machineTemplate(namespace string) func(
	clusterv1.ContractVersionedObjectReference) *unstructured.Unstructured {
	return func(ref clusterv1.ContractVersionedObjectReference) *unstructured.Unstructured {
		found, err := h.DynamicKinds.Get(schema.GroupVersionKind{Group: ref.APIGroup, Version: "v1", Kind: ref.Kind},
			namespace, ref.Name)
		if err != nil {
			return nil
		}
		return found
	}
}

// countReplacements counts the machines of pools that got another template.
func (h *handler) countReplacements(planned []topology.Replacement, done applyset.Result) {
	for _, replaced := range planned {
		written := "machinedeployments " + replaced.Deployment.Namespace + "/" + replaced.Deployment.Name
		if slices.Contains(done.Updated, written) && h.replaced.first(replaced) {
			h.Disruptions.Count(replaced.Cause, replaced.Machines)
		}
	}
}
