package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
)

// TraceID returns the identifier of a machine's trace.
func TraceID(machine types.UID) trace.TraceID {
	sum := sha256.Sum256([]byte("drover machine " + machine))
	return trace.TraceID(sum[:16])
}

func spanID(machine types.UID, name string) trace.SpanID {
	sum := sha256.Sum256([]byte("drover machine " + string(machine) + " " + name))
	return trace.SpanID(sum[:8])
}

// span in a context names the span that is about to be created.
type span struct {
	machine types.UID
	name    string
}

type spanKey struct{}

// ids derives the identifiers of machines' spans from their names. Other spans get random ones.
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
