package registration

import (
	"bytes"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// Purpose is what a token may be used for.
type Purpose string

const (
	// Any accepts tokens of all purposes. It grants nothing more than the proof that the caller knows the token.
	Any Purpose = ""
	// ForAgent is the registration of the agent inside a cluster.
	ForAgent Purpose = mgmtv3.TokenPurposeAgent
	// ForNode is the registration of a host as a node.
	ForNode Purpose = mgmtv3.TokenPurposeNode
)

// Serves reports whether a ClusterRegistrationToken, or its Secret, with these labels is for a purpose. Without the
// label, as other managers create it, it is for all purposes. With an unknown value it is for none.
func Serves(labels map[string]string, purpose Purpose) bool {
	value, says := labels[mgmtv3.TokenPurposeLabel]
	return !says || purpose == Any || value == string(purpose)
}

// Keys of the Secret with a token. Other programs read them. (docs/wire/secrets.md#registration-tokens.)
const (
	KeyToken         = "token"
	KeyPreviousToken = "previousToken"
	KeyExpiresAt     = "expiresAt"
	KeyGraceEndsAt   = "gracePeriodExpiresAt"
)

// FollowedAnnotation on such a Secret is the digest of the token with which one of Drover's agents has connected. The
// previous token stays valid until the digest is that of the present token.
const FollowedAnnotation = "drover.io/token-followed"

// Followed returns a token's Secret with a note that the agents with the previous token now have this one. It returns
// nil when there is nothing to note.
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
	return naming.SHA256(token)[:16]
}

// IsSecretName reports whether a Secret of that name contains a registration token, and returns the name of its
// ClusterRegistrationToken.
func IsSecretName(name string) (registration string, ok bool) {
	registration, ok = strings.CutPrefix(name, mgmtv3.RegistrationTokenSecretPrefix)
	return registration, ok && registration != ""
}

// Content is the content of such a Secret. It prints as a mask.
type Content struct {
	// Token is valid now, and Previous until GraceEndsAt. Either may be empty.
	Token, Previous string
	// ExpiresAt is when Token is replaced. Zero means never.
	ExpiresAt time.Time
	// GraceEndsAt is when Previous expires. Zero means that the time is unknown, and that Previous is invalid.
	GraceEndsAt time.Time
}

// String hides the tokens.
func (c Content) String() string { return "Content{…}" }

// GoString hides the tokens.
func (c Content) GoString() string { return c.String() }

// Read returns the content of a Secret, which is empty for nil. An unreadable time counts as absent.
func Read(secret *corev1.Secret) Content {
	if secret == nil {
		return Content{}
	}
	return Content{
		Token: string(secret.Data[KeyToken]), Previous: string(secret.Data[KeyPreviousToken]),
		ExpiresAt: readTime(secret.Data[KeyExpiresAt]), GraceEndsAt: readTime(secret.Data[KeyGraceEndsAt]),
	}
}

// Accepted returns the tokens that are valid at a time. The present token stays valid after its expiry until it is
// replaced, so that agents and hosts are not locked out while no controller runs.
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

// write writes the content and the commands into data, and keeps other keys.
func (c Content) write(data map[string][]byte, commands map[string]string) map[string][]byte {
	if data == nil {
		data = map[string][]byte{}
	}
	values := map[string]string{
		KeyToken: c.Token, KeyPreviousToken: c.Previous, KeyExpiresAt: formatTime(c.ExpiresAt),
		KeyGraceEndsAt: formatTime(c.GraceEndsAt),
	}
	maps.Copy(values, commands)
	for key, value := range values {
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
