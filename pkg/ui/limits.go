package ui

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

// Limits of one caller, and of all callers together.
const (
	requestsPerSecond, requestsBurst = 10, 60
	// Heavy requests read many objects, and compute plans.
	heavyPerSecond, heavyBurst = 1, 5
	heavyAtOnce                = 2
	heavyOfAll                 = 16
	// Requests that are passed on hold their whole answer until the browser has accepted it.
	passedAtOnce = 4
	passedOfAll  = 16
	// Sign-ins are limited for each address, because their users are not known yet.
	signInsPerSecond = 5
	signInsBurst     = 50
	// knownAddresses limits the addresses with limits of their own.
	knownAddresses = 4096
	// idleCaller is how long the limits of a caller are kept after its last request. All buckets are full then.
	idleCaller = time.Minute
)

// limits bounds what callers do.
type limits struct {
	mu      sync.Mutex
	now     func() time.Time
	callers map[string]*callerLimits
	swept   time.Time
	signIns *cache.LRUExpireCache // a *rate.Limiter for each address
	heavy   int
	passed  int
}

type callerLimits struct {
	requests, heavy *rate.Limiter
	atOnce, passed  int
	used            time.Time
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, callers: map[string]*callerLimits{},
		signIns: cache.NewLRUExpireCache(knownAddresses)}
}

// of returns the limits of a user. The lock is held.
func (l *limits) of(user string, now time.Time) *callerLimits {
	if now.Sub(l.swept) > idleCaller {
		l.swept = now
		for name, each := range l.callers {
			if each.atOnce == 0 && each.passed == 0 && now.Sub(each.used) > idleCaller {
				delete(l.callers, name)
			}
		}
	}
	found := l.callers[user]
	if found == nil {
		found = &callerLimits{requests: rate.NewLimiter(requestsPerSecond, requestsBurst),
			heavy: rate.NewLimiter(heavyPerSecond, heavyBurst)}
		l.callers[user] = found
	}
	found.used = now
	return found
}

// enter admits a request of a user. done ends a heavy one.
func (l *limits) enter(user string, isHeavy bool) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	own := l.of(user, now)
	if !own.requests.AllowN(now, 1) {
		return nil, tooMany("you send too many requests; wait a second", time.Second)
	}
	if !isHeavy {
		return func() {}, nil
	}
	switch {
	case own.atOnce >= heavyAtOnce:
		return nil, tooMany("two of your requests of this kind still run; wait for them", 2*time.Second)
	case l.heavy >= heavyOfAll:
		return nil, tooMany("too many requests of this kind of all users run; try again", 2*time.Second)
	case !own.heavy.AllowN(now, 1):
		return nil, tooMany("you send too many requests of this kind; wait a second", time.Second)
	}
	own.atOnce++
	l.heavy++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		own.atOnce--
		l.heavy--
	}, nil
}

// pass admits a request of a user that is passed on. done ends it.
func (l *limits) pass(user string) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.of(user, l.now())
	switch {
	case own.passed >= passedAtOnce:
		return nil, tooMany("four of your requests of this kind still run; wait for them", time.Second)
	case l.passed >= passedOfAll:
		return nil, tooMany("too many requests of this kind of all users run; try again", time.Second)
	}
	own.passed++
	l.passed++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		own.passed--
		l.passed--
	}, nil
}

// signIn admits a sign-in from the address of a connection.
func (l *limits) signIn(remote string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := networkOf(remote)
	own := rate.NewLimiter(signInsPerSecond, signInsBurst)
	if found, ok := l.signIns.Get(from); ok {
		own = found.(*rate.Limiter)
	}
	l.signIns.Add(from, own, idleCaller)
	if !own.AllowN(l.now(), 1) {
		return tooMany("too many users of your network sign in at the same time; try again", 5*time.Second)
	}
	return nil
}

// networkOf returns what one user can have at once: an address of IPv4, or a /64 of IPv6. It is invalid for an address
// that is no IP address.
func networkOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address, bits := at.Addr().Unmap().WithZone(""), 64
	if address.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(address, bits).Masked()
}
