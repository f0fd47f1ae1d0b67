package fakeagent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"k8s.io/client-go/tools/clientcmd"
)

// Identity is the certificate authority of one downstream cluster and its administrator.
type Identity struct {
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
	// CA is the authority's certificate as PEM.
	CA []byte
	// ClientCertificate and ClientKey are the administrator's, as PEM.
	ClientCertificate, ClientKey []byte
}

const validity = 24 * time.Hour

func newIdentity(cluster string) (Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("make key of cluster authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: cluster + "-ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Identity{}, fmt.Errorf("make cluster authority: %w", err)
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		return Identity{}, fmt.Errorf("make cluster authority: %w", err)
	}
	id := Identity{authority: authority, key: key, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	id.ClientCertificate, id.ClientKey, err = id.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return id, err
}

// issue signs a certificate and returns it with its key, both as PEM.
func (id Identity) issue(template *x509.Certificate) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(validity)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, id.authority, private.Public(), id.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate: %w", err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), nil
}

// ServerTLS returns the configuration of a server at an address. The server accepts only the administrator.
func (id Identity) ServerTLS(address string) (*tls.Config, error) {
	certificate, key, err := id.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP(address), net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"localhost", "kubernetes"},
	})
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("load server certificate: %w", err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(id.authority)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, NextProtos: []string{"h2", "http/1.1"},
	}, nil
}

// Kubeconfig returns the administrator's kubeconfig as the distribution writes it on a server. Its server address is
// the host itself.
func (id Identity) Kubeconfig() ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["default"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:" + port,
		CertificateAuthorityData: id.CA}
	config.AuthInfos["default"] = &clientcmdapi.AuthInfo{ClientCertificateData: id.ClientCertificate,
		ClientKeyData: id.ClientKey}
	config.Contexts["default"] = &clientcmdapi.Context{Cluster: "default", AuthInfo: "default"}
	config.CurrentContext = "default"
	out, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return out, nil
}
