package planner

import (
	"strings"
	"time"
)

// behindPoll is how long a cache may stay behind without an event before Drover checks it again.
const behindPoll = 2 * time.Second

// stepFresh stops while a cache does not show Drover's own last write, because the snapshot is then outdated.
func stepFresh(p *pass) verdict {
	if len(p.s.Behind) == 0 {
		return goOn("all caches show our last writes")
	}
	wait := waitFor(ReasonCacheBehind, "Waiting for the cache of "+
		strings.Join(p.s.Behind[:min(len(p.s.Behind), namedMax)], ", "),
		WakeControlPlane, WakeMachine, WakePlanSecret, WakeStateSecret)
	wait.After = behindPoll
	wait.Quiet = true
	return stopFor(wait)
}
