package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Entries of the kubeconfigs that Drover writes. Readers look up the cluster by its name.
// (docs/wire/secrets.md#kubeconfig.)
const (
	kubeconfigCluster = "cluster"
	kubeconfigUser    = "user"
	kubeconfigContext = "default"
)

// maxKubeconfig is the longest accepted kubeconfig from a node or a Secret, in bytes.
const maxKubeconfig = 256 << 10

// defaultPort is the API server's port in RKE2 and K3s.
const defaultPort = "6443"

// Access is a credential for a cluster's API server. It must not be logged, and its String method omits it.
type Access struct {
	port             string
	authority        []byte
	certificate, key []byte
	token            string
}

// String returns only the type.
func (Access) String() string { return "proxy.Access(redacted)" }

// GoString returns only the type.
func (a Access) GoString() string { return a.String() }

// Capture reads a kubeconfig that a node printed. It keeps the authority, the user's certificate or token, and the
// port. It refuses everything that would run a program, read a file or skip the verification of the server's
// certificate. Errors never contain the content.
func Capture(output []byte) (Access, error) {
	if len(output) > maxKubeconfig {
		return Access{}, errors.New("captured kubeconfig is larger than 256 KiB")
	}
	config, err := clientcmd.Load(output)
	if err != nil {
		return Access{}, errors.New("captured kubeconfig is not a kubeconfig")
	}
	current, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return Access{}, errors.New("captured kubeconfig has no current context")
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return Access{}, errors.New("captured kubeconfig refers to a missing cluster or user")
	}
	if err := refuse(cluster, user); err != nil {
		return Access{}, err
	}
	access := Access{
		port: serverPort(cluster.Server), authority: cluster.CertificateAuthorityData,
		certificate: user.ClientCertificateData, key: user.ClientKeyData, token: user.Token,
	}
	return access, nil
}

// Harmless returns an error for a kubeconfig that would make this program run another one, or read local files. It also
// refuses impersonation, proxies, and servers that are not verified. Users of the cluster's namespace may write the
// kubeconfig Secret. With tokenFile they could send Drover's own token to a server of theirs. Errors never contain the
// content.
func Harmless(kubeconfig []byte) error {
	if len(kubeconfig) > maxKubeconfig {
		return errors.New("it is larger than 256 KiB")
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return errors.New("it is not a kubeconfig")
	}
	for _, cluster := range config.Clusters {
		if err := harmlessCluster(cluster); err != nil {
			return err
		}
	}
	for _, user := range config.AuthInfos {
		switch {
		case user.Exec != nil || user.AuthProvider != nil:
			return errors.New("it would run a program")
		case user.ClientCertificate+user.ClientKey+user.TokenFile != "":
			return errors.New("it would read files: use client-certificate-data and client-key-data, or token")
		case user.Impersonate+user.ImpersonateUID != "" ||
			len(user.ImpersonateGroups)+len(user.ImpersonateUserExtra) > 0:
			return errors.New("it would impersonate a user")
		}
	}
	return nil
}

func harmlessCluster(cluster *clientcmdapi.Cluster) error {
	server, err := url.Parse(cluster.Server)
	switch {
	case cluster.CertificateAuthority != "":
		return errors.New("it would read files: use certificate-authority-data")
	case cluster.InsecureSkipTLSVerify:
		return errors.New("it would not verify the server: use certificate-authority-data instead of " +
			"insecure-skip-tls-verify")
	case cluster.ProxyURL != "":
		return errors.New("it would use a proxy: remove proxy-url")
	case cluster.TLSServerName != "":
		return errors.New("it would verify another server: remove tls-server-name, and use a server whose name is in " +
			"its certificate")
	case err != nil || server.Scheme != "https" || server.Hostname() == "" || server.User != nil:
		return errors.New("its server is not an https URL: use https://HOST:PORT")
	}
	return nil
}

func refuse(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	hasCertificate := len(user.ClientCertificateData) > 0 && len(user.ClientKeyData) > 0
	for _, rule := range []struct {
		refused bool
		because string
	}{
		{user.Exec != nil || user.AuthProvider != nil, "would run a program"},
		{cluster.CertificateAuthority+user.ClientCertificate+user.ClientKey+user.TokenFile != "", "would read files"},
		{cluster.InsecureSkipTLSVerify || len(cluster.CertificateAuthorityData) == 0, "has no certificate authority"},
		{cluster.ProxyURL+cluster.TLSServerName != "", "would connect to another server"},
		{user.Impersonate+user.ImpersonateUID != "" || len(user.ImpersonateGroups)+len(user.ImpersonateUserExtra) > 0,
			"would impersonate a user"},
		{user.Token == "" && !hasCertificate, "has neither a token nor a certificate"},
	} {
		if rule.refused {
			return errors.New("captured kubeconfig " + rule.because)
		}
	}
	return nil
}

func serverPort(server string) string {
	parsed, err := url.Parse(server)
	if err != nil || parsed.Port() == "" {
		return defaultPort
	}
	return parsed.Port()
}

// Kubeconfig writes a kubeconfig for the given address of a machine: a host name or an IPv4 or IPv6 address, without
// port. Equal values give equal bytes.
func (a Access) Kubeconfig(address string) ([]byte, error) {
	if address == "" || strings.ContainsAny(address, "/@?# \t\n") {
		return nil, errors.New("address of the server must be a host name or an IP address")
	}
	return encode(
		&clientcmdapi.Cluster{
			Server:                   "https://" + net.JoinHostPort(strings.Trim(address, "[]"), a.port),
			CertificateAuthorityData: a.authority,
		},
		&clientcmdapi.AuthInfo{ClientCertificateData: a.certificate, ClientKeyData: a.key, Token: a.token},
	)
}

// encode writes a kubeconfig with one cluster and one user. Equal values give equal bytes.
func encode(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[kubeconfigCluster], config.AuthInfos[kubeconfigUser] = cluster, user
	config.Contexts[kubeconfigContext] = &clientcmdapi.Context{Cluster: kubeconfigCluster, AuthInfo: kubeconfigUser}
	config.CurrentContext = kubeconfigContext
	encoded, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return encoded, nil
}
