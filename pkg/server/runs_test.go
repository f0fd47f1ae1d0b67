package server

import (
	"testing"
	"time"
)

// runs returns how often each handler has run.
func (w *world) runs() map[string]uint64 {
	w.Helper()
	families, err := w.metrics.Gather()
	check(w.T, err)
	out := map[string]uint64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "drover_reconcile_duration_seconds" {
				out[metric.GetLabel()[0].GetValue()] += metric.GetHistogram().GetSampleCount()
			}
		}
	}
	return out
}

// Handlers of Secrets run for their own Secrets only. Without a filter, each of them runs 73 times for each machine.
func TestStory_HandlersOfSecretsRunForTheirOwnSecrets(t *testing.T) {
	const machines = 3
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, w.servers(1, machines-1))
		w.until("the cluster", 5*time.Minute, w.ready(machines))
		time.Sleep(time.Minute)
		runs := w.runs()
		t.Logf("the runs of handlers: %v", runs)
		for handler, most := range map[string]uint64{
			"plan-secret":         40 * machines,
			"rke-bootstrap-token": 35 * machines,
			"machine-drain":       0, // no node is drained
			"machine-request":     0, // no host registers
		} {
			if runs[handler] > most {
				t.Errorf("%s ran %d times for %d machines, at most %d are needed", handler, runs[handler], machines,
					most)
			}
		}
	})
}
