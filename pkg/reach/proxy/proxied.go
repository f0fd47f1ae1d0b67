package proxy

import (
	"bytes"
	"crypto/subtle"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ClusterPath is the path prefix under which Drover's endpoints forward requests to a cluster.
// (docs/wire/endpoints.md#proxy.)
const ClusterPath = "/k8s/clusters/"

// TokenKey is the key of the bearer token in the Secret of a kubeconfig through Drover.
// (docs/wire/secrets.md#kubeconfig.)
const TokenKey = "token"

// Proxied is a kubeconfig through Drover's endpoints. It is a credential: it must not be logged, and its String method
// omits it.
type Proxied struct {
	// Server is the https URL of the endpoints, without a path.
	Server string
	// Authority are the authorities of that server, as PEM. Empty means the system's authorities.
	Authority []byte
	// ID is the name of the management cluster.
	ID string
	// Token is a bearer token for the endpoints.
	Token string
}

// String returns only the type.
func (Proxied) String() string { return "proxy.Proxied(redacted)" }

// GoString returns only the type.
func (p Proxied) GoString() string { return p.String() }

// Kubeconfig writes the kubeconfig. Equal values give equal bytes.
func (p Proxied) Kubeconfig() ([]byte, error) {
	return encode(
		&clientcmdapi.Cluster{Server: p.Address(), CertificateAuthorityData: bytes.TrimSpace(p.Authority)},
		&clientcmdapi.AuthInfo{Token: p.Token},
	)
}

// Stands reports whether a kubeconfig is equivalent to this one, in any formatting, and returns its token. An
// unreadable kubeconfig is not equivalent.
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

// leads reports whether a kubeconfig's cluster is this one, reached in exactly this way.
func (p Proxied) leads(cluster *clientcmdapi.Cluster) bool {
	return cluster.Server == p.Address() && bytes.Equal(bytes.TrimSpace(cluster.CertificateAuthorityData),
		bytes.TrimSpace(p.Authority)) &&
		!cluster.InsecureSkipTLSVerify && cluster.ProxyURL == "" && cluster.TLSServerName == ""
}

// Address is the URL of the cluster's API behind the endpoints.
func (p Proxied) Address() string { return strings.TrimSuffix(p.Server, "/") + ClusterPath + p.ID }
