package cmd

import (
	"context"
	"sync"

	clientmetrics "k8s.io/client-go/tools/metrics"
)

// otherHosts is how rest_client_requests_total names all hosts but the first that is asked, which is the management cluster.
const otherHosts = "clusters"

// countClustersTogether keeps rest_client_requests_total from having lines for each cluster that there has ever been: client-go names the host of each request,
// and nobody takes a host away.
func countClustersTogether() {
	if _, is := clientmetrics.RequestResult.(*oneHost); !is {
		clientmetrics.RequestResult = &oneHost{ResultMetric: clientmetrics.RequestResult}
	}
}

// oneHost tells the first host from all others.
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
