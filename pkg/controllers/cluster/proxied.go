package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// A cluster's own token lives for tokenLifetime and is replaced in its last third. Users of the kubeconfig have two
// days to read it again. The old token stays valid until it expires.
const (
	tokenLifetime = 7 * 24 * time.Hour
	tokenRenewal  = tokenLifetime / 3
	// tokenSpread is the time over which renewals of tokens from one moment are spread.
	tokenSpread = tokenLifetime / 10
)

// Endpoints is where a cluster is reached through Drover.
type Endpoints struct {
	// Server is the https URL, without a path.
	Server string
	// Authority holds the PEM authorities that verify the server; empty if the system's do.
	Authority []byte
}

// storeProxied writes a kubeconfig that leads through Drover's endpoints, for Cluster API and other users. It creates
// the token first, so that no kubeconfig lacks one.
func (h *handler) storeProxied(facts *Facts) error {
	way := proxy.Proxied{Server: h.Endpoints.Server, Authority: h.Endpoints.Authority, ID: facts.management.Name}
	expires, stands, err := h.tokenInUse(facts, way)
	if err != nil {
		return err
	}
	expired := func(token *corev1.Secret) bool { return isExpired(token, facts.now) }
	if renewAt := expires.Add(-tokenRenewal - spread(facts)); stands && facts.now.Before(renewAt) {
		h.Clusters.EnqueueAfter(facts.cluster.Namespace, facts.cluster.Name, renewAt.Sub(facts.now))
		return h.removeTokens(facts.management.Name, expired)
	}
	if behind, err := h.kubeconfigIsBehind(facts); err != nil || behind {
		return err
	}
	unused := func(token *corev1.Secret) bool { return facts.kubeconfig == nil || expired(token) }
	if err := h.removeTokens(facts.management.Name, unused); err != nil {
		return err // deleting a kubeconfig revokes the tokens in it
	}
	grant := clusterproxy.Grant{
		Cluster: way.ID, Expires: facts.now.Add(tokenLifetime),
		Principal: naming.ProvisioningPrincipal(facts.cluster.Namespace, facts.cluster.Name),
	}
	token, bearer, err := clusterproxy.Issue(h.TokenNamespace, grant, rand.Reader)
	if err != nil {
		return err
	}
	if _, err := h.Secrets.Create(token); err != nil {
		return fmt.Errorf("create token of %s/%s: %w", facts.cluster.Namespace, facts.cluster.Name, err)
	}
	way.Token = bearer
	written, err := h.writeProxied(facts, way, token.Name)
	if !written {
		// The token is still unused. Without this deletion, each failed attempt would leave one.
		err = errors.Join(err,
			client.IgnoreNotFound(h.Secrets.Delete(token.Namespace, token.Name, &metav1.DeleteOptions{})))
	}
	return err
}

// kubeconfigIsBehind reports whether the cache is behind the kubeconfig on the API server. If so, its event requeues
// the Cluster, and a new token would be useless.
func (h *handler) kubeconfigIsBehind(facts *Facts) (bool, error) {
	name := naming.Kubeconfig(facts.cluster.Name)
	live, err := clients.Optional(h.Secrets.Get(facts.cluster.Namespace, name, metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("read kubeconfig of %s/%s: %w", facts.cluster.Namespace, facts.cluster.Name, err)
	}
	if live == nil || facts.kubeconfig == nil {
		return live != facts.kubeconfig, nil
	}
	return live.ResourceVersion != facts.kubeconfig.ResourceVersion, nil
}

// spread returns an offset that is specific to the cluster.
func spread(facts *Facts) time.Duration {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(facts.cluster.UID)) // never fails
	return time.Duration(hash.Sum64() % uint64(tokenSpread))
}

// tokenInUse returns the expiry of the kubeconfig's token, if the kubeconfig leads through the endpoints. It asks the
// API server for a token that the cache lacks, because it may be new.
func (h *handler) tokenInUse(facts *Facts, way proxy.Proxied) (expires time.Time, stands bool, err error) {
	if facts.kubeconfig == nil {
		return time.Time{}, false, nil
	}
	bearer, stands := way.Stands(facts.kubeconfig.Data[proxy.KubeconfigKey])
	name := facts.kubeconfig.Annotations[rkev1.ProxyTokenAnnotation]
	if !stands || name == "" {
		return time.Time{}, false, nil
	}
	token, err := clients.Optional(h.secrets.Get(h.TokenNamespace, name))
	if err == nil && token == nil {
		token, err = clients.Optional(h.Secrets.Get(h.TokenNamespace, name, metav1.GetOptions{}))
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("read token of %s: %w", nameOf(facts.cluster), err)
	}
	if token == nil {
		return time.Time{}, false, nil
	}
	expires, stands = clusterproxy.Holds(token, bearer)
	return expires, stands, nil
}

func (h *handler) writeProxied(facts *Facts, way proxy.Proxied, token string) (written bool, err error) {
	kubeconfig, err := way.Kubeconfig()
	if err != nil {
		return false, err
	}
	owner := topology.OwnerReference(facts.cluster, false)
	desired := proxy.Secret(facts.cluster.Namespace, facts.cluster.Name, owner, kubeconfig)
	desired.Data[proxy.TokenKey] = []byte(way.Token)
	desired.Annotations = map[string]string{rkev1.ProxyTokenAnnotation: token}
	return h.writeKubeconfig(facts, desired)
}

// writeKubeconfig creates or updates the Secret of the kubeconfig. It keeps labels, annotations and owners of other
// programs. If the cache is behind, it returns false without an error, and the Secret's event requeues the Cluster.
func (h *handler) writeKubeconfig(facts *Facts, desired *corev1.Secret) (written bool, err error) {
	if facts.kubeconfig == nil {
		created, err := h.Secrets.Create(desired)
		if apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("create kubeconfig of %s/%s: %w", facts.cluster.Namespace, facts.cluster.Name, err)
		}
		facts.kubeconfig = created
		return true, nil
	}
	updated := facts.kubeconfig.DeepCopy()
	updated.Data = fleet.KeepSecretKeys(facts.kubeconfig.Data, desired.Data)
	updated.Labels = labels.Merge(updated.Labels, desired.Labels)
	updated.Annotations = labels.Merge(updated.Annotations, desired.Annotations)
	isOwner := func(ref metav1.OwnerReference) bool { return ref.UID == facts.cluster.UID }
	if !slices.ContainsFunc(updated.OwnerReferences, isOwner) {
		updated.OwnerReferences = append(updated.OwnerReferences, desired.OwnerReferences...)
	}
	if equality.Semantic.DeepEqual(facts.kubeconfig, updated) {
		return true, nil
	}
	stored, err := h.Secrets.Update(updated)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("update kubeconfig of %s/%s: %w", facts.cluster.Namespace, facts.cluster.Name, err)
	}
	facts.kubeconfig = stored
	return true, nil
}

// isExpired reports whether a token has expired.
func isExpired(token *corev1.Secret, now time.Time) bool {
	expires, ok := clusterproxy.Expires(token)
	return ok && !now.Before(expires)
}

// removeTokens deletes those of a management cluster's tokens that serve Drover itself.
func (h *handler) removeTokens(id string, which func(token *corev1.Secret) bool) error {
	if h.TokenNamespace == "" {
		return nil // no tokens are created
	}
	tokens, err := h.secrets.List(h.TokenNamespace,
		labels.SelectorFromSet(labels.Set{clusterproxy.TokenClusterLabel: id}))
	if err != nil {
		return fmt.Errorf("list tokens of %s: %w", id, err)
	}
	for _, token := range tokens {
		if token.DeletionTimestamp != nil || !clusterproxy.ForMachine(token) || !which(token) {
			continue
		}
		if err := h.Secrets.Delete(token.Namespace, token.Name, &metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			return fmt.Errorf("remove token %s/%s: %w", token.Namespace, token.Name, err)
		}
	}
	return nil
}
