package registration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// Purpose is whom a token lets in.
type Purpose string

const (
	// Any asks for no purpose: whoever only proves that he knows the token gets nothing by it.
	Any Purpose = ""
	// ForAgent is the agent inside a cluster.
	ForAgent Purpose = mgmtv3.TokenPurposeAgent
	// ForNode is a host that becomes a node.
	ForNode Purpose = mgmtv3.TokenPurposeNode
)

// Serves reports whether a ClusterRegistrationToken, or the Secret of one, with these labels is for a purpose. One that says nothing is for
// all, as other managers make them; one that says something else is for none.
func Serves(labels map[string]string, purpose Purpose) bool {
	value, says := labels[mgmtv3.TokenPurposeLabel]
	return !says || purpose == Any || value == string(purpose)
}

// Keys of the Secret that holds a token. Other programs read them. (docs/wire/secrets.md#registration-tokens.)
const (
	KeyToken         = "token"
	KeyPreviousToken = "previousToken"
	KeyExpiresAt     = "expiresAt"
	KeyGraceEndsAt   = "gracePeriodExpiresAt"
)

// FollowedAnnotation on such a Secret has the digest of the token with which an agent of Drover's has connected. Until it is that of the present token, the
// one before stays good.
const FollowedAnnotation = "drover.io/token-followed"

// Followed is the Secret of a token with the note that the agents that had the former one now have this one; nil when there is nothing to note.
func Followed(secret *corev1.Secret, token string) *corev1.Secret {
	c := Read(secret)
	if c.Token != token || c.Previous == "" || secret.Annotations[FollowedAnnotation] == digest(token) {
		return nil
	}
	noted := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&noted.ObjectMeta, FollowedAnnotation, digest(token))
	return noted
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])[:16]
}

// IsSecretName reports whether a Secret of that name holds a registration token, and returns the name of its ClusterRegistrationToken.
func IsSecretName(name string) (registration string, ok bool) {
	registration, ok = strings.CutPrefix(name, mgmtv3.RegistrationTokenSecretPrefix)
	return registration, ok && registration != ""
}

// Content is what such a Secret holds. It prints as a mask.
type Content struct {
	// Token is good now, Previous until GraceEndsAt. Either may be empty.
	Token, Previous string
	// ExpiresAt is when Token is replaced; zero when it is not.
	ExpiresAt time.Time
	// GraceEndsAt is until when Previous is good; zero when there is no telling, and then it is not.
	GraceEndsAt time.Time
}

// String hides the tokens.
func (c Content) String() string { return "Content{…}" }

// GoString hides the tokens.
func (c Content) GoString() string { return c.String() }

// Read takes the content out of a Secret; nil holds nothing. A time that cannot be read counts as absent.
func Read(secret *corev1.Secret) Content {
	if secret == nil {
		return Content{}
	}
	return Content{
		Token: string(secret.Data[KeyToken]), Previous: string(secret.Data[KeyPreviousToken]),
		ExpiresAt: readTime(secret.Data[KeyExpiresAt]), GraceEndsAt: readTime(secret.Data[KeyGraceEndsAt]),
	}
}

// Accepted lists the tokens that are good at a moment. The time of the present one may be over: it is good until it is replaced, so that
// nobody is locked out while no controller runs.
func (c Content) Accepted(now time.Time) []string {
	var accepted []string
	if c.Token != "" {
		accepted = append(accepted, c.Token)
	}
	if c.Previous != "" && c.GraceEndsAt.After(now) {
		accepted = append(accepted, c.Previous)
	}
	return accepted
}

// write puts the content into data and leaves other keys alone.
func (c Content) write(data map[string][]byte) map[string][]byte {
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range map[string]string{
		KeyToken: c.Token, KeyPreviousToken: c.Previous, KeyExpiresAt: formatTime(c.ExpiresAt), KeyGraceEndsAt: formatTime(c.GraceEndsAt),
	} {
		if value == "" {
			delete(data, key)
		} else {
			data[key] = []byte(value)
		}
	}
	return data
}

func readTime(text []byte) time.Time {
	read, err := time.Parse(time.RFC3339, string(bytes.TrimSpace(text)))
	if err != nil {
		return time.Time{}
	}
	return read.UTC()
}

// formatTime is RFC 3339 in UTC, "" for no time.
func formatTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
