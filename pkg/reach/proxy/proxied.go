package proxy

import (
	"bytes"
	"crypto/subtle"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ClusterPath is where Drover's endpoints pass requests on to a cluster. (docs/wire/endpoints.md#proxy.)
const ClusterPath = "/k8s/clusters/"

// TokenKey is the key of the bearer token in the Secret of a kubeconfig that leads through Drover.
// (docs/wire/secrets.md#kubeconfig.)
const TokenKey = "token"

// Proxied is a kubeconfig that leads through Drover's endpoints. It is a credential: it must not be logged, and its String method does not show it.
type Proxied struct {
	// Server is the https URL of the endpoints, without a path.
	Server string
	// Authority are the PEM authorities that verify it; empty when those of the system do.
	Authority []byte
	// ID is the name of the management cluster.
	ID string
	// Token is the bearer token that the endpoints know.
	Token string
}

// String names the type alone.
func (Proxied) String() string { return "proxy.Proxied(redacted)" }

// GoString names the type alone.
func (p Proxied) GoString() string { return p.String() }

// Kubeconfig writes it. Equal values give equal bytes.
func (p Proxied) Kubeconfig() ([]byte, error) {
	return encode(
		&clientcmdapi.Cluster{Server: p.Address(), CertificateAuthorityData: bytes.TrimSpace(p.Authority)}, &clientcmdapi.AuthInfo{Token: p.Token},
	)
}

// Stands reports whether a kubeconfig leads the same way, whichever way it is written, and returns its token. What cannot be read does not stand.
func (p Proxied) Stands(kubeconfig []byte) (token string, stands bool) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return "", false
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return "", false
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil || Harmless(kubeconfig) != nil {
		return "", false
	}
	asked := p.Token == "" || subtle.ConstantTimeCompare([]byte(user.Token), []byte(p.Token)) == 1
	return user.Token, user.Token != "" && asked && p.leads(cluster)
}

// leads reports whether a kubeconfig's cluster is this one, reached in this way and in no other.
func (p Proxied) leads(cluster *clientcmdapi.Cluster) bool {
	return cluster.Server == p.Address() && bytes.Equal(bytes.TrimSpace(cluster.CertificateAuthorityData), bytes.TrimSpace(p.Authority)) &&
		!cluster.InsecureSkipTLSVerify && cluster.ProxyURL == "" && cluster.TLSServerName == ""
}

// Address is the URL of the cluster's API behind the endpoints.
func (p Proxied) Address() string { return strings.TrimSuffix(p.Server, "/") + ClusterPath + p.ID }
