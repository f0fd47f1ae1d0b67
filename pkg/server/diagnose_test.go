package server

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/operate/diagnose"
)

// diagnosis returns the diagnosis of the cluster that a user gets.
func (w *world) diagnosis() diagnose.Report {
	w.Helper()
	r := w.reader()
	defer r.Close()
	report, err := r.Diagnose(w.Context(), demo)
	check(w.T, err)
	return report
}

// told returns a diagnosis as it is printed.
func told(r diagnose.Report) string {
	var out bytes.Buffer
	r.Print(&out, false)
	return out.String()
}

// A diagnosis follows a cluster from start to end: it names what is in progress, and is silent when the cluster is
// healthy.
func TestStory_DiagnoseFollowsTheLifeOfACluster(t *testing.T) {
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, w.servers(1, 1))
		seen := map[diagnose.Name]bool{}
		w.until("the cluster", 5*time.Minute, func() string {
			report := w.diagnosis()
			for _, found := range report.Findings {
				seen[found.Name] = true
				if found.State == diagnose.Broken {
					t.Errorf("a cluster in creation counts as broken:\n%s", told(report))
				}
			}
			return w.ready(2)()
		})
		if !seen[diagnose.LinkAgent] {
			t.Errorf("no report waits for an agent: %v", seen)
		}
		time.Sleep(time.Minute)
		if report := w.diagnosis(); report.Result != diagnose.OK || len(report.Findings) > 0 {
			t.Errorf("a working cluster: %s", told(report))
		}
		for _, write := range w.api.Writes("drover/look") {
			t.Errorf("a diagnosis wrote: %v", write)
		}
		check(t, w.user.Provisioning.Cluster().Delete(fleet, demo, nil))
		if report := w.diagnosis(); report.Result != diagnose.Waiting || !strings.Contains(told(report), "delet") {
			t.Errorf("a cluster that is being deleted: %s", told(report))
		}
	})
}
