package deletion

import (
	"strings"
	"sync"

	"github.com/drover-io/drover/pkg/testkit/fakeagent"
)

// faults are the faults of the machines of each cluster. The name of a machine begins with that of its cluster, and no
// cluster has a name that begins with another one's.
type faults struct {
	mutex sync.Mutex
	// jobs are the answers of drivers, by cluster.
	jobs map[string]string
	// holds are the instructions that hang, by cluster.
	holds map[string]*hold
}

// hold makes the matching instructions hang until ended is closed. began is closed when the first one hangs.
type hold struct {
	matches      func(instruction string) bool
	began, ended chan struct{}
	first        sync.Once
}

// drive sets the answer of the driver of a cluster to all of its Jobs.
func (f *faults) drive(cluster, answer string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.jobs == nil {
		f.jobs = map[string]string{}
	}
	f.jobs[cluster] = answer
}

// hang makes instructions of a cluster hang.
func (f *faults) hang(cluster string, matches func(instruction string) bool) *hold {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.holds == nil {
		f.holds = map[string]*hold{}
	}
	f.holds[cluster] = &hold{matches: matches, began: make(chan struct{}), ended: make(chan struct{})}
	return f.holds[cluster]
}

// Job implements fakeagent.Faults.
func (f *faults) Job(machine string, _ bool, _ int) string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return of(f.jobs, machine)
}

// Instruction implements fakeagent.Faults.
func (f *faults) Instruction(machine, name string, _ int) error {
	f.mutex.Lock()
	found := of(f.holds, machine)
	f.mutex.Unlock()
	if found == nil || !found.matches(name) {
		return nil
	}
	found.first.Do(func() { close(found.began) })
	<-found.ended
	return &fakeagent.ExitError{Code: 143, Output: "terminated"}
}

// of returns the value of the cluster of a machine.
func of[T any](byCluster map[string]T, machine string) (value T) {
	for cluster, value := range byCluster {
		if strings.HasPrefix(machine, cluster+"-") {
			return value
		}
	}
	return value
}
