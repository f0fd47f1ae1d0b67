package clients

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	lassocache "github.com/rancher/lasso/pkg/cache"
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// DefaultSecretBytes is the largest Secret of a user whose data the cache keeps. The plan of a machine, to which the
// data go, has at most 1 MiB with everything else.
const DefaultSecretBytes = 512 << 10

// droppedKey is the annotation of a cached Secret without its data. It exists only in the cache.
const droppedKey = "drover.io/not-cached"

// droppedMark begins the annotation's value. It is random, so that a user who sets the annotation has no influence.
var droppedMark = "dropped-" + rand.Text() + ": "

// ownPrefixes begin the types of Secrets that Drover writes, and ownGroups are the API groups of their owners. Their
// data always stay.
var ownPrefixes = []string{"rke.cattle.io/", "drover.io/", rkev1.SecretTypeClusterAPI,
	string(corev1.SecretTypeServiceAccountToken)}

var ownGroups = []string{"rke.cattle.io", "provisioning.cattle.io", "management.cattle.io", "cluster.x-k8s.io",
	"rke-machine.cattle.io"}

// unread are types of Secrets that nothing reads.
var unread = map[corev1.SecretType]bool{
	corev1.SecretTypeDockercfg: true, corev1.SecretTypeBootstrapToken: true, "helm.sh/release.v1": true,
	"istio.io/key-and-cert": true,
}

// SecretDroppedError is the error for a cached Secret without its data.
type SecretDroppedError struct {
	// Namespace and Name are those of the Secret. Reason is why its data are missing.
	Namespace, Name, Reason string
}

// Error implements error.
func (e *SecretDroppedError) Error() string {
	return fmt.Sprintf("Secret %s/%s %s", e.Namespace, e.Name, e.Reason)
}

// secretLimit drops from cached Secrets what Drover does not read.
type secretLimit int64

// reduce is the transformation of the cache of Secrets. It keeps annotations of Secrets that Drover writes, because a
// write from the cache would delete missing ones. Missing managed fields stay as they are.
func (l secretLimit) reduce(object any) (any, error) {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return object, nil // the last known state of a deleted object, which was reduced before
	}
	secret.ManagedFields = nil
	// A settled machine has its plan twice, and the plan is most of its Secret.
	if plan, ok := secret.Data[nodeplan.KeyPlan]; ok && bytes.Equal(plan, secret.Data[nodeplan.KeyAppliedPlan]) {
		secret.Data[nodeplan.KeyAppliedPlan] = plan
	}
	if secret.Type == rkev1.SecretTypeMachineOutput {
		for key := range secret.Data {
			secret.Data[key] = nil // controllers read the keys only, and users read the values
		}
	}
	if isOwn(secret) {
		return secret, nil
	}
	delete(secret.Annotations, corev1.LastAppliedConfigAnnotation)
	if reason := l.drops(secret); reason != "" {
		secret.Data = nil
		secret.Annotations = requests(secret.Annotations)
		secret.Annotations[droppedKey] = droppedMark + reason
	}
	return secret, nil
}

// requests returns the annotations for which Drover needs no data. Users request copies of a Secret in clusters with
// some, and Drover says why there is none. With others they request its deletion with its cluster. Longer texts are
// dropped with the data.
func requests(annotations map[string]string) map[string]string {
	const longest = 1024
	kept := map[string]string{}
	for _, key := range []string{rkev1.AuthorizedObjectAnnotation, rkev1.AuthorizedSecretAnnotation,
		rkev1.AuthorizedSecretDeletesAnnotation, provv1.SyncAnnotation,
		provv1.SyncBootstrapAnnotation, provv1.SyncTargetNamespaceAnnotation, provv1.SyncTargetNameAnnotation} {
		if value := annotations[key]; value != "" && len(value) <= longest {
			kept[key] = value
		}
	}
	for _, list := range []string{rkev1.AuthorizedObjectAnnotation, rkev1.AuthorizedSecretAnnotation} {
		if kept[list] != annotations[list] {
			delete(kept, rkev1.AuthorizedSecretDeletesAnnotation) // clusters that are not known may use it
		}
	}
	return kept
}

// isOwn reports whether Drover writes a Secret.
func isOwn(secret *corev1.Secret) bool {
	if slices.ContainsFunc(ownPrefixes, func(p string) bool { return strings.HasPrefix(string(secret.Type), p) }) {
		return true
	}
	owner := metav1.GetControllerOf(secret)
	if owner == nil {
		return false
	}
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return slices.Contains(ownGroups, group)
}

// drops returns why the data of a Secret are dropped, or "".
func (l secretLimit) drops(secret *corev1.Secret) string {
	if reason, isDropped := strings.CutPrefix(secret.Annotations[droppedKey], droppedMark); isDropped {
		return reason
	}
	size := int64(0)
	for key, value := range secret.Data {
		size += int64(len(key) + len(value))
	}
	switch {
	case unread[secret.Type]:
		return fmt.Sprintf("has type %s, which Drover does not read: use another type", secret.Type)
	case size > int64(l):
		return fmt.Sprintf("has %d bytes, more than limit cached-secret-bytes (%d): divide it, or raise the limit",
			size, l)
	}
	return ""
}

// checkDropped returns a *SecretDroppedError for a Secret without its data.
func checkDropped(secret *corev1.Secret) error {
	reason, isDropped := strings.CutPrefix(secret.Annotations[droppedKey], droppedMark)
	if !isDropped {
		return nil
	}
	return &SecretDroppedError{Namespace: secret.Namespace, Name: secret.Name, Reason: reason}
}

// reducingCaches reduce Secrets before they are cached.
type reducingCaches struct {
	lassocache.SharedCacheFactory
	limit secretLimit
	once  sync.Once
	err   error
}

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

// ForKind implements lassocache.SharedCacheFactory.
func (r *reducingCaches) ForKind(gvk schema.GroupVersionKind) (cache.SharedIndexInformer, error) {
	informer, err := r.SharedCacheFactory.ForKind(gvk)
	return r.reduced(gvk, informer, err)
}

// ForResourceKind implements lassocache.SharedCacheFactory.
func (r *reducingCaches) ForResourceKind(gvr schema.GroupVersionResource, kind string,
	namespaced bool) (cache.SharedIndexInformer, error) {
	informer, err := r.SharedCacheFactory.ForResourceKind(gvr, kind, namespaced)
	return r.reduced(gvr.GroupVersion().WithKind(kind), informer, err)
}

// reduced adds the transformation to the cache of Secrets when that is made.
func (r *reducingCaches) reduced(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer,
	err error) (cache.SharedIndexInformer, error) {
	if err != nil || gvk != secretKind {
		return informer, err
	}
	r.once.Do(func() { r.err = informer.SetTransform(r.limit.reduce) })
	return informer, r.err
}

// checkedCore is the generated client of the core group, with a cache of Secrets that never returns one without its
// data.
type checkedCore struct{ corecontrollers.Interface }

// Secret implements corecontrollers.Interface.
func (c checkedCore) Secret() corecontrollers.SecretController {
	return checkedSecrets{c.Interface.Secret()}
}

type checkedSecrets struct {
	corecontrollers.SecretController
}

// Cache implements corecontrollers.SecretController.
func (c checkedSecrets) Cache() generic.CacheInterface[*corev1.Secret] {
	return checkedSecretCache{c.SecretController.Cache()}
}

type checkedSecretCache struct {
	generic.CacheInterface[*corev1.Secret]
}

// Get implements corecontrollers.SecretCache.
func (c checkedSecretCache) Get(namespace, name string) (*corev1.Secret, error) {
	secret, err := c.CacheInterface.Get(namespace, name)
	if err != nil {
		return nil, err
	}
	if err := checkDropped(secret); err != nil {
		return nil, err
	}
	return secret, nil
}

// errDropped is the error for a write that would delete the data of a Secret.
var errDropped = errors.New("a Secret without its data comes from the cache; it is not written")

// guardSecrets refuses to write a cached Secret without its data, because that would delete the data.
type guardSecrets struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guardSecrets) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/secrets") {
		return g.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if bytes.Contains(body, []byte(droppedMark)) {
		return nil, errDropped
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return g.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper gives client-go access to the wrapped transport.
func (g guardSecrets) WrappedRoundTripper() http.RoundTripper { return g.RoundTripper }
