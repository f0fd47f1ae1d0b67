package server

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/observe/tracing"
)

// Every machine has one trace with all its stages, whichever process saw it become ready.
func TestStory_TracesOfMachines(t *testing.T) {
	tell(t, func(w *world) {
		exporter := tracetest.NewInMemoryExporter()
		w.tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
		w.start()
		w.apply(k3s, w.servers(1, 1))
		w.until("the cluster", 5*time.Minute, w.ready(2))
		time.Sleep(time.Minute)
		w.stop()
		w.start()
		time.Sleep(time.Minute)
		got := map[types.UID][]string{}
		for _, machine := range w.objects("Machine") {
			got[machine.GetUID()] = nil
			for _, span := range exporter.GetSpans() {
				if span.SpanContext.TraceID() == tracing.TraceID(machine.GetUID()) {
					got[machine.GetUID()] = append(got[machine.GetUID()], span.Name)
				}
			}
		}
		want := []string{"agent", "bootstrap data", "infrastructure", "machine", "node", "plan", "ready"}
		for uid, spans := range got {
			slices.Sort(spans)
			if diff := cmp.Diff(want, spans); diff != "" {
				t.Errorf("spans of machine %s (-want +got):\n%s", uid, diff)
			}
		}
		if n := len(exporter.GetSpans()); len(got) != 2 || n != 14 {
			t.Errorf("%d machines have %d spans", len(got), n)
		}
	})
}
