package clusteragent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// authorityOf is an authority that issues server certificates.
type authorityOf struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newAuthority(tb testing.TB, name string) *authorityOf {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authorityOf{}
	a.certificate, a.key = sign(tb, template, template, nil)
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
	return a
}

// sign signs a certificate for a new key. Without a signer's key the certificate is self-signed.
func sign(tb testing.TB, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate,
	*ecdsa.PrivateKey) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	if by == nil {
		by = key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		tb.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return certificate, key
}

// serving returns a certificate for a server on this machine.
func (a *authorityOf) serving(tb testing.TB) tls.Certificate {
	tb.Helper()
	certificate, key := sign(tb, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.certificate, a.key)
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}
}

func TestTrust_ByChecksumOfTheServersAuthorities(t *testing.T) {
	own, other := newAuthority(t, "own"), newAuthority(t, "other")
	for name, test := range map[string]struct {
		given, checksum string
		want            string // a part of the log; empty if a session is expected
	}{
		"the authority of the server": {own.pem, naming.CAChecksum(own.pem), ""},
		"in capital letters":          {own.pem, strings.ToUpper(naming.CAChecksum(own.pem)), ""},
		"without a newline at its end": {strings.TrimSpace(own.pem), naming.CAChecksum(own.pem),
			""},
		"several, as during a rotation": {other.pem + own.pem,
			naming.CAChecksum(other.pem + own.pem), ""},
		"several in another order": {own.pem + other.pem,
			naming.CAChecksum(other.pem + own.pem), "checksum is"},
		"one of several is missing": {own.pem, naming.CAChecksum(other.pem + own.pem),
			"checksum is"},
		"one more than expected": {own.pem + other.pem, naming.CAChecksum(own.pem),
			"checksum is"},
		"another authority with another checksum": {other.pem, naming.CAChecksum(own.pem), "checksum is"},
		"the checksum of another authority": {other.pem, naming.CAChecksum(other.pem),
			"unknown authority"},
		"no authority": {"", naming.CAChecksum(own.pem), "remove the checksum"},
		"the checksum of something else than a certificate": {"hello", naming.CAChecksum("hello"),
			"must be PEM with at least one certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrover(t, "a")
			d.TLS.Certificates = []tls.Certificate{own.serving(t)}
			d.authorities = test.given
			o := options(t, d.URL, "", newAPIServer(t))
			o.CAChecksum = test.checksum
			var written *log
			o.Log, written = newLog(t)
			start(t, o)
			if test.want == "" {
				d.await(t)
				return
			}
			poll(t, "tried", func() bool { return strings.Contains(written.String(), "Cannot connect") })
			if !strings.Contains(written.String(), test.want) {
				t.Errorf("the log does not contain %q:\n%s", test.want, written)
			}
			for _, path := range []string{wire.PathRegister, wire.PathConnect} {
				if asked := d.requests(path); len(asked) > 0 {
					t.Errorf("an untrusted server gets %v", asked[0].Header)
				}
			}
			// Requests to a server that is not trusted yet reveal nothing about the cluster.
			for _, asked := range d.requests(settingCA) {
				if len(asked.Header) > 3 || asked.Header.Get(wire.HeaderToken) != "" || asked.URL.RawQuery != "" {
					t.Errorf("a server that is not trusted yet gets %v", asked.Header)
				}
			}
		})
	}
}

func TestTrust_PinnedAuthoritiesAreFetchedOnce(t *testing.T) {
	d := newDrover(t, "a", "b", "c")
	o := options(t, d.URL, "", newAPIServer(t))
	o.CAChecksum = naming.CAChecksum(d.authorities)
	start(t, o)
	for range 3 {
		d.await(t)
	}
	if got := len(d.requests(settingCA)); got != 1 {
		t.Errorf("%d requests, want one", got)
	}
}

func TestTrust_ByFile(t *testing.T) {
	own, other := newAuthority(t, "own"), newAuthority(t, "other")
	for name, test := range map[string]struct{ file, checksum, want string }{
		"the authority of the server": {own.pem, "", ""},
		"several":                     {other.pem + own.pem, "", ""},
		"with its checksum":           {own.pem, naming.CAChecksum(own.pem), ""},
		"another authority":           {other.pem, "", "unknown authority"},
		"another checksum":            {own.pem, naming.CAChecksum(other.pem), "checksum is"},
		"not a certificate":           {"hello", "", "must be PEM with at least one certificate"},
		"an empty file":               {"", "", "must be PEM with at least one certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrover(t, "a")
			d.TLS.Certificates = []tls.Certificate{own.serving(t)}
			o := options(t, d.URL, "", newAPIServer(t))
			o.CAFile, o.CAChecksum = writeFile(t, filepath.Join(t.TempDir(), "ca"), test.file), test.checksum
			var written *log
			o.Log, written = newLog(t)
			start(t, o)
			if test.want != "" {
				poll(t, "tried", func() bool { return strings.Contains(written.String(), "Cannot connect") })
				if !strings.Contains(written.String(), test.want) {
					t.Errorf("the log does not contain %q:\n%s", test.want, written)
				}
				writeFile(t, o.CAFile, own.pem) // the file is reread
				if test.checksum != "" {
					return
				}
			}
			d.await(t)
			if asked := d.requests(settingCA); len(asked) > 0 {
				t.Error("the agent requests the authorities although it has a file")
			}
		})
	}
}

// With neither a file nor a checksum, only the system's authorities are trusted.
func TestTrust_ByTheSystem(t *testing.T) {
	d := newDrover(t, "a")
	o := options(t, d.URL, "", newAPIServer(t))
	var written *log
	o.Log, written = newLog(t)
	start(t, o)
	poll(t, "tried", func() bool { return strings.Contains(written.String(), "Cannot connect") })
	if asked := d.requests(wire.PathRegister); len(asked) > 0 ||
		!strings.Contains(written.String(), "unknown authority") {
		t.Errorf("%d requests to the server:\n%s", len(asked), written)
	}
}

// Requests for authorities and sessions use the same proxy, and the proxy learns nothing about either.
func TestTrust_ProxyIsAlwaysUsed(t *testing.T) {
	d := newDrover(t, "a")
	o := options(t, d.URL, "", newAPIServer(t))
	o.CAChecksum = naming.CAChecksum(d.authorities)
	asked := make(chan string, 100)
	o.Proxy = func(r *http.Request) (*url.URL, error) {
		asked <- r.URL.Scheme + " " + r.URL.Path
		return nil, nil
	}
	start(t, o)
	d.await(t)
	if got, want := <-asked, "https "+settingCA; got != want {
		t.Errorf("first the proxy is chosen for %q, want %q", got, want)
	}
	if got, want := <-asked, "https "+wire.PathRegister; got != want {
		t.Errorf("then the proxy is chosen for %q, want %q", got, want)
	}
}
