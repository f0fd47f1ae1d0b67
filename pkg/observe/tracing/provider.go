package tracing

import (
	"context"
	"fmt"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Provider creates traces and sends them. Its Shutdown sends the remaining ones.
type Provider struct{ *sdktrace.TracerProvider }

// NewProvider sends traces to an OTLP receiver over gRPC: http://HOST:PORT, or https://HOST:PORT for TLS.
// OpenTelemetry's own environment variables (OTEL_EXPORTER_OTLP_…) configure the rest, such as headers and authorities.
// Nothing is sent before the first trace. A receiver that does not answer delays nothing.
func NewProvider(ctx context.Context, endpoint, version, instance string) (*Provider, error) {
	if err := CheckEndpoint(endpoint); err != nil {
		return nil, err
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("export traces to %s: %w", endpoint, err)
	}
	return newProvider(sdktrace.NewBatchSpanProcessor(exporter), version, instance), nil
}

// CheckEndpoint returns what is wrong with the address of a receiver.
func CheckEndpoint(endpoint string) error {
	address, err := url.Parse(endpoint)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" ||
		address.User != nil || address.Path != "" && address.Path != "/" {
		return fmt.Errorf("%q is not the address of an OTLP receiver for gRPC; use http://HOST:PORT, or "+
			"https://HOST:PORT for TLS", endpoint)
	}
	return nil
}

func newProvider(processor sdktrace.SpanProcessor, version, instance string) *Provider {
	return &Provider{sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(processor), sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "drover"), attribute.String("service.version", version),
			attribute.String("service.instance.id", instance),
		)),
	)}
}
