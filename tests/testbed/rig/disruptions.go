package rig

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/drover-io/drover/pkg/testkit/disruptions"
)

// healthAddress is the address of drover server's health endpoint, on the loopback of the lab's namespace.
const healthAddress = "http://127.0.0.1:8081"

// ask sends a request to drover server's health endpoint. The caller closes the answer's body.
func (r *Rig) ask(ctx context.Context, path string) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{DialContext: r.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, healthAddress+path, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// Disruptions returns the restarts, drains and replacements that Drover has begun since the start of the rig, by cause.
// It includes counts of servers that KillPlane ended, but not of servers that crashed by themselves.
func (r *Rig) Disruptions(ctx context.Context) (disruptions.Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := r.ask(ctx, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	counts, err := disruptions.Scraped(resp.Body)
	if err != nil {
		return nil, err
	}
	for cause, n := range r.disruptions {
		counts[cause] += n
	}
	return counts, nil
}
