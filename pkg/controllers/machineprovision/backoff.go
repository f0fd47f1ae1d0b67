package machineprovision

import (
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/machinejob"
)

// backoff counts how many machines of each pool could not be made, one after the other. A machine that fails is replaced, and without
// a growing delay a pool whose machines always fail would keep the API server, and a cloud, busy for ever; hundreds of such pools would so even
// with one, and hold up everybody else. It lasts as long as the process does: after a restart the first machine is tried at once. A pool that
// is edited, so that it has another template, is tried at once as well.
type backoff struct {
	mu sync.Mutex
	// failed has the failures of each template of a pool, by the pool.
	failed map[string]map[string]*failures
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

// templateOf names what a machine was made from.
func templateOf(obj *unstructured.Unstructured) string {
	return obj.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation]
}

// failing is how long a pool counts as one that fails, and forgotten when nothing is known of it any more. Nobody says when a pool is gone whose machines
// never came.
const (
	failing   = time.Hour
	forgotten = 24 * time.Hour
)

// neighbours is how many pools of an object's namespace have failed of late, its own among them.
func (b *backoff) neighbours(obj *unstructured.Unstructured, now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := 0
	for pool, templates := range b.failed {
		if !strings.HasPrefix(pool, obj.GetNamespace()+"/") {
			continue
		}
		for _, found := range templates {
			if now.Sub(found.since) < failing {
				count++
				break
			}
		}
	}
	return count
}

// of says how many machines of an object's pool and template failed in a row, and when the last one did.
func (b *backoff) of(obj *unstructured.Unstructured) (count int, last time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.failed[poolOf(obj)][templateOf(obj)]
	if found == nil {
		return 0, time.Time{}
	}
	return len(found.known), found.since
}

// note takes in what became of a machine.
func (b *backoff) note(obj *unstructured.Unstructured, d machinejob.Decision, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pool, template := poolOf(obj), templateOf(obj)
	switch {
	case d.Status.FailureReason == rkev1.ReasonCreateError:
		if b.failed == nil {
			b.failed = map[string]map[string]*failures{}
		}
		b.forget(now)
		if b.failed[pool] == nil {
			b.failed[pool] = map[string]*failures{}
		}
		if b.failed[pool][template] == nil {
			b.failed[pool][template] = &failures{known: map[types.UID]bool{}}
		}
		if found := b.failed[pool][template]; !found.known[obj.GetUID()] {
			found.known[obj.GetUID()], found.since = true, now
		}
	case machinejob.Made(d.Status):
		delete(b.failed, pool)
	}
}

// forget lets go of pools that have not failed for long.
func (b *backoff) forget(now time.Time) {
	maps.DeleteFunc(b.failed, func(_ string, templates map[string]*failures) bool {
		maps.DeleteFunc(templates, func(_ string, found *failures) bool { return now.Sub(found.since) > forgotten })
		return len(templates) == 0
	})
}
