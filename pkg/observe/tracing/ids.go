package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
)

// TraceID is that of the trace of a machine.
func TraceID(machine types.UID) trace.TraceID {
	sum := sha256.Sum256([]byte("drover machine " + machine))
	return trace.TraceID(sum[:16])
}

func spanID(machine types.UID, name string) trace.SpanID {
	sum := sha256.Sum256([]byte("drover machine " + string(machine) + " " + name))
	return trace.SpanID(sum[:8])
}

// span says in a context which span is about to be made.
type span struct {
	machine types.UID
	name    string
}

type spanKey struct{}

// ids gives the spans of machines identifiers that follow from their names, and others random ones.
type ids struct{}

var _ sdktrace.IDGenerator = ids{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if of, ok := ctx.Value(spanKey{}).(span); ok {
		return TraceID(of.machine), spanID(of.machine, of.name)
	}
	var random trace.TraceID
	_, _ = rand.Read(random[:]) // never fails
	return random, ids{}.NewSpanID(ctx, random)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if of, ok := ctx.Value(spanKey{}).(span); ok {
		return spanID(of.machine, of.name)
	}
	var random trace.SpanID
	_, _ = rand.Read(random[:]) // never fails
	return random
}
