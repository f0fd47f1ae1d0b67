package snapshots

import (
	"crypto/sha256"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// A cluster can change its list as often as it likes. It gets a burst of this many writes, and one more each second.
const writesAtOnce = 150

// view is the state of a cluster between polls.
type view struct {
	// failures counts consecutive failed reads of the list.
	failures int
	// made identifies the input of the last poll that left nothing to do. It is nil while work remains.
	made *made
	// due is when missing files will have been missing long enough; zero means never.
	due     time.Time
	missing map[string]time.Time
	// taken lists names from the list that other objects use. Each is logged once.
	taken  []string
	writes flowcontrol.PassiveRateLimiter
}

// made holds hashes of the versions in the cluster and in the caches.
type made struct{ listed, known [sha256.Size]byte }

func newView() *view {
	return &view{writes: flowcontrol.NewTokenBucketPassiveRateLimiter(1, writesAtOnce)}
}

// forget resets the state of a cluster that Drover must not write for. The time for which files are missing starts
// again.
func (v *view) forget() { v.made, v.missing, v.taken = nil, nil, nil }
