package provisioningcluster

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// podSecurity returns the Secret with the Pod Security configuration of a cluster, nil if there is none.
func (h *handler) podSecurity(cluster *provv1.Cluster) (*corev1.Secret, error) {
	secret, err := clients.Optional(h.secrets.Get(cluster.Namespace, naming.PodSecurity(cluster.Name)))
	if err != nil {
		return nil, fmt.Errorf("read Pod Security configuration of %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return secret, nil
}

// gatherPodSecurity reads what the API servers' Pod Security configuration is made from.
func (h *handler) gatherPodSecurity(in *topology.Input) error {
	name := topology.PodSecurityTemplate(in.Cluster)
	if name == "" {
		return nil
	}
	var err error
	if in.PodSecurity, err = clients.Optional(h.templates.Get(name)); err != nil {
		return fmt.Errorf("read PodSecurityAdmissionConfigurationTemplate %s: %w", name, err)
	}
	secret, err := h.podSecurity(in.Cluster)
	in.PodSecurityStored = topology.HasPodSecurity(secret)
	return err
}

// keepPodSecurity writes the Secret with the Pod Security configuration, and reports whether it did. The control plane
// that names the Secret is written when the cache has it, because the planner reads the Secret from the same cache.
func (h *handler) keepPodSecurity(facts *Facts) (wrote bool, err error) {
	wanted, err := topology.PodSecuritySecret(facts.input)
	if err != nil || wanted == nil {
		return false, err
	}
	if facts.podSecurity == nil {
		_, err = h.Secrets.Create(wanted)
	} else if changed := topology.MergePodSecurity(facts.podSecurity, wanted); changed != nil {
		_, err = h.Secrets.Update(changed)
	} else {
		return false, nil
	}
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // the cache is behind
		return false, fmt.Errorf("write Secret %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	return true, nil
}

// dropPodSecurity deletes a Secret that no configuration names any more. The planner reads the control plane from the
// same cache, so it never misses the Secret.
func (h *handler) dropPodSecurity(facts *Facts) error {
	cluster, secret := facts.input.Cluster, facts.podSecurity
	if secret == nil || !metav1.IsControlledBy(secret, cluster) || topology.PodSecurityTemplate(cluster) != "" ||
		topology.NamesPodSecurity(cluster.Name, &cluster.Spec.RKEConfig.ClusterConfiguration) ||
		facts.controlPlane != nil &&
			topology.NamesPodSecurity(cluster.Name, &facts.controlPlane.Spec.ClusterConfiguration) {
		return nil
	}
	return h.deleteSecret(secret)
}

func (h *handler) deleteSecret(secret *corev1.Secret) error {
	err := h.Secrets.Delete(secret.Namespace, secret.Name, &metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(secret.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// releasedClusters are deleted clusters that have left Secrets to others. Of two clusters that are deleted at the same
// time, the second one must not leave the Secrets to the first one.
type releasedClusters struct {
	mu  sync.Mutex
	uid map[types.UID]bool
}

// removeSecrets deletes the Secrets that a user has marked for deletion with their cluster. A Secret that other
// existing clusters may use stays until the last of them is deleted. (docs/wire/names.md#annotations.)
func (h *handler) removeSecrets(cluster *provv1.Cluster) error {
	secrets, err := h.secrets.List(cluster.Namespace, labels.Everything())
	if err != nil {
		return fmt.Errorf("list Secrets of %s: %w", cluster.Namespace, err)
	}
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(secret *corev1.Secret) bool {
		return secret.Annotations[rkev1.AuthorizedSecretDeletesAnnotation] != "true" ||
			!topology.Authorizes(secret.Annotations, cluster)
	})
	if len(secrets) == 0 {
		return nil
	}
	h.released.mu.Lock()
	defer h.released.mu.Unlock()
	others, err := h.clusters.List(cluster.Namespace, labels.Everything())
	if err != nil {
		return fmt.Errorf("list clusters of %s: %w", cluster.Namespace, err)
	}
	others = slices.DeleteFunc(slices.Clone(others), func(other *provv1.Cluster) bool {
		return other.UID == cluster.UID || h.released.uid[other.UID]
	})
	for _, secret := range secrets {
		if slices.ContainsFunc(others, func(other *provv1.Cluster) bool {
			return topology.Authorizes(secret.Annotations, other)
		}) {
			continue
		}
		if err := h.deleteSecret(secret); err != nil {
			return err
		}
	}
	if h.released.uid == nil {
		h.released.uid = map[types.UID]bool{}
	}
	h.released.uid[cluster.UID] = true
	return nil
}
