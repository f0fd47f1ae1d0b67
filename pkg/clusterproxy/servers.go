package clusterproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// EndpointsPrefix is the path below which it is asked where the servers of a cluster's authorized endpoint are; its identifier follows.
const EndpointsPrefix = "/k8s/endpoints/"

// EndpointServers is where the authorized endpoint of a cluster is.
type EndpointServers struct {
	// Servers are URLs of API servers, by names of nodes.
	Servers map[string]string
	// Authority is what their certificates are from, as PEM.
	Authority []byte
}

// servers answers who asks where the servers of a cluster's authorized endpoint are, with a kubeconfig that has clusters and nothing else.
func (p *Proxy) servers(e *exchange) error {
	e.verb = "get"
	return p.atEndpoint(e, EndpointsPrefix, http.MethodGet, func(ctx context.Context) error {
		if _, err := p.options.Endpoint(e.at.Cluster); err != nil {
			return noEndpoint(err)
		}
		if p.options.EndpointServers == nil {
			return &refusal{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound, message: "nothing is known here about single servers"}
		}
		found, err := p.options.EndpointServers(ctx, e.at.Cluster)
		switch {
		case errors.Is(err, p.options.NotConnected):
			return notConnected(e.at.Cluster)
		case err != nil:
			return fmt.Errorf("find the servers of a cluster's endpoint: %w", err)
		}
		e.tell(http.StatusOK, found.config())
		return nil
	})
}

func (s EndpointServers) config() clientcmdv1.Config {
	config := clientcmdv1.Config{Kind: "Config", APIVersion: clientcmdv1.SchemeGroupVersion.Version, Clusters: []clientcmdv1.NamedCluster{}}
	for _, name := range slices.Sorted(maps.Keys(s.Servers)) {
		config.Clusters = append(config.Clusters, clientcmdv1.NamedCluster{
			Name: name, Cluster: clientcmdv1.Cluster{Server: s.Servers[name], CertificateAuthorityData: s.Authority},
		})
	}
	return config
}
