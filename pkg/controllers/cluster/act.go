package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/admission"
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// connect stores the kubeconfig. It marks the management cluster as connected once the API server has answered with
// that kubeconfig.
func (h *handler) connect(seen *facts) error {
	if err := h.storeKubeconfig(seen); err != nil {
		return err
	}
	if seen.management == nil {
		return nil // its event requeues the Cluster
	}
	answered := seen.connected()
	if !answered && !seen.link.agent && seen.kubeconfig != nil {
		answered = h.Prober.Answered(nameOf(seen.cluster))
	}
	return h.writeManagement(seen, seen.managementStatus(answered))
}

func (h *handler) storeKubeconfig(seen *facts) error {
	if seen.link.agent {
		return h.storeProxied(seen)
	}
	wanted := chooseKubeconfig(seen, h.mayMoveOn(seen))
	if wanted == nil {
		return nil
	}
	_, err := h.writeKubeconfig(seen, proxy.Secret(seen.cluster.Namespace, seen.cluster.Name, topology.OwnerReference(seen.cluster, false), wanted))
	return err
}

// chooseKubeconfig returns the wanted kubeconfig, nil if there is none. It keeps the current one while a server
// provides it, so that a second server or address changes nothing. It takes the next one if that server is gone, or if
// moveOn is set because the address does not answer. The credentials of one server work with all servers.
func chooseKubeconfig(seen *facts, moveOn bool) []byte {
	var current []byte
	if seen.kubeconfig != nil {
		current = seen.kubeconfig.Data[proxy.KubeconfigKey]
	}
	all := kubeconfigs(seen, current)
	i := slices.IndexFunc(all, func(kubeconfig []byte) bool { return bytes.Equal(kubeconfig, current) })
	switch {
	case len(all) == 0:
		return nil
	case i >= 0 && moveOn:
		return all[(i+1)%len(all)]
	case i >= 0:
		return current
	}
	return all[0]
}

// kubeconfigs returns all usable kubeconfigs, the best first. Each combines a server's printed credentials with its own
// addresses, and after those with the addresses of the others. If the server that printed them is gone, the credentials
// come from the current kubeconfig.
func kubeconfigs(seen *facts, current []byte) [][]byte {
	var all [][]byte
	add := func(access proxy.Access, addresses []string) {
		for _, address := range addresses {
			kubeconfig, err := access.Kubeconfig(address)
			known := func(other []byte) bool { return bytes.Equal(other, kubeconfig) }
			if err == nil && !slices.ContainsFunc(all, known) {
				all = append(all, kubeconfig)
			}
		}
	}
	for _, captured := range seen.captured {
		add(captured.access, captured.addresses)
	}
	for _, captured := range seen.captured {
		add(captured.access, seen.servers)
	}
	if access, err := proxy.Capture(current); len(seen.captured) == 0 && err == nil {
		add(access, seen.servers)
	}
	return all
}

// mayMoveOn reports whether to try another server. It allows that once per moveAfter, because Cluster API needs time to
// check the connection.
func (h *handler) mayMoveOn(seen *facts) bool {
	key := nameOf(seen.cluster)
	h.moved.mu.Lock()
	defer h.moved.mu.Unlock()
	if !seen.cutOff {
		delete(h.moved.at, key)
		return false
	}
	if left := h.moved.at[key].Add(moveAfter).Sub(seen.now); left > 0 {
		h.Clusters.EnqueueAfter(key.Namespace, key.Name, left)
		return false
	}
	if h.moved.at == nil {
		h.moved.at = map[types.NamespacedName]time.Time{}
	}
	h.moved.at[key] = seen.now
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
func (h *handler) writeManagement(seen *facts, status mgmtv3.ClusterStatus) error {
	if equality.Semantic.DeepEqual(seen.management.Status, status) {
		return nil
	}
	patch, err := statusPatch(seen.management, status)
	if err != nil {
		return fmt.Errorf("encode status of management cluster %s: %w", seen.management.Name, err)
	}
	patched, err := h.ManagementClusters.Patch(seen.management.Name, types.MergePatchType, patch, "status")
	if err != nil {
		return fmt.Errorf("write status of management cluster %s: %w", seen.management.Name, err)
	}
	seen.management = patched
	return nil
}

// statusPatch returns the patch from the current status to the wanted one. It includes fields that become false or
// empty, and omits fields that this program does not know.
func statusPatch(management *mgmtv3.Cluster, status mgmtv3.ClusterStatus) ([]byte, error) {
	before, err := json.Marshal(management.Status)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	changes, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": management.ResourceVersion},
		"status":   json.RawMessage(changes),
	})
}

// remove deletes the management side last, because the machines that are being removed still need it.
func (h *handler) remove(cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if !slices.Contains(cluster.Finalizers, provv1.ProvisioningClusterFinalizer) ||
		slices.Contains(cluster.Finalizers, provv1.RKEClusterFinalizer) {
		// Controller provisioningcluster removes its finalizer, and that event requeues the Cluster
		return cluster, nil
	}
	if err := h.letGo(cluster); err != nil {
		return cluster, err
	}
	h.Prober.Forget(nameOf(cluster))
	h.met.forget(cluster.Status.ClusterName)
	if id := cluster.Status.ClusterName; id != "" {
		if err := h.removeTokens(id, func(*corev1.Secret) bool { return true }); err != nil {
			return cluster, err
		}
	}
	if err := h.unprotect(cluster); err != nil {
		return cluster, err
	}
	if err := h.Apply.PurgeLive(h.ctx, handlerName, clusterKind, cluster.Namespace, cluster.Name, setKinds()); err != nil {
		return cluster, err
	}
	patch, err := topology.ReleasePatch(cluster, provv1.ProvisioningClusterFinalizer)
	if err != nil {
		return cluster, err
	}
	updated, err := h.Clusters.Patch(cluster.Namespace, cluster.Name, types.MergePatchType, patch)
	if apierrors.IsNotFound(err) {
		return cluster, nil
	}
	if err != nil {
		return cluster, fmt.Errorf("release cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return updated, nil
}

// unprotect removes the copy of the Cluster's protection from the management cluster, which earlier releases made. A
// protection that another program set stays, and with it the management cluster.
func (h *handler) unprotect(cluster *provv1.Cluster) error {
	if cluster.Status.ClusterName == "" {
		return nil
	}
	management, err := h.management.Get(cluster.Status.ClusterName)
	if apierrors.IsNotFound(err) || err == nil && (management.DeletionTimestamp != nil || !admission.Protected(management.Annotations)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read management cluster %s: %w", cluster.Status.ClusterName, err)
	}
	wanted := topology.ManagementCluster(cluster, h.Registry)
	_, err = h.Apply.Apply(h.ctx, handlerName, cluster, applyset.NoOwnerRef, []schema.GroupVersionKind{wanted.GroupVersionKind()}, []runtime.Object{wanted})
	return err
}

func nameOf(cluster *provv1.Cluster) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
}
