package reach

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/drover-io/drover/tests/contract/plane"
)

// Watches is the cost of idle watches: the CPU usage of server and agent together, as a share of one core.
type Watches struct {
	Watches int     `json:"watches"`
	Seconds float64 `json:"seconds"`
	// WithoutPercent is the usage of server and agent without watches. ServerPercent and AgentPercent are the usages
	// with them.
	WithoutPercent float64 `json:"withoutPercentOfOneCore"`
	ServerPercent  float64 `json:"serverPercentOfOneCore"`
	AgentPercent   float64 `json:"agentPercentOfOneCore"`
	Percent        float64 `json:"percentOfOneCore"`
	Target         float64 `json:"target"`
	Within         bool    `json:"within"`
}

const (
	idleWatches   = 200
	idleFor       = 20 * time.Second
	settleFor     = 5 * time.Second
	watchesTarget = 2
)

func (w *world) watches() Watches {
	w.Helper()
	time.Sleep(settleFor) // wait for the cleanup after earlier reads
	server, agent := w.share(w.server.PID(), w.agent.Process.Pid)
	out := Watches{Watches: idleWatches, Seconds: idleFor.Seconds(), WithoutPercent: round(server+agent, 2),
		Target: watchesTarget}
	client := w.client(w.tunnel)
	var opening sync.WaitGroup
	all := make([]watch.Interface, idleWatches)
	errs := make([]error, idleWatches)
	for i := range all {
		opening.Go(func() {
			all[i], errs[i] = client.CoreV1().ConfigMaps(quiet).Watch(w.Context(),
				metav1.ListOptions{AllowWatchBookmarks: true})
		})
	}
	opening.Wait()
	for i := range all {
		w.must(errs[i])
		defer all[i].Stop()
	}
	time.Sleep(settleFor)
	server, agent = w.share(w.server.PID(), w.agent.Process.Pid)
	out.ServerPercent, out.AgentPercent, out.Percent, out.Within = round(server, 2), round(agent, 2),
		round(server+agent, 2), server+agent < watchesTarget
	return out
}

// share returns how much of one core two processes use, in percent.
func (w *world) share(one, other int) (ofOne, ofOther float64) {
	w.Helper()
	cpu := func(pid int) float64 { return plane.UsageOfProcess(w, pid).CPU.Seconds() }
	begin, first, second := time.Now(), cpu(one), cpu(other)
	time.Sleep(idleFor)
	percent := 100 / time.Since(begin).Seconds()
	return (cpu(one) - first) * percent, (cpu(other) - second) * percent
}
