package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// askServers is the time limit for Drover's list of servers. Without the list, the other contexts still work.
const askServers = 15 * time.Second

// endpointServers asks Drover for the servers of a cluster's authorized endpoint. The returned clusters have the names
// of their nodes.
func endpointServers(ctx context.Context, config *rest.Config, way proxy.Proxied) (map[string]*clientcmdapi.Cluster,
	error) {
	ctx, cancel := context.WithTimeout(ctx, askServers)
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
	code, body, err := send(ctx, client, http.MethodGet, way, clusterproxy.EndpointsPrefix, credential.Status.Token)
	switch {
	case err != nil:
		return nil, err
	case code != http.StatusOK:
		message, _ := statusIn(code, body)
		return nil, fmt.Errorf("the server answers with %d: %s", code, message)
	}
	return serversIn(body)
}

// serversIn reads an answer. It drops everything else that a kubeconfig can hold, for example the user's files and
// programs.
func serversIn(body []byte) (map[string]*clientcmdapi.Cluster, error) {
	var kind metav1.TypeMeta
	// clientcmd would accept other content and ignore unknown fields.
	if json.Unmarshal(body, &kind) != nil || kind.Kind != "Config" {
		return nil, errors.New("the answer of the server is not a kubeconfig")
	}
	answered, err := clientcmd.Load(body)
	if err != nil {
		return nil, errors.New("the answer of the server is not a kubeconfig")
	}
	servers := map[string]*clientcmdapi.Cluster{}
	for _, name := range slices.Sorted(maps.Keys(answered.Clusters)) {
		said := answered.Clusters[name]
		host, ok := topology.EndpointHost(said.Server)
		if !ok || said.Server != "https://"+host || len(validation.IsDNS1123Subdomain(name)) > 0 ||
			len(said.CertificateAuthorityData) == 0 {
			return nil, fmt.Errorf("the answer of the server has an invalid server %q at %q", name, said.Server)
		}
		servers[name] = &clientcmdapi.Cluster{Server: said.Server,
			CertificateAuthorityData: said.CertificateAuthorityData}
	}
	return servers, nil
}

// serverContexts are the contexts for single servers. A problem with one of them is reported, and the kubeconfig is
// written without it.
type serverContexts struct {
	// names are the names of the contexts.
	names []string
	// former is the prefix of contexts for other servers of the cluster. args are the arguments that request their
	// tokens. Both are empty if the servers are unknown.
	former string
	args   []string
}

// leaveOut removes the contexts with a name that is taken, and reports why.
func (s serverContexts) leaveOut(written *clientcmdapi.Config, taken func(name string) string, told io.Writer) {
	for _, name := range s.names {
		if what := taken(name); what != "" && written.Contexts[name] != nil {
			fmt.Fprintf(told,
				"The kubeconfig gets no context for the server %s: %s %q already has this name; --name sets other "+
					"names\n", strings.TrimPrefix(name, s.former), what, name)
			forget(written, name)
		}
	}
}

// forgetFormer removes the contexts for servers that the cluster no longer has.
func (s serverContexts) forgetFormer(present, written *clientcmdapi.Config, told io.Writer) {
	if s.former == "" {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(present.Contexts)) {
		user, context := present.AuthInfos[name], present.Contexts[name]
		ours := user != nil && isPlugin(user) && slices.Equal(user.Exec.Args, s.args) && context.Cluster == name &&
			context.AuthInfo == name
		if ours && written.Contexts[name] == nil && s.isFormer(name, present) && present.CurrentContext != name {
			fmt.Fprintf(told, "Removed context %q: the cluster no longer has this server\n", name)
			forget(present, name)
		}
	}
}

// isFormer reports whether a name has this kubeconfig's prefix, and not the longer prefix of another kubeconfig for the
// same cluster.
func (s serverContexts) isFormer(name string, present *clientcmdapi.Config) bool {
	for other := range present.Contexts {
		if len(other) >= len(s.former) && strings.HasPrefix(name, other+"-") {
			return false
		}
	}
	return strings.HasPrefix(name, s.former)
}

// forget removes one of our contexts from a kubeconfig.
func forget(config *clientcmdapi.Config, name string) {
	delete(config.Contexts, name)
	delete(config.Clusters, name)
	delete(config.AuthInfos, name)
}
