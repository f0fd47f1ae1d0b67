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

// GrantsAnnotation contains the grants of a Cluster. Only admission can write it, because every grant is signed.
const GrantsAnnotation = rkev1.GrantsAnnotation

// Renew is the value of GrantsAnnotation with which a user becomes the author of all references without a valid grant.
const Renew = rkev1.GrantsRenew

// KeySize is the length in bytes of the key that signs grants.
const KeySize = 32

// Author is the author of a reference, as the API server identified the user at that time.
type Author struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// Grant records the author of a permitted reference.
type Grant struct {
	// Secret is NAMESPACE/NAME.
	Secret string `json:"secret"`
	Author Author `json:"author"`
	// Signature covers the two fields above and the cluster's namespace and name.
	Signature string `json:"signature"`
}

// Grants returns the authors of a Cluster's references, by Secret. It includes grants with a valid signature for this
// Cluster whose reference still exists. An unreadable annotation or a nil Cluster grants nothing.
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
	// Each grant is looked at once, because users choose the number of grants and of references.
	references := map[string]types.NamespacedName{}
	for _, ref := range References(cluster) {
		references[ref.NamespacedName.String()] = ref.NamespacedName
	}
	granted := map[types.NamespacedName]Author{}
	for _, grant := range stored {
		if ref, isNamed := references[grant.Secret]; isNamed && verify(cluster, grant, key) {
			granted[ref] = grant.Author
		}
	}
	return granted
}

// NewReferences returns the references that a change adds to a Cluster. before is nil for a new Cluster. The author of
// the change must be permitted to get these Secrets. Existing references remain those of their own authors, because
// controllers and users with fewer rights write the same Cluster.
func NewReferences(before, after *provv1.Cluster) []Reference {
	var stood []Reference
	if before != nil {
		stood = References(before)
	}
	return slices.DeleteFunc(References(after), func(r Reference) bool {
		return slices.ContainsFunc(stood, func(s Reference) bool { return s.NamespacedName == r.NamespacedName })
	})
}

// WriteGrants returns the value of GrantsAnnotation for a Cluster after a change. It contains the valid grants from
// before for references that still exist, and the author's grants for the new references. It is empty when there are
// none. The annotation in the change itself does not count, unless the caller passes after as before too. In that way a
// Cluster that another management cluster released keeps its grants.
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

// sign covers the author, the Secret and the cluster. JSON sorts the keys of maps, so equal grants give equal
// signatures.
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
	_, _ = mac.Write(text) // a hash never fails
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil)), nil
}

func verify(cluster *provv1.Cluster, grant Grant, key []byte) bool {
	want, err := sign(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}, grant, key)
	return err == nil && hmac.Equal([]byte(want), []byte(grant.Signature))
}
