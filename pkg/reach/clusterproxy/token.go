package clusterproxy

import (
	"cmp"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// TokenStore finds Secrets. A generated SecretCache with TokenIndexer as TokenIndex implements it.
type TokenStore interface {
	GetByIndex(index, key string) ([]*corev1.Secret, error)
}

// Grant is the purpose of a token of Drover's own.
type Grant struct {
	// Cluster identifies the only cluster that the token opens, c-m-….
	Cluster string
	// Principal is the identity of the bearer: the cluster's machine identity (naming.ProvisioningPrincipal), or
	// UserPrincipalPrefix and a user name.
	Principal string
	// Groups are that user's groups. They are empty for a machine identity.
	Groups []string
	// Expires is when the token becomes invalid. It is required.
	Expires time.Time
}

// Issue creates a token. It returns the Secret, which the caller must create in namespace, and the bearer token, which
// is stored nowhere. A token is valid only while its Secret is in Drover's own namespace. That of a machine identity
// also requires that its Cluster has the token's identifier. The token has 256 random bits, so its digest needs no
// salt. The caller adds owner references and further labels. The error names the invalid field of the grant.
func Issue(namespace string, grant Grant, random io.Reader) (*corev1.Secret, string, error) {
	if err := grant.validate(); err != nil {
		return nil, "", fmt.Errorf("issue a proxy token: %w", err)
	}
	groups, err := json.Marshal(grant.Groups)
	if err != nil {
		return nil, "", fmt.Errorf("issue a proxy token: encode groups: %w", err)
	}
	drawn := make([]byte, bearerBytes)
	if _, err := io.ReadFull(random, drawn); err != nil {
		return nil, "", fmt.Errorf("issue a proxy token: make random bytes: %w", err)
	}
	bearer := BearerPrefix + base64.RawURLEncoding.EncodeToString(drawn)
	digest := naming.SHA256(bearer)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: TokenSecretPrefix + naming.SHA256(digest)[:16],
			Labels: map[string]string{TokenClusterLabel: grant.Cluster},
		},
		Type: TokenSecretType,
		// The purpose of a token never changes. To change it, issue another one and delete this one.
		Immutable: new(true),
		Data: map[string][]byte{
			digestKey: []byte(digest), clusterKey: []byte(grant.Cluster), principalKey: []byte(grant.Principal),
			groupsKey:  groups,
			expiresKey: []byte(grant.Expires.UTC().Format(time.RFC3339)),
		},
	}, bearer, nil
}

// validate checks the grant.
func (g Grant) validate() error {
	_, machine := machineOf(g.Principal)
	name, isUser := strings.CutPrefix(g.Principal, UserPrincipalPrefix)
	switch {
	case !isID(g.Cluster):
		return fmt.Errorf("field Cluster is %q: it must be the name of a management Cluster", g.Cluster)
	case len(g.Cluster) > 63:
		return errors.New("field Cluster must have at most 63 characters")
	case !machine && (!isUser || name == ""):
		return errors.New("field Principal must be system://provisioning/NAMESPACE/NAME or user://NAME")
	case machine && len(g.Groups) > 0:
		return errors.New("field Groups must be empty for a machine identity, which has its own")
	case g.Expires.IsZero():
		return errors.New("Expires must be set")
	}
	return nil
}

// TokenIndexer is the index function of TokenIndex. Keys are digests of digests, so neither the index nor the time of a
// lookup reveals anything about a token.
func TokenIndexer(secret *corev1.Secret) ([]string, error) {
	digest := secret.Data[digestKey]
	if secret.Type != TokenSecretType || len(digest) == 0 {
		return nil, nil
	}
	return []string{naming.SHA256(string(digest))}, nil
}

// machineOf returns the Cluster of a machine's principal.
func machineOf(principal string) (types.NamespacedName, bool) {
	parts := strings.Split(strings.TrimPrefix(principal, "system://provisioning/"), "/")
	if len(parts) != 2 || parts[0] == "" || parts[1] == "" ||
		naming.ProvisioningPrincipal(parts[0], parts[1]) != principal {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: parts[0], Name: parts[1]}, true
}

// machineIdentity is the downstream identity of a Cluster's machine identity. (docs/wire/endpoints.md#proxy.)
func machineIdentity(of types.NamespacedName) Identity {
	return Identity{Name: MachineUserPrefix + of.Namespace + ":" + of.Name,
		Groups: []string{AdminGroup}}.authenticated()
}

// tokenRules are the parameters for verifying a token.
type tokenRules struct {
	// own is Drover's namespace. Users that can write Secrets in other namespaces must not gain identities, nor become
	// administrators of their own cluster.
	own string
	// lookup returns the Cluster of an identifier.
	lookup func(id string) (namespace, name string, ok bool)
	now    time.Time
}

// verify returns the caller of a bearer token. found are the Secrets from the index.
func (r tokenRules) verify(bearer string, found []*corev1.Secret) (Caller, bool) {
	digest := naming.SHA256(bearer)
	for _, secret := range found {
		if subtle.ConstantTimeCompare(secret.Data[digestKey], []byte(digest)) == 1 {
			if caller, ok := r.caller(secret); ok {
				return caller, true
			}
		}
	}
	return Caller{}, false
}

// caller returns the caller of a token Secret, if the token is valid.
func (r tokenRules) caller(secret *corev1.Secret) (Caller, bool) {
	expires, err := time.Parse(time.RFC3339, string(secret.Data[expiresKey]))
	cluster, principal := string(secret.Data[clusterKey]), string(secret.Data[principalKey])
	if err != nil || !r.now.Before(expires) || cluster == "" || secret.Type != TokenSecretType ||
		secret.DeletionTimestamp != nil {
		return Caller{}, false
	}
	if machine, ok := machineOf(principal); ok {
		namespace, name, known := r.lookup(cluster)
		its := known && namespace == machine.Namespace && name == machine.Name && secret.Namespace == r.own
		return Caller{Identity: machineIdentity(machine), Machine: true, Cluster: cluster}, its
	}
	return r.person(secret, principal, cluster)
}

// person returns the user of a token Secret.
func (r tokenRules) person(secret *corev1.Secret, principal, cluster string) (Caller, bool) {
	name, isUser := strings.CutPrefix(principal, UserPrincipalPrefix)
	if !isUser || name == "" || secret.Namespace != r.own {
		return Caller{}, false
	}
	var groups []string
	if err := json.Unmarshal([]byte(cmp.Or(string(secret.Data[groupsKey]), "null")), &groups); err != nil {
		return Caller{}, false
	}
	caller := Caller{Identity: Identity{Name: name, Groups: groups}.authenticated(), Cluster: cluster}
	return caller, !caller.isNobody()
}

// ForMachine reports whether a token is for a machine identity.
func ForMachine(secret *corev1.Secret) bool {
	_, ok := machineOf(string(secret.Data[principalKey]))
	return ok && secret.Type == TokenSecretType
}

// Expires returns when a token expires. It returns false for other Secrets.
func Expires(secret *corev1.Secret) (time.Time, bool) {
	expires, err := time.Parse(time.RFC3339, string(secret.Data[expiresKey]))
	return expires, err == nil && secret.Type == TokenSecretType
}

// Holds reports whether a bearer token belongs to a Secret, and returns when the token expires.
func Holds(secret *corev1.Secret, bearer string) (time.Time, bool) {
	expires, ok := Expires(secret)
	return expires, ok && secret.DeletionTimestamp == nil && subtle.ConstantTimeCompare(secret.Data[digestKey],
		[]byte(naming.SHA256(bearer))) == 1
}
