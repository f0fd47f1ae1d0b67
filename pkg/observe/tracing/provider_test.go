package tracing

import (
	"context"
	"net"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// receiver is a collector in this process.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

func (r *receiver) Export(_ context.Context,
	request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.got <- request
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestNewProvider_SendsToAReceiver(t *testing.T) {
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, r := grpc.NewServer(), &receiver{got: make(chan *collector.ExportTraceServiceRequest, 1)}
	collector.RegisterTraceServiceServer(server, r)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	provider, err := NewProvider(t.Context(), "http://"+listener.Addr().String(), "v1", "me")
	if err != nil {
		t.Fatal(err)
	}
	machines, plans := life()
	traces := NewMachines(provider)
	traces.MachineSeen(machines[0])
	traces.MachineChanged(machines[3], plans[2])
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := (<-r.got).GetResourceSpans()[0]
	if name := sent.GetResource().GetAttributes()[1].GetValue().GetStringValue(); name != "drover" {
		t.Errorf("service %q", name)
	}
	id := TraceID(machines[0].UID)
	for _, s := range sent.GetScopeSpans()[0].GetSpans() {
		if string(s.GetTraceId()) != string(id[:]) {
			t.Errorf("span %s is in another trace", s.GetName())
		}
	}
	if n := len(sent.GetScopeSpans()[0].GetSpans()); n != 6 {
		t.Errorf("%d spans were sent", n)
	}
	if _, err := NewProvider(t.Context(), "otel:4317", "v1", "me"); err == nil {
		t.Error("an address without a scheme was accepted")
	}
}
