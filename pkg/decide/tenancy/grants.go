package tenancy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// GrantsAnnotation holds the grants of a Cluster. Admission writes it, and nobody else can: every grant is signed.
const GrantsAnnotation = rkev1.GrantsAnnotation

// Renew is what a request sets GrantsAnnotation to, that its user be the author of all references that have no good grant.
const Renew = rkev1.GrantsRenew

// KeySize is the length in bytes of the key that signs grants.
const KeySize = 32

// Author is who wrote a reference, as the API server knew them at that moment.
type Author struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// Grant remembers who wrote a reference that they were allowed to write.
type Grant struct {
	// Secret as NAMESPACE/NAME.
	Secret string `json:"secret"`
	Author Author `json:"author"`
	// Signature covers the two fields above and the cluster's namespace and name.
	Signature string `json:"signature"`
}

// Grants returns the authors of the references of a Cluster, by Secret: those whose signature is good for this Cluster, and whose reference
// still stands in it. An annotation that cannot be read grants nothing, and neither does no Cluster.
func Grants(cluster *provv1.Cluster, key []byte) map[types.NamespacedName]Author {
	if cluster == nil {
		return nil
	}
	text := cluster.Annotations[GrantsAnnotation]
	if text == "" || len(key) != KeySize {
		return nil
	}
	var stored []Grant
	if json.Unmarshal([]byte(text), &stored) != nil {
		return nil
	}
	granted := map[types.NamespacedName]Author{}
	for _, ref := range References(cluster) {
		for _, grant := range stored {
			if grant.Secret == ref.NamespacedName.String() && verify(cluster, grant, key) {
				granted[ref.NamespacedName] = grant.Author
			}
		}
	}
	return granted
}

// NewReferences lists the references of a Cluster that were not in it before; before is nil for a new Cluster. They are what the author of
// the change has to be allowed to get. A reference that stood already is its own author's affair: controllers, and colleagues with fewer
// rights, write the same Cluster.
func NewReferences(before, after *provv1.Cluster) []Reference {
	var stood []Reference
	if before != nil {
		stood = References(before)
	}
	return slices.DeleteFunc(References(after), func(r Reference) bool {
		return slices.ContainsFunc(stood, func(s Reference) bool { return s.NamespacedName == r.NamespacedName })
	})
}

// WriteGrants returns what GrantsAnnotation of a Cluster has to be after a change: the good grants it had before the change for references
// that still stand, and those of the author for the new references. It is empty when there is nothing to remember. What the change itself
// says in the annotation does not count, unless after itself is given as before: so a Cluster that was let go of elsewhere keeps its grants.
func WriteGrants(before, after *provv1.Cluster, author Author, allowed []Reference, key []byte) (string, error) {
	if len(key) != KeySize {
		return "", errors.New("sign grants: there is no key")
	}
	authors := Grants(before, key)
	for _, ref := range allowed {
		if authors == nil {
			authors = map[types.NamespacedName]Author{}
		}
		authors[ref.NamespacedName] = author
	}
	var grants []Grant
	for _, ref := range References(after) {
		who, granted := authors[ref.NamespacedName]
		if !granted {
			continue
		}
		grant := Grant{Secret: ref.NamespacedName.String(), Author: who}
		signature, err := sign(types.NamespacedName{Namespace: after.Namespace, Name: after.Name}, grant, key)
		if err != nil {
			return "", err
		}
		grant.Signature = signature
		grants = append(grants, grant)
	}
	if len(grants) == 0 {
		return "", nil
	}
	text, err := json.Marshal(grants)
	if err != nil {
		return "", fmt.Errorf("encode grants: %w", err)
	}
	return string(text), nil
}

// sign covers who may use what for which cluster. JSON sorts the keys of maps, so equal grants give equal signatures.
func sign(cluster types.NamespacedName, grant Grant, key []byte) (string, error) {
	grant.Signature = ""
	text, err := json.Marshal(struct {
		Namespace, Name string
		Grant           Grant
	}{cluster.Namespace, cluster.Name, grant})
	if err != nil {
		return "", fmt.Errorf("encode grant: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(text) // a hash takes everything
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil)), nil
}

func verify(cluster *provv1.Cluster, grant Grant, key []byte) bool {
	want, err := sign(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}, grant, key)
	return err == nil && hmac.Equal([]byte(want), []byte(grant.Signature))
}
