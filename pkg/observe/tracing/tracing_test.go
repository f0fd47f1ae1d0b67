package tracing

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/testkit/build"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// collected returns the spans of a provider by name: parent, begin and end in seconds after noon.
func collected(exporter *tracetest.InMemoryExporter) map[string]string {
	out := map[string]string{}
	for _, s := range exporter.GetSpans() {
		parent := "none"
		for _, p := range exporter.GetSpans() {
			if p.SpanContext.SpanID() == s.Parent.SpanID() {
				parent = p.Name
			}
		}
		text := fmt.Sprintf("%s %v-%v", parent, s.StartTime.Sub(noon).Seconds(), s.EndTime.Sub(noon).Seconds())
		if s.Status.Description != "" {
			text += " " + s.Status.Description
		}
		out[s.Name] = text
	}
	return out
}

func ours() (*Machines, *tracetest.InMemoryExporter) {
	exporter := tracetest.NewInMemoryExporter()
	m := NewMachines(newProvider(sdktrace.NewSimpleSpanProcessor(exporter), "test", "test"))
	m.now = func() time.Time { return at(70) }
	return m, exporter
}

func condition(m *clusterv1.Machine, kind, status string, seconds int) {
	conditions.SetMeta(&m.Status.Conditions, conditions.Condition{Type: kind, Status: status}, 1, at(seconds))
}

// life returns the versions of a machine in caches: new, with a host, with a node, ready. It also returns those of its
// plan: delivered, reported, applied with passing probes.
func life() (machines [4]*clusterv1.Machine, plans [3]*corev1.Secret) {
	created := build.Machine("demo", "a", "w")
	created.CreationTimestamp = metav1.NewTime(noon)
	condition(created, clusterv1.MachineReadyCondition, "False", 0)
	host := created.DeepCopy()
	condition(host, clusterv1.MachineBootstrapConfigReadyCondition, "True", 5)
	condition(host, clusterv1.MachineInfrastructureReadyCondition, "True", 60)
	node := host.DeepCopy()
	build.WithNode("node-a")(node)
	node.Status.LastUpdated = metav1.NewTime(at(100))
	ready := node.DeepCopy()
	condition(ready, clusterv1.MachineReadyCondition, "True", 110)

	delivered := build.PlanSecret(created, nodeplan.KeyPlan, "{}")
	delivered.Annotations = map[string]string{rkev1.PlanUpdatedTimeAnnotation: at(10).Format(time.RFC3339)}
	applied := delivered.DeepCopy()
	applied.Data[nodeplan.KeyAppliedChecksum] = []byte("x")
	passed := applied.DeepCopy()
	passed.Annotations[rkev1.PlanProbesPassedAnnotation] = at(90).Format(time.RFC3339)
	return [4]*clusterv1.Machine{created, host, node, ready}, [3]*corev1.Secret{delivered, applied, passed}
}

var whole = map[string]string{
	"machine": "none 0-110", "bootstrap data": "machine 0-5", "infrastructure": "machine 0-60",
	"agent": "machine 60-70",
	"plan":  "machine 10-90", "node": "machine 60-100", "ready": "machine 100-110",
}

func TestMachines_OneTracePerMachine(t *testing.T) {
	traces, exporter := ours()
	machines, plans := life()
	traces.MachineSeen(machines[0])
	traces.MachineChanged(machines[1], plans[0])
	traces.PlanChanged(machines[1], plans[0], plans[1])
	traces.PlanChanged(machines[1], plans[1], plans[2])
	traces.MachineChanged(machines[2], plans[2])
	if got := collected(exporter); len(got) != 0 {
		t.Fatalf("a trace before its end: %v", got)
	}
	traces.MachineChanged(machines[3], plans[2])
	if diff := cmp.Diff(whole, collected(exporter)); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, s := range exporter.GetSpans() {
		if s.SpanContext.TraceID() != TraceID(machines[0].UID) {
			t.Errorf("span %s is in another trace", s.Name)
		}
	}
	n := len(exporter.GetSpans())
	traces.MachineChanged(machines[2], plans[2])
	traces.MachineChanged(machines[3], plans[2]) // ready once more
	traces.PlanChanged(machines[3], plans[1], plans[2])
	if len(exporter.GetSpans()) != n {
		t.Error("a machine has two traces")
	}
}

func TestMachines_ReadyBeforeItsProbes(t *testing.T) {
	traces, exporter := ours()
	machines, plans := life()
	plans[2].Annotations[rkev1.PlanProbesPassedAnnotation] = at(130).Format(time.RFC3339)
	traces.MachineSeen(machines[0])
	traces.MachineChanged(machines[3], plans[1])
	if got := collected(exporter); len(got) != 0 {
		t.Fatalf("a trace before its end: %v", got)
	}
	traces.PlanChanged(machines[3], plans[1], plans[2])
	if got := collected(exporter); got["plan"] != "machine 10-130" || got["machine"] != "none 0-130" {
		t.Errorf("spans %v", got)
	}
}

// Another process creates the same trace with the same identifiers. It lacks only the time of the agent's first report.
func TestMachines_AnotherProcessCreatesTheSameTrace(t *testing.T) {
	machines, plans := life()
	identifiers := map[string]trace.SpanID{}
	for seen := range 4 {
		traces, exporter := ours()
		traces.MachineSeen(machines[seen])
		traces.MachineChanged(machines[3], plans[2])
		got := collected(exporter)
		if seen == 3 {
			if len(got) > 0 {
				t.Errorf("a machine that was ready before has a trace: %v", got)
			}
			continue
		}
		want := maps.Clone(whole)
		delete(want, "agent")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("spans (-want +got):\n%s", diff)
		}
		for _, s := range exporter.GetSpans() {
			if known, ok := identifiers[s.Name]; ok && known != s.SpanContext.SpanID() {
				t.Errorf("span %s has two identifiers", s.Name)
			}
			identifiers[s.Name] = s.SpanContext.SpanID()
		}
	}
	ill := machines[3].DeepCopy()
	condition(ill, clusterv1.MachineReadyCondition, "False", 500)
	traces, exporter := ours()
	traces.MachineSeen(ill)
	traces.MachineChanged(machines[3], plans[2])
	if got := collected(exporter); len(got) > 0 {
		t.Errorf("a machine that has recovered has a trace: %v", got)
	}
}

func TestMachines_RemovalBeforeReadyIsAFailure(t *testing.T) {
	traces, exporter := ours()
	machines, plans := life()
	gone := machines[1].DeepCopy()
	gone.DeletionTimestamp = new(metav1.NewTime(at(200)))
	traces.MachineSeen(machines[0])
	traces.MachineChanged(gone, plans[0])
	traces.MachineRemoved(gone)
	want := map[string]string{
		"machine": "none 0-200 removed before it was ready", "bootstrap data": "machine 0-5",
		"infrastructure": "machine 0-60",
	}
	if diff := cmp.Diff(want, collected(exporter)); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if len(traces.awaited) > 0 {
		t.Error("a removed machine is awaited")
	}
}

// A host's provider chooses identifiers of spans, but the trace keeps its identifier.
func TestMachines_ProviderOfAnEmbeddingProgram(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	traces := NewMachines(provider)
	machines, plans := life()
	traces.MachineSeen(machines[2])
	traces.MachineChanged(machines[3], plans[2])
	if got := collected(exporter); got["machine"] != "none 0-110" || got["node"] != "machine 60-100" {
		t.Errorf("spans %v", got)
	}
	for _, s := range exporter.GetSpans() {
		if s.SpanContext.TraceID() != TraceID(machines[0].UID) {
			t.Errorf("span %s is in another trace", s.Name)
		}
	}
	_, span := newProvider(sdktrace.NewSimpleSpanProcessor(exporter), "test",
		"test").Tracer("").Start(context.Background(), "other")
	if !span.SpanContext().IsValid() || span.SpanContext().TraceID() == TraceID(machines[0].UID) {
		t.Error("a span of another program must have its own identifier")
	}
}

func TestCheckEndpoint(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"http://otel:4317": true, "https://otel.example.com:4317/": true, "otel:4317": false, "grpc://otel:4317": false,
		"https://":                        false,
		"https://user:password@otel:4317": false, "http://otel:4318/v1/traces": false, "": false,
	} {
		if err := CheckEndpoint(endpoint); (err == nil) != want {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
