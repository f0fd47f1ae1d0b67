package cmd

import (
	"context"
	"sync"

	clientmetrics "k8s.io/client-go/tools/metrics"
)

// otherHosts is the host label in rest_client_requests_total for all hosts except the first, which is the management
// cluster.
const otherHosts = "clusters"

// countClustersTogether limits the cardinality of rest_client_requests_total. client-go adds a series for every host
// and removes none, so each cluster that ever existed would keep its series.
func countClustersTogether() {
	if _, is := clientmetrics.RequestResult.(*oneHost); !is {
		clientmetrics.RequestResult = &oneHost{ResultMetric: clientmetrics.RequestResult}
	}
}

// oneHost distinguishes the first host from all others.
type oneHost struct {
	clientmetrics.ResultMetric

	once  sync.Once
	first string
}

// Increment implements clientmetrics.ResultMetric.
func (o *oneHost) Increment(ctx context.Context, code, method, host string) {
	o.once.Do(func() { o.first = host })
	if host != o.first {
		host = otherHosts
	}
	o.ResultMetric.Increment(ctx, code, method, host)
}
