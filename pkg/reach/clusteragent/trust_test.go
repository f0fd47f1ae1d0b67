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
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authorityOf{}
	a.certificate, a.key = sign(tb, template, template, nil)
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
	return a
}

// sign signs a certificate for a new key. Without a signer's key the certificate is self-signed.
func sign(tb testing.TB, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
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

func TestTrust_ByChecksumOfWhatTheServerGivesOut(t *testing.T) {
	own, other := newAuthority(t, "own"), newAuthority(t, "other")
	for name, test := range map[string]struct {
		given, checksum string
		want            string // a part of the log; empty if a session is expected
	}{
		"the authority of the server":            {own.pem, naming.CAChecksum(own.pem), ""},
		"in capital letters":                     {own.pem, strings.ToUpper(naming.CAChecksum(own.pem)), ""},
		"without a newline at its end":           {strings.TrimSpace(own.pem), naming.CAChecksum(own.pem), ""},
		"several, as while they are exchanged":   {other.pem + own.pem, naming.CAChecksum(other.pem + own.pem), ""},
		"the same in another order":              {own.pem + other.pem, naming.CAChecksum(other.pem + own.pem), "checksum is"},
		"one is missing of several":              {own.pem, naming.CAChecksum(other.pem + own.pem), "checksum is"},
		"one more than was meant":                {own.pem + other.pem, naming.CAChecksum(own.pem), "checksum is"},
		"another authority, of another checksum": {other.pem, naming.CAChecksum(own.pem), "checksum is"},
		"the checksum of another authority":      {other.pem, naming.CAChecksum(other.pem), "unknown authority"},
		"no authority":                           {"", naming.CAChecksum(own.pem), "leave the checksum out"},
		"the right checksum of no certificate":   {"hello", naming.CAChecksum("hello"), "no certificate as PEM"},
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
				t.Errorf("the log does not say %q:\n%s", test.want, written)
			}
			for _, path := range []string{wire.PathRegister, wire.PathConnect} {
				if asked := d.requests(path); len(asked) > 0 {
					t.Errorf("a server that is not trusted gets %v", asked[0].Header)
				}
			}
			// Requests to a server that is not trusted yet reveal nothing about the cluster.
			for _, asked := range d.requests(settingCA) {
				if len(asked.Header) > 3 || asked.Header.Get(wire.HeaderToken) != "" || asked.URL.RawQuery != "" {
					t.Errorf("a server that is not trusted yet is told %v", asked.Header)
				}
			}
		})
	}
}

func TestTrust_WhatWasPinnedIsAskedForOnce(t *testing.T) {
	d := newDrover(t, "a", "b", "c")
	o := options(t, d.URL, "", newAPIServer(t))
	o.CAChecksum = naming.CAChecksum(d.authorities)
	start(t, o)
	for range 3 {
		d.await(t)
	}
	if got := len(d.requests(settingCA)); got != 1 {
		t.Errorf("asked %d times, want once", got)
	}
}

func TestTrust_ByFile(t *testing.T) {
	own, other := newAuthority(t, "own"), newAuthority(t, "other")
	for name, test := range map[string]struct{ file, checksum, want string }{
		"the authority of the server":    {own.pem, "", ""},
		"several":                        {other.pem + own.pem, "", ""},
		"and it has to have a checksum":  {own.pem, naming.CAChecksum(own.pem), ""},
		"another authority":              {other.pem, "", "unknown authority"},
		"another checksum":               {own.pem, naming.CAChecksum(other.pem), "checksum is"},
		"not a certificate":              {"hello", "", "no certificate as PEM"},
		"empty, while it is being given": {"", "", "no certificate as PEM"},
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
					t.Errorf("the log does not say %q:\n%s", test.want, written)
				}
				writeFile(t, o.CAFile, own.pem) // the file is reread
				if test.checksum != "" {
					return
				}
			}
			d.await(t)
			if asked := d.requests(settingCA); len(asked) > 0 {
				t.Error("the server is asked for what the file says")
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
	if asked := d.requests(wire.PathRegister); len(asked) > 0 || !strings.Contains(written.String(), "unknown authority") {
		t.Errorf("the server was asked %d times:\n%s", len(asked), written)
	}
}

// Requests for authorities and sessions use the same proxy, and the proxy learns nothing about either.
func TestTrust_ProxyIsUsedThroughout(t *testing.T) {
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
