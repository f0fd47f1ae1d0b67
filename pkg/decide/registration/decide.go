package registration

import (
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

// Lifetimes where nobody says anything else, and the shortest that can be asked for.
// (docs/wire/secrets.md#registration-tokens.)
const (
	DefaultTTL         = 30 * 24 * time.Hour
	DefaultGracePeriod = 3 * time.Hour
	minTTL             = 30 * time.Minute
	minGracePeriod     = 10 * time.Minute
	maxJitter          = 24 * time.Hour
	// held is for how much longer a token is good at a time whose agents have not followed.
	held = 24 * time.Hour
	// longest keeps minutes that a user asks for within what a Duration holds.
	longest = 100 * 365 * 24 * time.Hour
)

// minStored is the shortest token that is taken over from the status of a ClusterRegistrationToken.
const minStored = 32

// Settings are what an installation decides for all tokens.
type Settings struct {
	// ServerURL is the https URL of the server, without a path.
	ServerURL string
	// CAChecksum is by what hosts recognise the server's authorities; empty when they know them anyway.
	// (docs/wire/endpoints.md#authorities.)
	CAChecksum string
	// TTL is after how long a token is replaced that does not say so itself: 0 is DefaultTTL, less is never.
	TTL time.Duration
	// GracePeriod is for how long the token before is good; 0 or less is DefaultGracePeriod.
	GracePeriod time.Duration
	// AgentsFollow says that somebody brings new tokens to the agents that have old ones, and notes that with Followed. Until then the token before is good,
	// however long an agent is away. Without it tokens for agents are replaced only where spec.ttl asks for that: an agent that nobody tells would be locked
	// out at the end of the grace period.
	AgentsFollow bool
}

// Facts are what a decision is made from.
type Facts struct {
	// Registration is the ClusterRegistrationToken.
	Registration *mgmtv3.ClusterRegistrationToken
	// Secret holds its token; nil when there is none.
	Secret *corev1.Secret
	// Brought is the token that the agent of the cluster has from another management cluster; empty when it has none.
	Brought string
	// Environment is that of the cluster's agents, which install commands set.
	Environment []corev1.EnvVar
	// Fresh is a random text that becomes the token, should one be needed. It must be another one every time.
	Fresh    string
	Settings Settings
	Now      time.Time
}

// Event is what happens to a token.
type Event string

const (
	// Made is told when there was no token.
	Made Event = "made"
	// Replaced is told when the time of the token was over.
	Replaced Event = "replaced"
)

// Decision is what follows from Facts.
type Decision struct {
	// Secret is the Secret as it has to be written; nil when it is right as it is.
	Secret *corev1.Secret
	// Event is what happens to the token with that write; empty when it stays.
	Event Event
	// Status of the ClusterRegistrationToken once the Secret is written.
	Status mgmtv3.ClusterRegistrationTokenStatus
	// Next is when the decision will be another one; zero when that takes an event.
	Next time.Time
}

// Decide makes tokens, replaces them when their time is over, and ends the grace period of those before.
func Decide(f Facts) Decision {
	content, event := f.content()
	d := Decision{Event: event, Status: f.status(content), Next: content.next()}
	wanted := f.secret(content)
	if f.Secret == nil || !equality.Semantic.DeepEqual(f.Secret, wanted) {
		d.Secret = wanted
	}
	return d
}

// content is what the Secret has to hold now.
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
	case !c.ExpiresAt.After(f.Now) && f.awaited(c): // two tokens are good, and agents may have the first of them
		c.ExpiresAt = f.in(held)
	case !c.ExpiresAt.After(f.Now):
		c, event = Content{Token: f.Fresh, Previous: c.Token, ExpiresAt: f.in(ttl), GraceEndsAt: f.in(grace)}, Replaced
	case c.ExpiresAt.After(f.in(ttl + maxJitter)): // it was made to last longer than it now may
		c.ExpiresAt = f.in(ttl + jitter(f.Registration.UID, ttl))
	}
	return f.former(c), event
}

// former ends the time of the token before, unless agents may have no other one.
func (f Facts) former(c Content) Content {
	if !c.GraceEndsAt.IsZero() && !c.GraceEndsAt.After(f.Now) && f.awaited(c) {
		c.GraceEndsAt = f.in(held)
	}
	if c.Previous == "" || !c.GraceEndsAt.After(f.Now) {
		c.Previous, c.GraceEndsAt = "", time.Time{}
	}
	return c
}

// awaited reports whether agents may have the token before only. Where spec.ttl says how long tokens are good, it is its word.
func (f Facts) awaited(c Content) bool {
	return f.Settings.AgentsFollow && f.Registration.Spec.TTL == nil && Serves(f.Registration.Labels, ForAgent) && c.Previous != "" && f.Secret != nil &&
		f.Secret.Annotations[FollowedAnnotation] != digest(c.Token)
}

// first is a token for a registration that has none: the one that earlier releases of others kept in the status, because agents have it, and for a
// registration that never had any the one that the cluster's agent was given elsewhere. Who deletes a Secret takes its token back.
func (f Facts) first() string {
	if stored := f.Registration.Status.Token; f.Secret == nil && len(stored) >= minStored {
		return stored
	}
	if f.Secret == nil && len(f.Brought) >= minStored && equality.Semantic.DeepEqual(f.Registration.Status, mgmtv3.ClusterRegistrationTokenStatus{}) {
		return f.Brought
	}
	return f.Fresh
}

// firstExpiry is for a token that was good for ever. It spreads those that an installation has when it begins to replace them.
func (f Facts) firstExpiry(ttl time.Duration) time.Time {
	spread := jitter(f.Registration.UID, ttl)
	if at := f.Registration.CreationTimestamp.Add(ttl + spread); at.After(f.Now) {
		return seconds(at)
	}
	return f.in(spread)
}

func (f Facts) in(d time.Duration) time.Time { return seconds(f.Now.Add(d)) }

// seconds is what a time is once it was stored.
func seconds(at time.Time) time.Time { return at.UTC().Truncate(time.Second) }

// lifetimes are how long the token is good, 0 for ever, and for how long the one before.
func (f Facts) lifetimes() (ttl, grace time.Duration) {
	spec := f.Registration.Spec
	switch {
	case spec.TTL != nil:
		ttl = minutes(*spec.TTL)
	case f.Settings.AgentsFollow || !Serves(f.Registration.Labels, ForAgent):
		ttl = orDefault(f.Settings.TTL, DefaultTTL)
	}
	if ttl <= 0 {
		return 0, 0
	}
	ttl = max(ttl, minTTL)
	grace = orDefault(max(f.Settings.GracePeriod, 0), DefaultGracePeriod)
	if spec.GracePeriod != nil {
		grace = minutes(*spec.GracePeriod)
	}
	if grace >= ttl {
		grace = ttl / 5 * 4
	}
	return ttl, max(grace, minGracePeriod)
}

func orDefault(value, otherwise time.Duration) time.Duration {
	if value == 0 {
		return otherwise
	}
	return value
}

func minutes(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(longest/time.Minute))) * time.Minute
}

// jitter is less than a tenth of a lifetime, and than a day. It follows from the UID, so that a replica that takes over decides alike.
func jitter(uid types.UID, ttl time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(uid))
	limit := min(ttl/10, maxJitter)
	return time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(limit))
}

// next is the earlier one of the times in a content.
func (c Content) next() time.Time {
	if c.ExpiresAt.IsZero() || !c.GraceEndsAt.IsZero() && c.GraceEndsAt.Before(c.ExpiresAt) {
		return c.GraceEndsAt
	}
	return c.ExpiresAt
}

var kind = schema.GroupVersion{Group: "management.cattle.io", Version: "v3"}.WithKind("ClusterRegistrationToken")

// secret is the Secret with a content. What others put there stays.
func (f Facts) secret(c Content) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Registration.Namespace, Name: naming.RegistrationTokenSecret(f.Registration.Name)},
		Type:       corev1.SecretTypeOpaque,
	}
	if f.Secret != nil {
		secret = f.Secret.DeepCopy()
	}
	if purpose, says := f.Registration.Labels[mgmtv3.TokenPurposeLabel]; says {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, mgmtv3.TokenPurposeLabel, purpose)
	} else {
		delete(secret.Labels, mgmtv3.TokenPurposeLabel)
	}
	secret.OwnerReferences = f.owners(secret.OwnerReferences)
	secret.Data = c.write(secret.Data)
	return secret
}

// owners has the registration as the only one of its kind: a Secret that came here with its registration names the former one, and would be
// taken for an orphan.
func (f Facts) owners(references []metav1.OwnerReference) []metav1.OwnerReference {
	yes := true
	want := metav1.OwnerReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: f.Registration.Name, UID: f.Registration.UID, Controller: &yes,
	}
	others := slices.DeleteFunc(slices.Clone(references), func(r metav1.OwnerReference) bool {
		return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind() == kind.GroupKind()
	})
	if slices.ContainsFunc(references, func(r metav1.OwnerReference) bool { return r.UID == want.UID }) && len(others) == len(references)-1 {
		return references
	}
	for i := range others {
		others[i].Controller = nil // there can be one only
	}
	return append(others, want)
}
