package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/local/managementplane/pki"
)

var day = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

func authority(t *testing.T, dir string, now time.Time) *pki.Authority {
	t.Helper()
	a, err := pki.OpenAuthority(dir, "ca", at(now))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func leaf(t *testing.T, pair pki.Pair) *x509.Certificate {
	t.Helper()
	both, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return both.Leaf
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFilesAreCreatedOnceAndPrivate(t *testing.T) {
	dir := t.TempDir()
	makeAll := func() map[string]string {
		a := authority(t, dir, day)
		if _, err := a.Serving("server", "localhost", "127.0.0.1"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Client("admin", "somebody", "system:masters"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := pki.SigningKey(dir, "tokens"); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v, want 0600", entry.Name(), info.Mode())
			}
			files[entry.Name()] = content(t, filepath.Join(dir, entry.Name()))
		}
		return files
	}
	first := makeAll()
	if len(first) != 8 {
		t.Errorf("created %d files, want 8", len(first))
	}
	if diff := cmp.Diff(first, makeAll()); diff != "" {
		t.Errorf("the second run changed files: %s", diff)
	}
}

func TestLeafIsRenewedOnlyIfNecessary(t *testing.T) {
	hosts := []string{"localhost", "127.0.0.1"}
	tests := map[string]struct {
		now     time.Time
		hosts   []string
		prepare func(t *testing.T, dir string, pair pki.Pair)
		wantNew bool
	}{
		"the same request, the next day": {now: day.Add(24 * time.Hour), hosts: hosts},
		"another host":                   {now: day, hosts: append(hosts, "example.test"), wantNew: true},
		"another address":                {now: day, hosts: []string{"localhost", "127.0.0.2"}, wantNew: true},
		"close to its expiry":            {now: day.AddDate(9, 11, 0), hosts: hosts, wantNew: true},
		"long before its expiry":         {now: day.AddDate(9, 0, 0), hosts: hosts},
		"lost key": {now: day, hosts: hosts, wantNew: true,
			prepare: func(t *testing.T, _ string, p pki.Pair) { t.Helper(); remove(t, p.KeyFile) }},
		"signed by an earlier authority": {now: day, hosts: hosts, wantNew: true,
			prepare: func(t *testing.T, dir string, _ pki.Pair) {
				t.Helper()
				remove(t, filepath.Join(dir, "ca.crt"))
				remove(t, filepath.Join(dir, "ca.key"))
			}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pair, err := authority(t, dir, day).Serving("server", hosts...)
			if err != nil {
				t.Fatal(err)
			}
			before := content(t, pair.CertFile)
			if test.prepare != nil {
				test.prepare(t, dir, pair)
			}
			a := authority(t, dir, test.now)
			if pair, err = a.Serving("server", test.hosts...); err != nil {
				t.Fatal(err)
			}
			if gotNew := content(t, pair.CertFile) != before; gotNew != test.wantNew {
				t.Errorf("renewed: %v, want %v", gotNew, test.wantNew)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(a.CertPEM)
			for _, host := range test.hosts {
				if _, err := leaf(t, pair).Verify(x509.VerifyOptions{Roots: roots, DNSName: host,
					CurrentTime: test.now}); err != nil {
					t.Errorf("not valid for %s: %v", host, err)
				}
			}
		})
	}
}

func TestClientCertificateHasUserAndGroups(t *testing.T) {
	pair, err := authority(t, t.TempDir(), day).Client("kubelet", "system:node:local", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	cert := leaf(t, pair)
	if cert.Subject.CommonName != "system:node:local" ||
		!cmp.Equal(cert.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("subject = %v", cert.Subject)
	}
	if !cmp.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		t.Errorf("usage = %v, want only client authentication", cert.ExtKeyUsage)
	}
}

func TestAuthorityIsNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	authority(t, dir, day)
	remove(t, filepath.Join(dir, "ca.key"))
	_, err := pki.OpenAuthority(dir, "ca", at(day))
	if err == nil || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("error = %v, want the name of the missing key", err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
