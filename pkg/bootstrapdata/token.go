package bootstrapdata

import (
	"time"
)

// Token is what decides how long a machine may introduce itself.
type Token struct {
	// Created is when the token was made, LastUse when it was used last. The latter is zero for one that never was.
	Created, LastUse time.Time
	// BadLastUse is true when the time of the last use cannot be read.
	BadLastUse bool
	// Joined is true when the machine has become a node: nobody else has any business with the token.
	Joined bool
	Now    time.Time
}

// Lifetimes bound a token: Unused counts from its creation, Reused from its last use. Zero means no bound.
type Lifetimes struct {
	Unused, Reused time.Duration
}

// Expired reports whether the token is no longer good, and otherwise how long it still is. Zero is for ever.
func (t Token) Expired(l Lifetimes) (expired bool, left time.Duration) {
	if t.Joined || t.BadLastUse {
		return true, 0
	}
	var ends []time.Time
	if l.Unused > 0 {
		ends = append(ends, t.Created.Add(l.Unused))
	}
	if l.Reused > 0 && !t.LastUse.IsZero() {
		ends = append(ends, t.LastUse.Add(l.Reused))
	}
	for _, end := range ends {
		remaining := end.Sub(t.Now)
		if remaining <= 0 {
			return true, 0
		}
		if left == 0 || remaining < left {
			left = remaining
		}
	}
	return false, left
}
