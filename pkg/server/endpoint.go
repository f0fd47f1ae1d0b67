package server

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/endpointtoken"
)

// In every cluster, Kubernetes publishes the certificate authority of the API servers to pods under this name.
const (
	rootAuthorityNamespace = metav1.NamespaceSystem
	rootAuthority          = "kube-root-ca.crt"
	rootAuthorityKey       = "ca.crt"
	// largestAuthority bounds the authority of a cluster, in bytes, because it becomes part of kubeconfigs.
	largestAuthority = 64 << 10
	// longestReason bounds how much of a cluster's error message Drover repeats, in bytes.
	longestReason = 256
)

// endpointOf returns the input for tokens of the authorized endpoint of a cluster.
func (s *Server) endpointOf(id string) (endpointtoken.Endpoint, error) {
	if s.opts.installedAgent() == "" { // without agents there are no keys, and nothing in the cluster verifies tokens
		return endpointtoken.Endpoint{},
			fmt.Errorf("%w: this server installs no agents, so no program verifies tokens in the cluster",
				endpointtoken.ErrOff)
	}
	cluster, ok := s.cluster(id)
	if !ok {
		return endpointtoken.Endpoint{}, endpointtoken.ErrNotYet
	}
	management, err := clients.Optional(s.every.Management.Cluster().Cache().Get(id))
	if err != nil {
		return endpointtoken.Endpoint{}, err
	}
	secret, err := clients.Optional(s.every.Core.Secret().Cache().Get(cluster.Namespace,
		naming.EndpointKeys(cluster.Name)))
	if err != nil {
		return endpointtoken.Endpoint{}, err
	}
	return endpointtoken.For(cluster, management, secret)
}

// endpointServers returns the addresses of the authorized endpoint of a cluster, by node, for use without a load
// balancer.
func (s *Server) endpointServers(id string) (map[string]string, error) {
	cluster, ok := s.cluster(id)
	if !ok {
		return nil, nil
	}
	machines, err := s.every.CAPI.Machine().Cache().List(cluster.Namespace,
		labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: cluster.Name}))
	if err != nil {
		return nil, err
	}
	servers := map[string]string{}
	for _, each := range topology.EndpointServers(machines) {
		servers[each.Node] = "https://" + each.Host
	}
	return servers, nil
}

// endpointAuthority asks the cluster for the certificate authority of its API servers, as PEM.
func (s *Server) endpointAuthority(ctx context.Context, id string) ([]byte, error) {
	namespace, name, ok := s.clusterOf(id)
	if !ok || s.reach.door == nil {
		return nil, ErrNotConnected
	}
	client, err := s.reach.door.Client(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotConnected, err)
	}
	return authorityOf(ctx, client)
}

// authorityOf asks a cluster for the certificate authority of its API servers, as PEM. It bounds and checks the answer,
// because the cluster is not trusted.
func authorityOf(ctx context.Context, client kubernetes.Interface) ([]byte, error) {
	stream, err := client.CoreV1().RESTClient().Get().Namespace(rootAuthorityNamespace).Resource("configmaps").Name(
		rootAuthority).
		SetHeader("Accept", runtime.ContentTypeJSON).Stream(ctx)
	switch {
	case errors.Is(err, ErrNotConnected):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("read the cluster's authority: %.*s", longestReason, err.Error())
	}
	defer stream.Close()
	content, err := io.ReadAll(io.LimitReader(stream, 2*largestAuthority))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's authority: %w", err)
	}
	var found corev1.ConfigMap
	err = json.Unmarshal(content, &found)
	authority := []byte(found.Data[rootAuthorityKey])
	if err != nil || len(authority) > largestAuthority || !x509.NewCertPool().AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("ConfigMap %s/%s of the cluster must have certificates in %s, of at most %d bytes",
			rootAuthorityNamespace, rootAuthority, rootAuthorityKey, largestAuthority)
	}
	return authority, nil
}
