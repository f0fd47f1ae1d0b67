package planner

import (
	"cmp"
	"slices"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// cluster is what a pass knows about its cluster. All parts of the pass share it.
type cluster struct {
	s       *Snapshot
	runtime distro.Runtime
	// machines are the registered machines, sorted by name. unregistered machines have no plan Secret yet. Machines
	// that are gone are in no list.
	machines     []*machine
	unregistered []*machine
	// unsupported are registered machines that keep what they have, because Drover cannot make plans for them.
	unsupported []*machine
	// joinable are the servers that workers may join, nil until first use.
	joinable []*machine
	init     *machine
	// restoring is true while a restore starts the machines again. Nothing can disrupt them then.
	restoring bool
	// timer is the time until the next deadline passes, 0 for none.
	timer    time.Duration
	warnings map[render.Warning]bool
}

func newCluster(s *Snapshot) *cluster {
	c := &cluster{
		s:        s,
		runtime:  distro.RuntimeOf(s.ControlPlane.Spec.KubernetesVersion),
		warnings: map[render.Warning]bool{},
	}
	for i := range s.Machines {
		switch m := c.withoutIdleKubelet(&s.Machines[i]); {
		case m.gone():
		case m.Plan == nil:
			c.unregistered = append(c.unregistered, newMachine(m))
		case m.isUnsupported():
			c.unsupported = append(c.unsupported, newMachine(m))
		default:
			c.machines = append(c.machines, newMachine(m))
		}
	}
	byName := func(a, b *machine) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(c.machines, byName)
	slices.SortFunc(c.unregistered, byName)
	slices.SortFunc(c.unsupported, byName)
	return c
}

// statusCopy is the stored status. Its conditions can be changed.
func (c *cluster) statusCopy() rkev1.RKEControlPlaneStatus {
	status := c.s.ControlPlane.Status
	status.Conditions = slices.Clone(status.Conditions)
	return status
}

// all are all machines that are not gone, registered machines first.
func (c *cluster) all() []*machine { return slices.Concat(c.machines, c.unregistered, c.unsupported) }

// collect returns the registered machines that pass all filters, sorted by name.
func (c *cluster) collect(filters ...func(*machine) bool) []*machine {
	var out []*machine
	for _, m := range c.machines {
		if !slices.ContainsFunc(filters, func(f func(*machine) bool) bool { return !f(m) }) {
			out = append(out, m)
		}
	}
	return out
}

// wakeAfter requests another pass after at most d.
func (c *cluster) wakeAfter(d time.Duration) {
	if c.timer == 0 || d < c.timer {
		c.timer = d
	}
}
