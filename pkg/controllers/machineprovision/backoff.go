package machineprovision

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/machinejob"
)

// backoff counts how many machines of each pool could not be made, one after the other. A machine that fails is replaced, and without
// a growing delay a pool whose machines always fail would keep the API server, and a cloud, busy for ever. It lasts as long as the
// process does: after a restart the first machine is tried at once.
type backoff struct {
	mu     sync.Mutex
	failed map[string]*failures
}

type failures struct {
	// since is when the last one failed, known are those that are counted.
	since time.Time
	known map[types.UID]bool
}

// poolOf names what a machine is one of.
func poolOf(obj *unstructured.Unstructured) string {
	labels := obj.GetLabels()
	pool := labels[clusterv1.MachineDeploymentNameLabel]
	if pool == "" {
		pool = labels[clusterv1.ClusterNameLabel]
	}
	return obj.GetNamespace() + "/" + pool
}

// of says how many machines of a pool failed in a row, and when the last one did.
func (b *backoff) of(pool string) (count int, last time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.failed[pool]
	if found == nil {
		return 0, time.Time{}
	}
	return len(found.known), found.since
}

// note takes in what became of a machine.
func (b *backoff) note(obj *unstructured.Unstructured, d machinejob.Decision, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pool := poolOf(obj)
	switch {
	case d.Status.FailureReason == rkev1.ReasonCreateError:
		if b.failed == nil {
			b.failed = map[string]*failures{}
		}
		if b.failed[pool] == nil {
			b.failed[pool] = &failures{known: map[types.UID]bool{}}
		}
		if !b.failed[pool].known[obj.GetUID()] {
			b.failed[pool].known[obj.GetUID()], b.failed[pool].since = true, now
		}
	case machinejob.Made(d.Status):
		delete(b.failed, pool)
	}
}
