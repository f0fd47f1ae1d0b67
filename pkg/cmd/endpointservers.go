package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/clusterproxy"
	"github.com/drover-io/drover/pkg/proxy"
)

// endpointServers asks Drover where the servers of a cluster's authorized endpoint are. The clusters that it returns are named after their nodes.
func endpointServers(ctx context.Context, config *rest.Config, way proxy.Proxied) (map[string]*clientcmdapi.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	credential, err := credentialOf(config)
	if err != nil {
		return nil, err
	}
	client, err := clientOf(way.Authority, credential)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	code, body, err := send(ctx, client, http.MethodGet, strings.TrimSuffix(way.Server, "/")+clusterproxy.EndpointsPrefix+way.ID, credential.Status.Token)
	switch {
	case err != nil:
		return nil, err
	case code != http.StatusOK:
		message, _ := saidIn(code, body)
		return nil, fmt.Errorf("the server answers with %d: %s", code, message)
	}
	return serversIn(body)
}

// serversIn reads an answer. Whatever else a kubeconfig can hold, files of the user and programs to run among it, is left out.
func serversIn(body []byte) (map[string]*clientcmdapi.Cluster, error) {
	answered, err := clientcmd.Load(body)
	if err != nil {
		return nil, errors.New("the server answers with something else than a kubeconfig")
	}
	servers := map[string]*clientcmdapi.Cluster{}
	for _, name := range slices.Sorted(maps.Keys(answered.Clusters)) {
		said := answered.Clusters[name]
		address, err := url.Parse(said.Server)
		if err != nil || address.Scheme != "https" || address.Host == "" || len(validation.IsDNS1123Subdomain(name)) > 0 || len(said.CertificateAuthorityData) == 0 {
			return nil, fmt.Errorf("the server answers with a server %q at %q, which cannot be one", name, said.Server)
		}
		servers[name] = &clientcmdapi.Cluster{Server: said.Server, CertificateAuthorityData: said.CertificateAuthorityData}
	}
	return servers, nil
}
