package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
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
func (h *handler) storeProxied(seen *facts) error {
	way := proxy.Proxied{Server: h.Endpoints.Server, Authority: h.Endpoints.Authority, ID: seen.management.Name}
	expires, stands, err := h.tokenInUse(seen, way)
	if err != nil {
		return err
	}
	if renewAt := expires.Add(-tokenRenewal - spread(seen)); stands && seen.now.Before(renewAt) {
		h.Clusters.EnqueueAfter(seen.cluster.Namespace, seen.cluster.Name, renewAt.Sub(seen.now))
		return h.removeTokens(seen.management.Name, func(token *corev1.Secret) bool { return isExpired(token, seen.now) })
	}
	if behind, err := h.kubeconfigIsBehind(seen); err != nil || behind {
		return err
	}
	if err := h.removeTokens(seen.management.Name, func(token *corev1.Secret) bool { return seen.kubeconfig == nil || isExpired(token, seen.now) }); err != nil {
		return err // deleting a kubeconfig revokes the tokens in it
	}
	grant := clusterproxy.Grant{
		Cluster: way.ID, Principal: naming.ProvisioningPrincipal(seen.cluster.Namespace, seen.cluster.Name), Expires: seen.now.Add(tokenLifetime),
	}
	token, bearer, err := clusterproxy.Issue(h.TokenNamespace, grant, rand.Reader)
	if err != nil {
		return err
	}
	if _, err := h.Secrets.Create(token); err != nil {
		return fmt.Errorf("create token of %s/%s: %w", seen.cluster.Namespace, seen.cluster.Name, err)
	}
	way.Token = bearer
	written, err := h.writeProxied(seen, way, token.Name)
	if !written {
		// The token is still unused. Without this deletion, each failed attempt would leave one.
		err = errors.Join(err, client.IgnoreNotFound(h.Secrets.Delete(token.Namespace, token.Name, &metav1.DeleteOptions{})))
	}
	return err
}

// kubeconfigIsBehind reports whether the cache is behind the kubeconfig on the API server. If so, its event requeues
// the Cluster, and a new token would be useless.
func (h *handler) kubeconfigIsBehind(seen *facts) (bool, error) {
	live, err := clients.Optional(h.Secrets.Get(seen.cluster.Namespace, naming.Kubeconfig(seen.cluster.Name), metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("read kubeconfig of %s/%s: %w", seen.cluster.Namespace, seen.cluster.Name, err)
	}
	if live == nil || seen.kubeconfig == nil {
		return live != seen.kubeconfig, nil
	}
	return live.ResourceVersion != seen.kubeconfig.ResourceVersion, nil
}

// spread returns an offset that is specific to the cluster.
func spread(seen *facts) time.Duration {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(seen.cluster.UID)) // never fails
	return time.Duration(hash.Sum64() % uint64(tokenSpread))
}

// tokenInUse returns the expiry of the kubeconfig's token, if the kubeconfig leads through the endpoints. It asks the
// API server for a token that the cache lacks, because it may be new.
func (h *handler) tokenInUse(seen *facts, way proxy.Proxied) (expires time.Time, stands bool, err error) {
	if seen.kubeconfig == nil {
		return time.Time{}, false, nil
	}
	bearer, stands := way.Stands(seen.kubeconfig.Data[proxy.KubeconfigKey])
	name := seen.kubeconfig.Annotations[rkev1.ProxyTokenAnnotation]
	if !stands || name == "" {
		return time.Time{}, false, nil
	}
	token, err := clients.Optional(h.secrets.Get(h.TokenNamespace, name))
	if err == nil && token == nil {
		token, err = clients.Optional(h.Secrets.Get(h.TokenNamespace, name, metav1.GetOptions{}))
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("read token of %s/%s: %w", seen.cluster.Namespace, seen.cluster.Name, err)
	}
	if token == nil {
		return time.Time{}, false, nil
	}
	expires, stands = clusterproxy.Holds(token, bearer)
	return expires, stands, nil
}

func (h *handler) writeProxied(seen *facts, way proxy.Proxied, token string) (written bool, err error) {
	kubeconfig, err := way.Kubeconfig()
	if err != nil {
		return false, err
	}
	desired := proxy.Secret(seen.cluster.Namespace, seen.cluster.Name, topology.OwnerReference(seen.cluster, false), kubeconfig)
	desired.Data[proxy.TokenKey] = []byte(way.Token)
	desired.Annotations = map[string]string{rkev1.ProxyTokenAnnotation: token}
	return h.writeKubeconfig(seen, desired)
}

// writeKubeconfig creates or updates the Secret of the kubeconfig. It keeps labels, annotations and owners of other
// programs. If the cache is behind, it returns false without an error, and the Secret's event requeues the Cluster.
func (h *handler) writeKubeconfig(seen *facts, desired *corev1.Secret) (written bool, err error) {
	if seen.kubeconfig == nil {
		created, err := h.Secrets.Create(desired)
		if apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("create kubeconfig of %s/%s: %w", seen.cluster.Namespace, seen.cluster.Name, err)
		}
		seen.kubeconfig = created
		return true, nil
	}
	updated := seen.kubeconfig.DeepCopy()
	updated.Data = desired.Data
	updated.Labels, updated.Annotations = with(updated.Labels, desired.Labels), with(updated.Annotations, desired.Annotations)
	if !slices.ContainsFunc(updated.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == seen.cluster.UID }) {
		updated.OwnerReferences = append(updated.OwnerReferences, desired.OwnerReferences...)
	}
	if equality.Semantic.DeepEqual(seen.kubeconfig, updated) {
		return true, nil
	}
	stored, err := h.Secrets.Update(updated)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("update kubeconfig of %s/%s: %w", seen.cluster.Namespace, seen.cluster.Name, err)
	}
	seen.kubeconfig = stored
	return true, nil
}

func with(have, more map[string]string) map[string]string {
	if len(more) == 0 {
		return have
	}
	all := maps.Clone(have)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	return all
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
	tokens, err := h.secrets.List(h.TokenNamespace, labels.SelectorFromSet(labels.Set{clusterproxy.TokenClusterLabel: id}))
	if err != nil {
		return fmt.Errorf("list tokens of %s: %w", id, err)
	}
	for _, token := range tokens {
		if token.DeletionTimestamp != nil || !clusterproxy.ForMachine(token) || !which(token) {
			continue
		}
		if err := h.Secrets.Delete(token.Namespace, token.Name, &metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove token %s/%s: %w", token.Namespace, token.Name, err)
		}
	}
	return nil
}
