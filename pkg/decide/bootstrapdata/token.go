package bootstrapdata

import (
	"time"
)

// Token is what decides how long a machine may introduce itself.
type Token struct {
	// LastUse is when the token was used last. Zero for one that never was.
	LastUse time.Time
	// BadLastUse is true when the time of the last use cannot be read.
	BadLastUse bool
	// Heard is true when the machine's agent has reported: it has got its own credential, and needs the script no more.
	Heard bool
	// Joined is true when the machine has become a node: nobody else has any business with the token.
	Joined bool
	Now    time.Time
}

// Expired reports whether the token is no longer good, and otherwise how long it still is. Zero is for ever. A token that was
// used, and whose agent was heard of, is good for the time of reuse from then; zero means no bound. Until then it is good for as
// long as its machine is on its way: nobody knows how long a cloud or an installation takes, the script that has the token is not
// given to a machine twice, and the first identity that uses it is the only one that ever may. docs/decisions/0004 says why
// the token has no window from its creation.
func (t Token) Expired(reuse time.Duration) (expired bool, left time.Duration) {
	if t.Joined || t.BadLastUse {
		return true, 0
	}
	if reuse <= 0 || t.LastUse.IsZero() || !t.Heard {
		return false, 0
	}
	left = t.LastUse.Add(reuse).Sub(t.Now)
	if left <= 0 {
		return true, 0
	}
	return false, left
}
