package registration

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// The default lifetimes and their minimums. (docs/wire/secrets.md#registration-tokens.)
const (
	DefaultTTL         = 30 * 24 * time.Hour
	DefaultGracePeriod = 3 * time.Hour
	minTTL             = 30 * time.Minute
	minGracePeriod     = 10 * time.Minute
	maxJitter          = 24 * time.Hour
	// held is the step by which a token's time is extended while its agents have not followed.
	held = 24 * time.Hour
	// longest keeps the minutes that a user asks for within the range of a Duration.
	longest = 100 * 365 * 24 * time.Hour
)

// minStored is the shortest token that is adopted from the status of a ClusterRegistrationToken.
const minStored = 32

// Settings are the installation's settings for all tokens.
type Settings struct {
	// ServerURL is the https URL of the server, without a path.
	ServerURL string
	// CAChecksum is the checksum by which hosts recognize the server's authorities. Empty when the system trusts them.
	// (docs/wire/endpoints.md#authorities.)
	CAChecksum string
	// TTL is the lifetime of tokens that do not set their own. 0 is DefaultTTL, and a negative value means forever.
	TTL time.Duration
	// GracePeriod is how long the previous token stays valid. 0 or less is DefaultGracePeriod.
	GracePeriod time.Duration
	// InstallScriptSHA256 is the SHA-256 of the install script as the server sends it to hosts, in hexadecimal digits.
	// Empty means unknown; then there is no insecure command for hosts.
	InstallScriptSHA256 string
	// Commands is CommandsInStatus if the status has complete commands, too; otherwise it is CommandsInSecret or empty.
	Commands string
	// AgentsFollow is true when the caller distributes new tokens to agents with old ones, and notes that with
	// Followed. Until then the previous token stays valid, however long an agent is away. If it is false, tokens for
	// agents are replaced only where spec.ttl asks for it. Otherwise an agent without the new token would be locked out
	// at the end of the grace period.
	AgentsFollow bool
}

// Facts are the input of a decision.
type Facts struct {
	// Registration is the ClusterRegistrationToken.
	Registration *mgmtv3.ClusterRegistrationToken
	// Secret contains its token; nil when there is none.
	Secret *corev1.Secret
	// Brought is the token that the cluster's agent has from another management cluster; empty when it has none.
	Brought string
	// Environment is the environment of the cluster's agents. Install commands set it.
	Environment []corev1.EnvVar
	// Fresh is a random text that becomes the token if a new one is needed. It must differ at every call.
	Fresh    string
	Settings Settings
	Now      time.Time
}

// Event is a change of a token.
type Event string

const (
	// Made means that a token was created, because there was none.
	Made Event = "made"
	// Replaced means that an expired token was replaced.
	Replaced Event = "replaced"
)

// Decision is the result for Facts.
type Decision struct {
	// Secret is the Secret to write; nil when it is already correct.
	Secret *corev1.Secret
	// Event is what the write changes about the token; empty when the token stays.
	Event Event
	// Status is the status of the ClusterRegistrationToken after the write.
	Status mgmtv3.ClusterRegistrationTokenStatus
	// Next is when the decision will change; zero when only an event changes it.
	Next time.Time
}

// Decide creates tokens, replaces expired ones, and ends the grace period of previous ones.
func Decide(f Facts) Decision {
	content, event := f.content()
	d := Decision{Event: event, Status: f.status(content), Next: content.next()}
	wanted := f.secret(content)
	if f.Secret == nil || !equality.Semantic.DeepEqual(f.Secret, wanted) {
		d.Secret = wanted
	}
	return d
}

// content is what the Secret must contain now.
func (f Facts) content() (Content, Event) {
	c, event := Read(f.Secret), Event("")
	if c.Token == "" {
		c.Token, c.ExpiresAt, event = f.first(), time.Time{}, Made
	}
	ttl, grace := f.lifetimes()
	switch {
	case ttl == 0:
		c.ExpiresAt = time.Time{}
	case event == Made:
		c.ExpiresAt = f.in(ttl + jitter(f.Registration.UID, ttl))
	case c.ExpiresAt.IsZero():
		c.ExpiresAt = f.firstExpiry(ttl)
	case !c.ExpiresAt.After(f.Now) && f.awaited(c): // two tokens are valid, and agents may have the older one
		c.ExpiresAt = f.in(held)
	case !c.ExpiresAt.After(f.Now):
		c, event = Content{Token: f.Fresh, Previous: c.Token, ExpiresAt: f.in(ttl), GraceEndsAt: f.in(grace)}, Replaced
	case c.ExpiresAt.After(f.in(ttl + maxJitter)): // it was created with a longer lifetime than it may have now
		c.ExpiresAt = f.in(ttl + jitter(f.Registration.UID, ttl))
	}
	return f.former(c), event
}

// former ends the time of the previous token, unless agents may have no other.
func (f Facts) former(c Content) Content {
	if !c.GraceEndsAt.IsZero() && !c.GraceEndsAt.After(f.Now) && f.awaited(c) {
		c.GraceEndsAt = f.in(held)
	}
	if c.Previous == "" || !c.GraceEndsAt.After(f.Now) {
		c.Previous, c.GraceEndsAt = "", time.Time{}
	}
	return c
}

// awaited reports whether agents may have only the previous token. Where spec.ttl sets the lifetime of tokens, it
// decides.
func (f Facts) awaited(c Content) bool {
	return f.Settings.AgentsFollow && f.Registration.Spec.TTL == nil && Serves(Purposes(f.Registration), ForAgent) &&
		c.Previous != "" && f.Secret != nil &&
		f.Secret.Annotations[FollowedAnnotation] != digest(c.Token)
}

// first returns a token for a registration without one. It adopts the token that earlier releases of other managers
// stored in the status, because agents have it. For a registration that never had a token, it adopts the one that the
// cluster's agent has from another management cluster. A deleted Secret revokes its token, so the new token is a fresh
// one.
func (f Facts) first() string {
	if stored := f.Registration.Status.Token; f.Secret == nil && len(stored) >= minStored {
		return stored
	}
	if f.Secret == nil && len(f.Brought) >= minStored && equality.Semantic.DeepEqual(f.Registration.Status,
		mgmtv3.ClusterRegistrationTokenStatus{}) {
		return f.Brought
	}
	return f.Fresh
}

// firstExpiry is the expiry of a token that had none. It spreads the expiries of an installation that begins to replace
// tokens.
func (f Facts) firstExpiry(ttl time.Duration) time.Time {
	spread := jitter(f.Registration.UID, ttl)
	if at := f.Registration.CreationTimestamp.Add(ttl + spread); at.After(f.Now) {
		return seconds(at)
	}
	return f.in(spread)
}

func (f Facts) in(d time.Duration) time.Time { return seconds(f.Now.Add(d)) }

// seconds rounds a time to what is stored.
func seconds(at time.Time) time.Time { return at.UTC().Truncate(time.Second) }

// lifetimes returns how long the token is valid, 0 for forever, and how long the previous one is.
func (f Facts) lifetimes() (ttl, grace time.Duration) {
	spec := f.Registration.Spec
	switch {
	case spec.TTL != nil:
		ttl = minutes(*spec.TTL)
	case f.Settings.AgentsFollow || !Serves(Purposes(f.Registration), ForAgent):
		ttl = cmp.Or(f.Settings.TTL, DefaultTTL)
	}
	if ttl <= 0 {
		return 0, 0
	}
	ttl = max(ttl, minTTL)
	grace = cmp.Or(max(f.Settings.GracePeriod, 0), DefaultGracePeriod)
	if spec.GracePeriod != nil {
		grace = minutes(*spec.GracePeriod)
	}
	if grace >= ttl {
		grace = ttl / 5 * 4
	}
	return ttl, max(grace, minGracePeriod)
}

func minutes(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(longest/time.Minute))) * time.Minute
}

// jitter is less than a tenth of a lifetime and less than a day. It follows from the UID, so that another replica
// decides the same.
func jitter(uid types.UID, ttl time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(uid))
	limit := min(ttl/10, maxJitter)
	return time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(limit))
}

// next returns the earlier time of a content.
func (c Content) next() time.Time {
	if c.ExpiresAt.IsZero() || !c.GraceEndsAt.IsZero() && c.GraceEndsAt.Before(c.ExpiresAt) {
		return c.GraceEndsAt
	}
	return c.ExpiresAt
}

var kind = schema.GroupVersion{Group: "management.cattle.io", Version: "v3"}.WithKind("ClusterRegistrationToken")

// secret is the Secret with a content and the complete commands. It keeps the data of other programs.
func (f Facts) secret(c Content) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Registration.Namespace,
			Name: naming.RegistrationTokenSecret(f.Registration.Name)},
		Type: corev1.SecretTypeOpaque,
	}
	if f.Secret != nil {
		secret = f.Secret.DeepCopy()
	}
	if purpose, says := Purposes(f.Registration)[mgmtv3.TokenPurposeLabel]; says {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, mgmtv3.TokenPurposeLabel, purpose)
	} else {
		delete(secret.Labels, mgmtv3.TokenPurposeLabel)
	}
	secret.OwnerReferences = f.owners(secret.OwnerReferences)
	secret.Data = c.write(secret.Data, f.commands(c.Token))
	return secret
}

// owners makes the registration the only owner of its kind. A Secret that was moved with its registration refers to the
// former one, and would be deleted as an orphan.
func (f Facts) owners(references []metav1.OwnerReference) []metav1.OwnerReference {
	yes := true
	want := metav1.OwnerReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: f.Registration.Name, UID: f.Registration.UID,
		Controller: &yes,
	}
	others := slices.DeleteFunc(slices.Clone(references), func(r metav1.OwnerReference) bool {
		return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind() == kind.GroupKind()
	})
	if slices.ContainsFunc(references, func(r metav1.OwnerReference) bool {
		return r.UID == want.UID
	}) && len(others) == len(references)-1 {
		return references
	}
	for i := range others {
		others[i].Controller = nil // there can be only one
	}
	return append(others, want)
}
