package clusterproxy

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
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

// TokenStore finds Secrets; a generated SecretCache with TokenIndexer added as TokenIndex is one.
type TokenStore interface {
	GetByIndex(index, key string) ([]*corev1.Secret, error)
}

// Grant is what a token of ours is for.
type Grant struct {
	// Cluster identifies the only cluster that it opens, c-m-….
	Cluster string
	// Principal is whom it stands for: the cluster's machine identity (naming.ProvisioningPrincipal), or UserPrincipalPrefix and the name of a user.
	Principal string
	// Groups are the groups of that user. A machine identity has its own.
	Groups []string
	// Expires is the moment from which the token is worth nothing. Every token has one.
	Expires time.Time
}

// Issue makes a token: the Secret that has to be created for it in namespace, and the bearer token, which is not stored and cannot be found out again.
// A token counts when its Secret is in Drover's own namespace, and that of a machine identity while its Cluster has the identifier that it is for. The token
// has 256 random bits, so its digest needs no salt. Owner references and further labels are the caller's to add. The error says which field of the grant is wrong.
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
		return nil, "", fmt.Errorf("issue a proxy token: draw it: %w", err)
	}
	bearer := BearerPrefix + base64.RawURLEncoding.EncodeToString(drawn)
	digest := digestOf(bearer)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: TokenSecretPrefix + indexKey(digest)[:16], Labels: map[string]string{TokenClusterLabel: grant.Cluster},
		},
		Type: TokenSecretType,
		// What a token is for never changes: another one is issued, and this one deleted.
		Immutable: new(true),
		Data: map[string][]byte{
			digestKey: []byte(digest), clusterKey: []byte(grant.Cluster), principalKey: []byte(grant.Principal), groupsKey: groups,
			expiresKey: []byte(grant.Expires.UTC().Format(time.RFC3339)),
		},
	}, bearer, nil
}

// validate checks what Issue is asked for.
func (g Grant) validate() error {
	_, machine := machineOf(g.Principal)
	name, isUser := strings.CutPrefix(g.Principal, UserPrincipalPrefix)
	switch {
	case !isID(g.Cluster):
		return fmt.Errorf("field Cluster is %q: it must be the name of a management Cluster", g.Cluster)
	case len(g.Cluster) > 63:
		return errors.New("field Cluster has more than the 63 characters that a label holds")
	case !machine && (!isUser || name == ""):
		return errors.New("field Principal must be system://provisioning/NAMESPACE/NAME or user://NAME")
	case machine && len(g.Groups) > 0:
		return errors.New("field Groups must be empty for a machine identity, which has its own")
	case g.Expires.IsZero():
		return errors.New("Expires must be set")
	}
	return nil
}

// TokenIndexer is the index function of TokenIndex. Keys are digests of digests: neither the index nor the time of a lookup tells anything about a token.
func TokenIndexer(secret *corev1.Secret) ([]string, error) {
	digest := secret.Data[digestKey]
	if secret.Type != TokenSecretType || len(digest) == 0 {
		return nil, nil
	}
	return []string{indexKey(string(digest))}, nil
}

func digestOf(bearer string) string {
	sum := sha256.Sum256([]byte(bearer))
	return hex.EncodeToString(sum[:])
}

func indexKey(digest string) string {
	sum := sha256.Sum256([]byte(digest))
	return hex.EncodeToString(sum[:])
}

// machineOf returns the Cluster of a machine's principal.
func machineOf(principal string) (types.NamespacedName, bool) {
	parts := strings.Split(strings.TrimPrefix(principal, "system://provisioning/"), "/")
	if len(parts) != 2 || parts[0] == "" || parts[1] == "" || naming.ProvisioningPrincipal(parts[0], parts[1]) != principal {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: parts[0], Name: parts[1]}, true
}

// machineIdentity is who the machine identity of a Cluster is downstream. (docs/wire/endpoints.md#proxy.)
func machineIdentity(of types.NamespacedName) Identity {
	return Identity{Name: MachineUserPrefix + of.Namespace + ":" + of.Name, Groups: []string{AdminGroup}}.authenticated()
}

// tokenRules is what it takes to verify a token, besides its Secret.
type tokenRules struct {
	// own is Drover's namespace. Who may write Secrets elsewhere must not make anybody of themselves, nor an administrator of their own cluster.
	own string
	// lookup finds the Cluster of an identifier.
	lookup func(id string) (namespace, name string, ok bool)
	now    time.Time
}

// verify returns whom a bearer token stands for. The Secrets are those that the index gives for it.
func (r tokenRules) verify(bearer string, found []*corev1.Secret) (Caller, bool) {
	digest := digestOf(bearer)
	for _, secret := range found {
		if subtle.ConstantTimeCompare(secret.Data[digestKey], []byte(digest)) == 1 {
			if caller, ok := r.caller(secret); ok {
				return caller, true
			}
		}
	}
	return Caller{}, false
}

// caller is whom a Secret stands for, if it counts.
func (r tokenRules) caller(secret *corev1.Secret) (Caller, bool) {
	expires, err := time.Parse(time.RFC3339, string(secret.Data[expiresKey]))
	cluster, principal := string(secret.Data[clusterKey]), string(secret.Data[principalKey])
	if err != nil || !r.now.Before(expires) || cluster == "" || secret.Type != TokenSecretType || secret.DeletionTimestamp != nil {
		return Caller{}, false
	}
	if machine, ok := machineOf(principal); ok {
		namespace, name, known := r.lookup(cluster)
		its := known && namespace == machine.Namespace && name == machine.Name && secret.Namespace == r.own
		return Caller{Identity: machineIdentity(machine), Machine: true, Cluster: cluster}, its
	}
	return r.person(secret, principal, cluster)
}

// person is the user whom a Secret stands for.
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

// ForMachine reports whether a token is for the machine identity of a Cluster.
func ForMachine(secret *corev1.Secret) bool {
	_, ok := machineOf(string(secret.Data[principalKey]))
	return ok && secret.Type == TokenSecretType
}

// Expires returns until when a token is good; false for a Secret that is none.
func Expires(secret *corev1.Secret) (time.Time, bool) {
	expires, err := time.Parse(time.RFC3339, string(secret.Data[expiresKey]))
	return expires, err == nil && secret.Type == TokenSecretType
}

// Holds returns until when a bearer token is good, if it is the one that a Secret is of.
func Holds(secret *corev1.Secret, bearer string) (time.Time, bool) {
	expires, ok := Expires(secret)
	return expires, ok && secret.DeletionTimestamp == nil && subtle.ConstantTimeCompare(secret.Data[digestKey], []byte(digestOf(bearer))) == 1
}
