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

// Entries of the kubeconfigs we write. Readers look the cluster up by its name.
// (docs/wire/secrets.md#kubeconfig.)
const (
	kubeconfigCluster = "cluster"
	kubeconfigUser    = "user"
	kubeconfigContext = "default"
)

// maxCaptured is the longest kubeconfig that is read from a node, in bytes.
const maxCaptured = 256 << 10

// defaultPort is where the API server of RKE2 and K3s listens.
const defaultPort = "6443"

// Access is what it takes to reach a cluster's API server. It is a credential:
// it must not be logged, and its String method does not show it.
type Access struct {
	port             string
	authority        []byte
	certificate, key []byte
	token            string
}

// String names the type alone.
func (Access) String() string { return "proxy.Access(redacted)" }

// GoString names the type alone.
func (a Access) GoString() string { return a.String() }

// Capture reads a kubeconfig that a node printed. It keeps the authority, the
// user's certificate or token, and the port; it refuses everything that would
// run a program, read a file or skip the check of the server's certificate.
// Errors never repeat the content.
func Capture(output []byte) (Access, error) {
	if len(output) > maxCaptured {
		return Access{}, errors.New("captured kubeconfig is larger than 256 KiB")
	}
	config, err := clientcmd.Load(output)
	if err != nil {
		return Access{}, errors.New("captured kubeconfig is no kubeconfig")
	}
	current, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return Access{}, errors.New("captured kubeconfig has no current context")
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return Access{}, errors.New("captured kubeconfig names a cluster or user that it does not have")
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

// Harmless returns an error for a kubeconfig that would have this program run another one, read its own files, which hold its own
// credentials, or pretend to be somebody else. A Secret with a kubeconfig is in the namespace of the cluster, whose users may write it:
// with tokenFile they would send Drover's own token to a server of theirs. Errors never repeat the content.
func Harmless(kubeconfig []byte) error {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return errors.New("it is no kubeconfig")
	}
	for _, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" {
			return errors.New("it would read files: use certificate-authority-data")
		}
	}
	for _, user := range config.AuthInfos {
		switch {
		case user.Exec != nil || user.AuthProvider != nil:
			return errors.New("it would run a program")
		case user.ClientCertificate+user.ClientKey+user.TokenFile != "":
			return errors.New("it would read files: use client-certificate-data and client-key-data, or token")
		case user.Impersonate+user.ImpersonateUID != "" || len(user.ImpersonateGroups)+len(user.ImpersonateUserExtra) > 0:
			return errors.New("it would impersonate somebody")
		}
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
		{cluster.ProxyURL+cluster.TLSServerName != "", "would connect to somewhere else"},
		{user.Impersonate+user.ImpersonateUID != "" || len(user.ImpersonateGroups)+len(user.ImpersonateUserExtra) > 0, "would impersonate somebody"},
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

// Kubeconfig writes the access as a kubeconfig whose server is the given address
// of a machine: a host name or an IP address of either family, without port.
// Equal accesses give equal bytes.
func (a Access) Kubeconfig(address string) ([]byte, error) {
	if address == "" || strings.ContainsAny(address, "/@?# \t\n") {
		return nil, errors.New("address of the server is no host name or IP address")
	}
	return encode(
		&clientcmdapi.Cluster{
			Server:                   "https://" + net.JoinHostPort(strings.Trim(address, "[]"), a.port),
			CertificateAuthorityData: a.authority,
		},
		&clientcmdapi.AuthInfo{ClientCertificateData: a.certificate, ClientKeyData: a.key, Token: a.token},
	)
}

// encode writes a kubeconfig of one cluster and one user. Equal ones give equal bytes.
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
