package cmd

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/drover-io/drover/pkg/managementplane/pki"
)

// secretVolume is a folder as the kubelet makes it: files are links through ..data, which is moved to another folder at once.
type secretVolume struct {
	t   *testing.T
	dir string
	pki.Pair
}

func newSecretVolume(t *testing.T) *secretVolume {
	t.Helper()
	v := &secretVolume{t: t, dir: t.TempDir()}
	v.CertFile, v.KeyFile = filepath.Join(v.dir, "tls.crt"), filepath.Join(v.dir, "tls.key")
	for _, name := range []string{"tls.crt", "tls.key"} {
		check(t, os.Symlink(filepath.Join("..data", name), filepath.Join(v.dir, name)))
	}
	return v
}

// write makes new files, at a moment of their own.
func (v *secretVolume) write(generation string, moment time.Time, files map[string][]byte) {
	v.t.Helper()
	check(v.t, os.Mkdir(filepath.Join(v.dir, generation), 0o700))
	for name, content := range files {
		path := filepath.Join(v.dir, generation, name)
		check(v.t, os.WriteFile(path, content, 0o600))
		check(v.t, os.Chtimes(path, moment, moment))
	}
	check(v.t, os.Symlink(generation, filepath.Join(v.dir, "..new")))
	check(v.t, os.Rename(filepath.Join(v.dir, "..new"), filepath.Join(v.dir, "..data")))
}

// pairFor is a certificate for a name.
func pairFor(t *testing.T, name string) map[string][]byte {
	t.Helper()
	authority, err := pki.OpenAuthority(t.TempDir(), "ca", time.Now)
	check(t, err)
	pair, err := authority.Serving("serving", name)
	check(t, err)
	files := map[string][]byte{}
	for key, path := range map[string]string{"tls.crt": pair.CertFile, "tls.key": pair.KeyFile} {
		content, err := os.ReadFile(path)
		check(t, err)
		files[key] = content
	}
	return files
}

func TestServingCertificate_IsReadAnewWhenItIsRenewed(t *testing.T) {
	volume, begin := newSecretVolume(t), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first, second := pairFor(t, "first.example.com"), pairFor(t, "second.example.com")
	volume.write("1", begin, first)
	log, lines := test.NewNullLogger()
	c, err := newServingCertificate(volume.Pair, log)
	check(t, err)
	expect := func(step, name string) {
		t.Helper()
		served, err := c.get(&tls.ClientHelloInfo{})
		check(t, err)
		leaf, err := x509.ParseCertificate(served.Certificate[0])
		check(t, err)
		if leaf.VerifyHostname(name) != nil {
			t.Errorf("%s: the certificate is for %v, want %s", step, leaf.DNSNames, name)
		}
	}
	expect("at the start", "first.example.com")
	volume.write("2", begin.Add(time.Hour), map[string][]byte{"tls.crt": second["tls.crt"], "tls.key": first["tls.key"]})
	expect("with a key of another certificate", "first.example.com")
	expect("and asked again", "first.example.com")
	volume.write("3", begin.Add(2*time.Hour), second)
	expect("renewed", "second.example.com")
	volume.write("4", begin.Add(3*time.Hour), nil)
	expect("without files", "second.example.com")

	var said []string
	for _, line := range lines.AllEntries() {
		said = append(said, line.Level.String())
	}
	if got := strings.Join(said, " "); got != "warning info warning" {
		t.Errorf("log has %q: every change is told once", got)
	}
}

func TestServingCertificate_HasToBeThereAtTheStart(t *testing.T) {
	log, _ := test.NewNullLogger()
	if _, err := newServingCertificate(newSecretVolume(t).Pair, log); err == nil || !strings.Contains(err.Error(), "read serving certificate") {
		t.Errorf("got %v", err)
	}
}

func TestNotAfter_FollowsTheCertificate(t *testing.T) {
	now := time.Now()
	v := newSecretVolume(t)
	v.write("1", now, pairFor(t, "a"))
	served, err := newServingCertificate(v.Pair, nil)
	check(t, err)
	if got := notAfter(&tls.Config{GetCertificate: served.get, MinVersion: tls.VersionTLS12}); !got.Equal(served.held.Leaf.NotAfter) || got.Before(now) {
		t.Errorf("the certificate ends %v, and %v is told", served.held.Leaf.NotAfter, got)
	}
}
