// Package pki makes the certificates of a management plane once and keeps them in files.
//
// An Authority is a self-signed certificate with its key in a directory. It signs serving and client certificates into
// the same directory. All functions are idempotent. They keep valid files. They replace a leaf certificate that expires
// soon, names other hosts or was signed by another authority. They never replace an authority, because clients trust
// it. They write keys with mode 0600 before any file refers to them.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-io/drover/pkg/local/localfile"
)

const (
	authorityLifetime = 20 * 365 * 24 * time.Hour
	leafLifetime      = 10 * 365 * 24 * time.Hour
	// renewBefore is the remaining lifetime at which a leaf is renewed.
	renewBefore = 60 * 24 * time.Hour
	// backdate tolerates machines whose clocks are slow.
	backdate = time.Hour
)

// Pair names the two PEM files of a certificate and its private key.
type Pair struct {
	CertFile string
	KeyFile  string
}

// Authority signs certificates into its directory.
type Authority struct {
	// Pair holds the authority's own certificate and key.
	Pair
	// CertPEM is the certificate that clients trust.
	CertPEM []byte

	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	now  func() time.Time
}

// OpenAuthority reads the authority DIR/<name>.crt and DIR/<name>.key. If both files are missing, it makes the
// authority. If one file is missing, it returns an error, because a new authority would break all clients of the old
// one.
func OpenAuthority(dir, name string, now func() time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory for certificates: %w", err)
	}
	pair := pairIn(dir, name)
	cert, key, err := readPair(pair)
	if errors.Is(err, fs.ErrNotExist) {
		if exists(pair.CertFile) {
			return nil, fmt.Errorf("certificate %s has no key %s: restore the key, or remove the certificate to "+
				"create a new one",
				pair.CertFile, pair.KeyFile)
		}
		cert, key, err = makeAuthority(pair, name, now())
	}
	if err != nil {
		return nil, fmt.Errorf("open authority %s: %w", name, err)
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("open authority %s: %s is not a certificate authority", name, pair.CertFile)
	}
	return &Authority{Pair: pair, CertPEM: encodeCert(cert.Raw), dir: dir, cert: cert, key: key, now: now}, nil
}

// Serving returns a certificate DIR/<name>.crt for a server with the names and addresses hosts. It is also a client
// certificate, because etcd's members and gateways use one certificate for both.
func (a *Authority) Serving(name string, hosts ...string) (Pair, error) {
	want := leaf{commonName: name, usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			want.addresses = append(want.addresses, ip)
		} else if host != "" {
			want.names = append(want.names, host)
		}
	}
	return a.ensure(name, want)
}

// Client returns a certificate DIR/<name>.crt that identifies a user and its groups by common name and organizations,
// as Kubernetes reads them.
func (a *Authority) Client(name, user string, groups ...string) (Pair, error) {
	return a.ensure(name, leaf{commonName: user, groups: groups, usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// leaf is the content of a signed certificate.
type leaf struct {
	commonName string
	groups     []string
	names      []string
	addresses  []net.IP
	usage      []x509.ExtKeyUsage
}

func (a *Authority) ensure(name string, want leaf) (Pair, error) {
	pair := pairIn(a.dir, name)
	if cert, _, err := readPair(pair); err == nil && a.stillGood(cert, want) {
		return pair, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make key %s: %w", pair.KeyFile, err)
	}
	serial, err := serialNumber()
	if err != nil {
		return Pair{}, err
	}
	now := a.now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: want.commonName, Organization: want.groups},
		NotBefore:    now.Add(-backdate),
		NotAfter:     earlier(now.Add(leafLifetime), a.cert.NotAfter),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  want.usage,
		DNSNames:     want.names,
		IPAddresses:  want.addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate %s: %w", name, err)
	}
	return pair, writePair(pair, der, key)
}

// stillGood reports whether an existing certificate has the wanted content, was signed by this authority and does not
// expire soon.
func (a *Authority) stillGood(cert *x509.Certificate, want leaf) bool {
	return cert.CheckSignatureFrom(a.cert) == nil &&
		a.now().Add(renewBefore).Before(cert.NotAfter) &&
		cert.Subject.CommonName == want.commonName &&
		slices.Equal(cert.Subject.Organization, want.groups) &&
		slices.Equal(cert.DNSNames, want.names) &&
		slices.Equal(cert.ExtKeyUsage, want.usage) &&
		slices.EqualFunc(cert.IPAddresses, want.addresses, net.IP.Equal)
}

// SigningKey returns the RSA key pair DIR/<name>.key and DIR/<name>.pub for service account tokens. It makes the pair
// once. Without the old key, all existing tokens of pods would be invalid.
func SigningKey(dir, name string) (keyFile, publicFile string, err error) {
	keyFile, publicFile = filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pub")
	if exists(keyFile) && exists(publicFile) {
		return keyFile, publicFile, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", fmt.Errorf("make directory for keys: %w", err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", "", fmt.Errorf("make signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", fmt.Errorf("encode public signing key: %w", err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := localfile.Write(publicFile,
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})); err != nil {
		return "", "", err
	}
	return keyFile, publicFile, localfile.Write(keyFile, private)
}

func makeAuthority(pair Pair, name string, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "drover-" + name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("parse: %w", err)
	}
	return cert, key, writePair(pair, der, key)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func serialNumber() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return serial, nil
}
