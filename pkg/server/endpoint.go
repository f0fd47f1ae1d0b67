package server

import (
	"context"
	"crypto/x509"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/clients"
	"github.com/drover-io/drover/pkg/clusterproxy"
	"github.com/drover-io/drover/pkg/endpointtoken"
	"github.com/drover-io/drover/pkg/naming"
	"github.com/drover-io/drover/pkg/topology"
)

// Where every cluster of Kubernetes tells its pods by whom the certificates of its API servers are.
const (
	rootAuthorityNamespace = metav1.NamespaceSystem
	rootAuthority          = "kube-root-ca.crt"
	rootAuthorityKey       = "ca.crt"
	// largestAuthority is more than that of any cluster, in bytes: it becomes a part of kubeconfigs.
	largestAuthority = 64 << 10
)

// endpointOf is what tokens for the authorized endpoint of a cluster are made with.
func (s *Server) endpointOf(id string) (endpointtoken.Endpoint, error) {
	if s.opts.installedAgent() == "" { // then nobody makes keys, and nothing in the cluster would know them
		return endpointtoken.Endpoint{}, fmt.Errorf("%w: this server installs no agents, and with them nothing that verifies tokens there", endpointtoken.ErrOff)
	}
	cluster, ok := s.cluster(id)
	if !ok {
		return endpointtoken.Endpoint{}, endpointtoken.ErrNotYet
	}
	management, err := clients.Optional(s.every.Management.Cluster().Cache().Get(id))
	if err != nil {
		return endpointtoken.Endpoint{}, err
	}
	secret, err := clients.Optional(s.every.Core.Secret().Cache().Get(cluster.Namespace, naming.EndpointKeys(cluster.Name)))
	if err != nil {
		return endpointtoken.Endpoint{}, err
	}
	return endpointtoken.For(cluster, management, secret)
}

// endpointServers is where the authorized endpoint of a cluster is without a balancer. By whom the certificates of its servers are, the cluster itself knows.
func (s *Server) endpointServers(ctx context.Context, id string) (clusterproxy.EndpointServers, error) {
	none := clusterproxy.EndpointServers{}
	cluster, ok := s.cluster(id)
	if !ok || s.reach.door == nil {
		return none, ErrNotConnected
	}
	machines, err := s.every.CAPI.Machine().Cache().List(cluster.Namespace, labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: cluster.Name}))
	if err != nil {
		return none, err
	}
	client, err := s.reach.door.Client(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
	if err != nil {
		return none, fmt.Errorf("%w: %w", ErrNotConnected, err)
	}
	found, err := client.CoreV1().ConfigMaps(rootAuthorityNamespace).Get(ctx, rootAuthority, metav1.GetOptions{})
	if err != nil {
		return none, fmt.Errorf("ask the cluster for its authority: %w", err)
	}
	authority := []byte(found.Data[rootAuthorityKey])
	if len(authority) > largestAuthority || !x509.NewCertPool().AppendCertsFromPEM(authority) {
		return none, fmt.Errorf("ConfigMap %s/%s of the cluster must have certificates in %s, of at most %d bytes", rootAuthorityNamespace, rootAuthority, rootAuthorityKey, largestAuthority)
	}
	servers := map[string]string{}
	for _, each := range topology.EndpointServers(machines) {
		servers[each.Node] = "https://" + each.Host
	}
	return clusterproxy.EndpointServers{Servers: servers, Authority: authority}, nil
}
