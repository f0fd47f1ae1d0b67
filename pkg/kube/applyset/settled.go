package applyset

import (
	"encoding/json"
	"fmt"
	"hash/maphash"

	"github.com/rancher/wrangler/v3/pkg/apply"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/lru"
)

// settledSets is the number of sets that are remembered, of some hundred bytes each. A forgotten set is compared once
// more.
const settledSets = 50_000

// settled remembers for which desired and cached objects a set needed no change. wrangler compares by decoding,
// patching and encoding each object several times, which is most of the cost of an idle reconcile.
type settled struct {
	seed maphash.Seed
	sets *lru.Cache // fingerprints, by the set's hash
}

func newSettled() *settled {
	return &settled{seed: maphash.MakeSeed(), sets: lru.New(settledSets)}
}

// is reports whether the set is unchanged since it needed nothing.
func (s *settled) is(set string, fingerprint uint64) bool {
	last, ok := s.sets.Get(set)
	return ok && last == fingerprint
}

func (s *settled) note(set string, fingerprint uint64) { s.sets.Add(set, fingerprint) }

func (s *settled) forget(set string) { s.sets.Remove(set) }

// fingerprint is equal for two calls if neither the desired nor the cached objects of the set have changed between
// them, apart from their status.
func (s *settled) fingerprint(id identity, set string, getters []apply.InformerGetter, objs []runtime.Object) (uint64,
	error) {
	var hash maphash.Hash
	hash.SetSeed(s.seed)
	owner, err := meta.Accessor(id.owner)
	if err != nil {
		return 0, fmt.Errorf("owner: %w", err)
	}
	encoder := json.NewEncoder(&hash)
	for _, part := range []any{id.refs, owner.GetUID(), objs} {
		if err := encoder.Encode(part); err != nil {
			return 0, fmt.Errorf("encode objects: %w", err)
		}
	}
	sum := hash.Sum64()
	for _, g := range getters {
		cached, err := g.Informer().GetIndexer().ByIndex(hashIndex, set)
		if err != nil {
			return 0, fmt.Errorf("find objects: %w", err)
		}
		for _, obj := range cached {
			m, err := meta.Accessor(obj)
			if err != nil {
				return 0, fmt.Errorf("find objects: %w", err)
			}
			hash.Reset()
			if err := encoder.Encode([]any{g.GroupVersionKind(), identityOf(m)}); err != nil {
				return 0, fmt.Errorf("encode objects: %w", err)
			}
			sum += hash.Sum64() // an index has no order
		}
	}
	return sum, nil
}

// identityOf changes with every change of an object, apart from its status. Kinds without a status have no generation,
// so their resource version counts.
func identityOf(m metav1.Object) any {
	version := m.GetResourceVersion()
	if m.GetGeneration() > 0 {
		version = ""
	}
	return []any{
		m.GetUID(), m.GetNamespace(), m.GetName(), version, m.GetGeneration(), m.GetLabels(), m.GetAnnotations(),
		m.GetOwnerReferences(),
		m.GetFinalizers(), m.GetDeletionTimestamp(),
	}
}
