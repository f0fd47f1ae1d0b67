package cluster

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// act stores the kubeconfig. It marks the management cluster as connected once the API server has answered with
// that kubeconfig.
func (h *handler) act(facts *Facts) error {
	if err := h.storeKubeconfig(facts); err != nil {
		return err
	}
	if facts.management == nil {
		return nil // its event requeues the Cluster
	}
	answered := facts.connected()
	if !answered && !facts.link.agent && facts.kubeconfig != nil {
		answered = h.Prober.Answered(nameOf(facts.cluster))
	}
	return h.writeManagement(facts, facts.managementStatus(answered))
}

func (h *handler) storeKubeconfig(facts *Facts) error {
	if facts.ending && facts.kubeconfig == nil {
		return nil
	}
	if facts.link.agent {
		return h.storeProxied(facts)
	}
	wanted := chooseKubeconfig(facts, h.mayMoveOn(facts))
	if wanted == nil {
		return nil
	}
	owner := topology.OwnerReference(facts.cluster, false)
	_, err := h.writeKubeconfig(facts, proxy.Secret(facts.cluster.Namespace, facts.cluster.Name, owner, wanted))
	return err
}

// mayMoveOn reports whether to try another server. It allows that once per moveAfter, because Cluster API needs time to
// check the connection.
func (h *handler) mayMoveOn(facts *Facts) bool {
	key := nameOf(facts.cluster)
	h.moved.mu.Lock()
	defer h.moved.mu.Unlock()
	if !facts.cutOff {
		delete(h.moved.at, key)
		return false
	}
	if left := h.moved.at[key].Add(moveAfter).Sub(facts.now); left > 0 {
		h.Clusters.EnqueueAfter(key.Namespace, key.Name, left)
		return false
	}
	if h.moved.at == nil {
		h.moved.at = map[types.NamespacedName]time.Time{}
	}
	h.moved.at[key] = facts.now
	h.Clusters.EnqueueAfter(key.Namespace, key.Name, moveAfter)
	return true
}

// moveAfter is how long one server is tried before the next.
const moveAfter = time.Minute

// moves records when the kubeconfig of each unreachable cluster last changed to another server.
type moves struct {
	mu sync.Mutex
	at map[types.NamespacedName]time.Time
}

// writeManagement patches the management cluster's status at the version that was read. It patches, because the status
// has fields that this program does not know.
func (h *handler) writeManagement(facts *Facts, status mgmtv3.ClusterStatus) error {
	if equality.Semantic.DeepEqual(facts.management.Status, status) {
		return nil
	}
	patch, err := statusPatch(facts.management, status)
	if err != nil {
		return fmt.Errorf("encode status of management cluster %s: %w", facts.management.Name, err)
	}
	patched, err := h.ManagementClusters.Patch(facts.management.Name, types.MergePatchType, patch, "status")
	if err != nil {
		return fmt.Errorf("write status of management cluster %s: %w", facts.management.Name, err)
	}
	h.mirrored.Wrote(facts.management, patched, facts.now)
	facts.management = patched
	return nil
}

// disconnect ends the connection to a cluster whose machines are gone. It removes the agent of an imported cluster, and
// the tokens of the kubeconfig.
func (h *handler) disconnect(cluster *provv1.Cluster) error {
	if err := h.letGo(cluster); err != nil {
		return err
	}
	h.Prober.Forget(nameOf(cluster))
	h.met.forget(cluster.Status.ClusterName)
	h.surveys.forget(nameOf(cluster))
	if cluster.Status.ClusterName == "" {
		return nil
	}
	return h.removeTokens(cluster.Status.ClusterName, func(*corev1.Secret) bool { return true })
}

func nameOf(cluster *provv1.Cluster) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
}
