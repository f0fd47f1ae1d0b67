package clusterproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// EndpointsPrefix is the path prefix for requesting the server addresses of a cluster's authorized endpoint. The
// cluster's identifier follows.
const EndpointsPrefix = "/k8s/endpoints/"

// How long a cluster's CA certificates, or the failure to get them, are cached. So users cannot make Drover query a
// cluster arbitrarily often.
const (
	authorityFor   = time.Minute
	noAuthorityFor = 5 * time.Second
)

// saidAuthority is a cluster's answer, or the error.
type saidAuthority struct {
	pem []byte
	err error
}

func newAuthorities() *memo[saidAuthority] {
	return newMemo(func(found saidAuthority) time.Duration {
		if found.err != nil {
			return noAuthorityFor
		}
		return authorityFor
	})
}

func (p *Proxy) authorityOf(ctx context.Context, cluster string) ([]byte, error) {
	found, err := p.authorities.get(ctx, cluster, func(ctx context.Context) (saidAuthority, error) {
		pem, err := p.options.EndpointAuthority(ctx, cluster)
		return saidAuthority{pem, err}, nil
	})
	if err != nil {
		return nil, err
	}
	return found.pem, found.err
}

// servers answers a request for the server addresses of a cluster's authorized endpoint, with a kubeconfig that
// contains only clusters.
func (p *Proxy) servers(e *exchange) error {
	e.verb = "get"
	return p.atEndpoint(e, EndpointsPrefix, http.MethodGet, func(ctx context.Context) error {
		if _, err := p.options.Endpoint(e.at.Cluster); err != nil {
			return noEndpoint(err)
		}
		if p.options.EndpointServers == nil || p.options.EndpointAuthority == nil {
			return &refusal{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound,
				message: "this server has no data about single servers"}
		}
		servers, err := p.options.EndpointServers(e.at.Cluster)
		if err != nil {
			return fmt.Errorf("find the servers of a cluster's endpoint: %w", err)
		}
		pem, err := p.authorityOf(ctx, e.at.Cluster)
		switch {
		case errors.Is(err, p.options.NotConnected):
			return notConnected(e.at.Cluster)
		case err != nil:
			return fmt.Errorf("find the authority of a cluster's endpoint: %w", err)
		}
		e.tell(http.StatusOK, configOf(servers, pem))
		return nil
	})
}

// configOf is a kubeconfig with servers by node name.
func configOf(servers map[string]string, authority []byte) clientcmdv1.Config {
	config := clientcmdv1.Config{Kind: "Config", APIVersion: clientcmdv1.SchemeGroupVersion.Version,
		Clusters: []clientcmdv1.NamedCluster{}}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		config.Clusters = append(config.Clusters, clientcmdv1.NamedCluster{
			Name: name, Cluster: clientcmdv1.Cluster{Server: servers[name], CertificateAuthorityData: authority},
		})
	}
	return config
}
