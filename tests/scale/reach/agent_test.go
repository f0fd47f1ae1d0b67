package reach

import (
	"sync/atomic"
	"time"

	"github.com/drover-io/drover/tests/contract/plane"
)

// Agent is the memory of the agent's process. It includes the pages of the program, which other processes of the same
// program share.
type Agent struct {
	// MostMiB is the peak during requests, and ResidentMiB the memory afterwards.
	MostMiB     float64 `json:"mostMiB"`
	ResidentMiB float64 `json:"residentMiB"`
	Target      float64 `json:"target"`
	Within      bool    `json:"within"`
}

const (
	agentTarget = 40
	memoryEvery = 50 * time.Millisecond
)

// observed is the peak memory of the agent.
type observed struct {
	most atomic.Int64
	stop chan struct{}
	done chan struct{}
}

// observe samples the agent's memory until the result is read.
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
	return Agent{MostMiB: round(most, 1), ResidentMiB: round(mebibytes(w.agentResident()), 1), Target: agentTarget,
		Within: most < agentTarget}
}
