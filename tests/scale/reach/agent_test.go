package reach

import (
	"sync/atomic"
	"time"

	"github.com/drover-io/drover/tests/contract/plane"
)

// Agent is the memory of the agent's process. The pages of the program that it shows are in it, although other processes of the same program share them.
type Agent struct {
	// MostMiB is the most that it had while requests went through it, and ResidentMiB what it had afterwards.
	MostMiB     float64 `json:"mostMiB"`
	ResidentMiB float64 `json:"residentMiB"`
	Target      float64 `json:"target"`
	Within      bool    `json:"within"`
}

const (
	agentTarget = 40
	memoryEvery = 50 * time.Millisecond
)

// observed is the most memory that the agent had.
type observed struct {
	most atomic.Int64
	stop chan struct{}
	done chan struct{}
}

// observe looks at the agent's memory until it is asked for.
func (w *world) observe() *observed {
	o := &observed{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(o.done)
		tick := time.NewTicker(memoryEvery)
		defer tick.Stop()
		for {
			select {
			case <-o.stop:
				return
			case <-tick.C:
				o.most.Store(max(o.most.Load(), w.agentResident()))
			}
		}
	}()
	return o
}

func (w *world) agentResident() int64 { return plane.UsageOfProcess(w, w.agent.Process.Pid).Resident }

func (w *world) agentMemory(o *observed) Agent {
	close(o.stop)
	<-o.done
	most := mebibytes(o.most.Load())
	return Agent{MostMiB: round(most, 1), ResidentMiB: round(mebibytes(w.agentResident()), 1), Target: agentTarget, Within: most < agentTarget}
}
