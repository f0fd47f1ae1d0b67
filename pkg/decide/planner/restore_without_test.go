package planner

import (
	"fmt"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// A worker that is out of reach, or left out by the user, does not block the restore of the data. It starts when it is
// back, with the changes made meanwhile, whatever plan it got before.
func TestDecide_ARestoreGoesOnWithoutAWorker(t *testing.T) {
	for name, happens := range map[string]func(m *opsModel, h *host){
		"its node is lost":       func(m *opsModel, h *host) { h.m.NodeLostSince = m.now },
		"it is left out":         func(_ *opsModel, h *host) { h.m.Skip = true },
		"it is left out, paused": func(_ *opsModel, h *host) { h.m.Skip, h.m.PoolPaused = true, true },
	} {
		for _, stops := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stops=%v", name, stops), func(t *testing.T) {
				m := upWith(t, rke2Version, startTopology)
				if m.off = map[string]bool{"w1": !stops}; !stops {
					happens(&m, m.machines["w1"])
				}
				m.restore(t, "e2")
				m.off["w1"] = true
				happens(&m, m.machines["w1"])
				m.finishRestore(t)
				if cleaned := m.d.node("c1").runs["etcd-restore/cleanup-nodes"]; cleaned != 1 {
					t.Errorf("nodes without machines are removed %d times", cleaned)
				}
				if d := m.run(t); d.Wait == nil || d.Wait.Reason != ReasonLeftOut {
					t.Errorf("wait is %+v", d.Wait)
				}
				m.edit(func(spec *rkev1.RKEControlPlaneSpec) { spec.AdditionalManifest = "kind: A\n" })
				m.comesBack(t, "w1")
			})
		}
	}
}

// comesBack lets a machine work again, and everything become in order.
func (m *opsModel) comesBack(t *testing.T, name string) {
	t.Helper()
	delete(m.off, name)
	for range 10 {
		m.now = m.now.Add(time.Second)
		m.work()
		m.run(t)
	}
	if status, message := m.condition("Ready"); status != "True" {
		t.Errorf("Ready is %s: %s", status, message)
	}
	if state := m.machines[name].state(); !m.d.node(name).up || !state.InSync || render.OperationOf(state.Plan) != "" {
		t.Errorf("%s is up: %v, its plan is one of %q, applied: %v", name, m.d.node(name).up,
			render.OperationOf(state.Plan), state.InSync)
	}
}
