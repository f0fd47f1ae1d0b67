package bootstrapdata

import (
	"time"
)

// Token is the input for the decision how long a machine may register itself.
type Token struct {
	// LastUse is the time of the token's last use. Zero for a token that was never used.
	LastUse time.Time
	// BadLastUse is true when the time of the last use is unreadable.
	BadLastUse bool
	// Heard is true when the machine's agent has reported. The agent has its own credential then and no longer needs
	// the script.
	Heard bool
	// Joined is true when the machine has become a node. The token has no further use then.
	Joined bool
	Now    time.Time
}

// Expired reports whether the token has expired, and otherwise how long it remains valid. Zero means forever. After the
// first use, and once the agent has reported, the token is valid for the duration reuse, counted from the last use. A
// reuse of zero means no limit. Before that, the token is valid while its machine is on its way, because the duration
// of a cloud's or an installer's work is unknown. A machine gets the script with the token only once, and only the
// first identity that uses the token may ever use it. docs/decisions/0004 explains why the token has no lifetime
// counted from its creation.
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
