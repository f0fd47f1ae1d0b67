package capi

import (
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/cluster-api/feature"
)

// errPaces is the error of a core whose pace differs from that of another core of the process.
var errPaces = errors.New("another core of this process writes in another way, and Cluster API has one gate " +
	"ReconcilerRateLimiting for all; end that core first")

// pace is Cluster API's process-wide gate ReconcilerRateLimiting. Thrifty cores, which replace what it does, turn it
// off. Plain cores leave it as it is.
var pace gate

type gate struct {
	mu sync.Mutex
	// thrifty and plain are the numbers of cores.
	thrifty, plain int
	// before is the gate before the first thrifty core.
	before bool
}

// enter counts a core, and returns the function to call once when it ends.
func (g *gate) enter(thrifty bool) (func(), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	mine, others := &g.plain, g.thrifty
	if thrifty {
		mine, others = &g.thrifty, g.plain
	}
	if others > 0 {
		return nil, errPaces
	}
	if thrifty && g.thrifty == 0 {
		g.before = feature.Gates.Enabled(feature.ReconcilerRateLimiting)
		if err := set(false); err != nil {
			return nil, err
		}
	}
	*mine++
	return sync.OnceFunc(func() { g.leave(mine) }), nil
}

func (g *gate) leave(mine *int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*mine--
	if mine == &g.thrifty && g.thrifty == 0 && g.before {
		_ = set(true) // it could be set before
	}
}

func set(enabled bool) error {
	err := feature.MutableGates.SetFromMap(map[string]bool{string(feature.ReconcilerRateLimiting): enabled})
	if err != nil {
		return fmt.Errorf("set Cluster API's gate %s: %w", feature.ReconcilerRateLimiting, err)
	}
	return nil
}
