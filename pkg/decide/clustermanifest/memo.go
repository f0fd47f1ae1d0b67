package clustermanifest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// memoMax is the number of clusters that a Memo remembers. A cluster is in it only until its agent connects.
const memoMax = 10_000

// Memo remembers which stored manifests are current, so that Install does not render them again in every pass. It
// changes no result. It holds digests only. The zero value is empty, and it is safe for concurrent use.
type Memo struct {
	mu      sync.Mutex
	current map[types.UID]digest // by the UID of the Cluster
}

type digest [sha256.Size]byte

// Install is Install with the memory of earlier calls.
func (m *Memo) Install(source Source, f Facts) (*corev1.Secret, error) {
	if !f.wanted() || f.Stored == nil {
		m.forget(f.Cluster.UID)
		return Install(source, f)
	}
	inputs, err := digestOf(input(source, f), f.Stored)
	if err != nil {
		return nil, err
	}
	if m.is(f.Cluster.UID, inputs) {
		return nil, nil
	}
	secret, err := Install(source, f)
	if err == nil && secret == nil {
		m.note(f.Cluster.UID, inputs)
	}
	return secret, err
}

// digestOf is equal for equal inputs and the same version of the stored Secret.
func digestOf(in Input, stored *corev1.Secret) (digest, error) {
	text, err := json.Marshal([]any{in, stored.UID, stored.ResourceVersion})
	if err != nil {
		return digest{}, fmt.Errorf("compare the input of the manifest: %w", err)
	}
	return sha256.Sum256(text), nil
}

func (m *Memo) is(cluster types.UID, inputs digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.current[cluster]
	return ok && known == inputs
}

func (m *Memo) note(cluster types.UID, inputs digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil || len(m.current) >= memoMax {
		m.current = map[types.UID]digest{}
	}
	m.current[cluster] = inputs
}

func (m *Memo) forget(cluster types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.current, cluster)
}
