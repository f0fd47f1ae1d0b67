package snapshots

import (
	"crypto/sha256"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// A cluster can make its list change as often as it likes. It gets so many writes at once, and one more each second.
const writesAtOnce = 150

// view is what is remembered of a cluster from look to look.
type view struct {
	// failures is how often in a row the list could not be read.
	failures int
	// made is what the objects were made from when there was nothing left to do, nil while there is.
	made *made
	// due is when there is something to do again, as files will have been missing for long enough; zero for never.
	due     time.Time
	missing map[string]time.Time
	// taken are names that the list gives and that others' objects have, which is told once.
	taken  []string
	writes flowcontrol.PassiveRateLimiter
}

// made are the versions on both sides.
type made struct{ listed, known [sha256.Size]byte }

func newView() *view {
	return &view{writes: flowcontrol.NewTokenBucketPassiveRateLimiter(1, writesAtOnce)}
}

// forget is for a cluster of which nothing may be changed now: what is missing begins to be anew.
func (v *view) forget() { v.made, v.missing, v.taken = nil, nil, nil }
