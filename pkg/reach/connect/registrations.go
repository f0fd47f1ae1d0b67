package connect

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// ManagementClusters reads management clusters from memory.
type ManagementClusters interface {
	Get(name string) (*mgmtv3.Cluster, error)
}

// RegistrationOptions are the dependencies of Registrations.
type RegistrationOptions struct {
	// Secrets is a cache whose factory is started later. Required.
	Secrets corecontrollers.SecretCache
	// Clusters are the clusters with tokens. With nil, Lookup finds nothing.
	Clusters ManagementClusters
	// Now is the clock. nil means time.Now.
	Now func() time.Time
	// Log receives messages, never a token. nil means the standard logger.
	Log logrus.FieldLogger
}

// Registrations finds the cluster of a registration token. Its index contains digests of digests, so that neither the
// index nor the time of a lookup reveals anything about a token.
type Registrations struct{ RegistrationOptions }

// NewRegistrations adds its index to the cache of Secrets. Call it once per cache.
func NewRegistrations(o RegistrationOptions) *Registrations {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = logrus.StandardLogger()
	}
	o.Secrets.AddIndexer(indexRegistrationToken, func(s *corev1.Secret) ([]string, error) {
		if _, ok := registration.IsSecretName(s.Name); !ok {
			return nil, nil
		}
		var keys []string
		for _, token := range [][]byte{s.Data[registration.KeyToken], s.Data[registration.KeyPreviousToken]} {
			if len(token) > 0 {
				keys = append(keys, naming.SHA256(proofToken(string(token))))
			}
		}
		return keys, nil
	})
	return &Registrations{o}
}

// proofToken is the form in which a cluster agent presents a registration token to request a proof.
// (docs/wire/endpoints.md#authorities.)
func proofToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Lookup returns the name of the management cluster of a token that is valid now and for the purpose. The namespace of
// its Secret determines the cluster. A token in the namespaces of several clusters is refused, because its cluster is
// ambiguous.
func (r *Registrations) Lookup(token string, purpose registration.Purpose) (cluster string, ok bool) {
	registered, ok := r.Registration(token, purpose)
	return registered.Namespace, ok
}

// Registration returns the ClusterRegistrationToken that Lookup finds. If several of one cluster have the same token,
// it is the first by name.
func (r *Registrations) Registration(token string, purpose registration.Purpose) (name types.NamespacedName, ok bool) {
	if token == "" || r.Clusters == nil {
		return name, false
	}
	found := r.find(proofToken(token), purpose)
	clusters := map[string]bool{}
	for secret := range found {
		clusters[secret.Namespace] = true
		if own, _ := registration.IsSecretName(secret.Name); name.Name == "" || own < name.Name {
			name = types.NamespacedName{Namespace: secret.Namespace, Name: own}
		}
	}
	if len(clusters) > 1 {
		r.Log.WithField("clusters", len(clusters)).Error("Several clusters have the same registration token; Drover " +
			"refuses it until each cluster has another one")
	}
	if len(clusters) != 1 {
		return types.NamespacedName{}, false
	}
	known, err := r.Clusters.Get(name.Namespace)
	if err != nil || known.DeletionTimestamp != nil {
		return types.NamespacedName{}, false
	}
	return name, true
}

// proving returns the token for a presented digest, for any purpose, or "".
func (r *Registrations) proving(digest string) string {
	for _, token := range r.find(digest, registration.Any) {
		return token // the token is the same in all Secrets
	}
	return ""
}

// find returns the token for a presented digest, by Secret.
func (r *Registrations) find(digest string, purpose registration.Purpose) map[types.NamespacedName]string {
	if digest == "" {
		return nil
	}
	secrets, err := r.Secrets.GetByIndex(indexRegistrationToken, naming.SHA256(digest))
	if err != nil {
		r.Log.WithError(err).Error("Cannot look up registration tokens")
		return nil
	}
	found, now := map[types.NamespacedName]string{}, r.Now()
	for _, secret := range secrets {
		if secret.DeletionTimestamp != nil || !registration.Serves(secret.Labels, purpose) {
			continue
		}
		for _, token := range registration.Read(secret).Accepted(now) {
			if subtle.ConstantTimeCompare([]byte(proofToken(token)), []byte(digest)) == 1 {
				found[types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}] = token
			}
		}
	}
	return found
}
