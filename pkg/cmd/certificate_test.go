package cmd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-io/drover/pkg/local/localfile"
	"github.com/drover-io/drover/pkg/local/managementplane/pki"
	"github.com/drover-io/drover/pkg/server"
)

// secretVolume is a folder like the kubelet's Secret volumes: files are links through ..data, which the kubelet
// switches atomically.
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

// write creates new files.
func (v *secretVolume) write(generation string, files map[string][]byte) {
	v.t.Helper()
	check(v.t, os.Mkdir(filepath.Join(v.dir, generation), 0o700))
	for name, content := range files {
		check(v.t, os.WriteFile(filepath.Join(v.dir, generation, name), content, 0o600))
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

func TestServingCertificate_ReadsRenewedFiles(t *testing.T) {
	volume := newSecretVolume(t)
	first, second := pairFor(t, "first.example.com"), pairFor(t, "second.example.com")
	volume.write("1", first)
	config, err := servingConfig(t.Context(), volume.Pair, logrus.StandardLogger())
	check(t, err)
	isFor := func(name string) bool {
		t.Helper()
		served, err := config.GetCertificate(&tls.ClientHelloInfo{})
		check(t, err)
		leaf, err := x509.ParseCertificate(served.Certificate[0])
		check(t, err)
		return leaf.VerifyHostname(name) == nil
	}
	if !isFor("first.example.com") {
		t.Error("at the start, the certificate differs from the files")
	}
	volume.write("2", map[string][]byte{"tls.crt": second["tls.crt"], "tls.key": first["tls.key"]})
	if !isFor("first.example.com") {
		t.Error("the certificate has no matching key yet")
	}
	volume.write("3", second)
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			return isFor("second.example.com"), nil
		})
	if err != nil {
		t.Errorf("the renewed certificate is not in use: %v", err)
	}
	volume.write("4", nil)
	if !isFor("second.example.com") {
		t.Error("without files, the last certificate is not in use")
	}
}

// A running program renews certificates of its own authority before they expire, and both listeners serve the new ones.
func TestCertificates_RenewWithoutARestart(t *testing.T) {
	dir, elsewhere := filepath.Join(t.TempDir(), "pki"), t.TempDir()
	longAgo := time.Now().Add(-10*365*24*time.Hour + 30*24*time.Hour)
	_, err := pki.OpenAuthority(dir, authorityName, func() time.Time { return longAgo })
	check(t, err)
	check(t, os.CopyFS(elsewhere, os.DirFS(dir)))
	past, err := pki.OpenAuthority(elsewhere, authorityName, func() time.Time { return longAgo })
	check(t, err)
	ending, err := past.Serving("ending", "localhost", "127.0.0.1")
	check(t, err)

	o := &serverOptions{dataDir: filepath.Dir(dir), embedded: true, admission: "install",
		admissionAddress: "127.0.0.1:9443", renewalInterval: 50 * time.Millisecond}
	o.settings.ServerURL = "https://localhost"
	machines, err := o.certificate(t.Context(), nil, logrus.StandardLogger())
	check(t, err)
	reviews, err := o.admissionCertificate(t.Context(), nil, logrus.StandardLogger(), &server.Options{})
	check(t, err)
	var endpoints []endpoint
	for _, config := range []*tls.Config{machines, reviews} {
		listener, err := listen(t.Context(), "127.0.0.1:0")
		check(t, err)
		endpoints = append(endpoints, endpoint{&http.Server{Handler: http.NotFoundHandler(), TLSConfig: config},
			listener})
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveTogether(ctx, endpoints, func() {}) }()
	for i, name := range []string{"drover-serving", "drover-admission"} {
		address := endpoints[i].listener.Addr().String()
		first := shownAt(t, address)
		for from, to := range map[string]string{ending.KeyFile: name + ".key", ending.CertFile: name + ".crt"} {
			content, err := os.ReadFile(from)
			check(t, err)
			check(t, localfile.Write(filepath.Join(dir, to), content))
		}
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true,
			func(context.Context) (bool, error) {
				now := shownAt(t, address)
				return now.SerialNumber.Cmp(first.SerialNumber) != 0 && time.Until(now.NotAfter) > 365*24*time.Hour, nil
			})
		if err != nil {
			t.Errorf("%s: the listener's certificate ends %s: %v", name, shownAt(t, address).NotAfter, err)
		}
	}
	end()
	check(t, <-ended)
}

// shownAt returns the certificate that a listener serves.
func shownAt(t *testing.T, address string) *x509.Certificate {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(t.Context(), "tcp", address)
	check(t, err)
	defer connection.Close()
	secured, ok := connection.(*tls.Conn)
	if !ok {
		t.Fatalf("a %T", connection)
	}
	return secured.ConnectionState().PeerCertificates[0]
}

func TestServingCertificate_IsRequiredAtTheStart(t *testing.T) {
	if _, err := servingConfig(t.Context(), newSecretVolume(t).Pair, logrus.StandardLogger()); err == nil ||
		!strings.Contains(err.Error(), "read serving certificate") {
		t.Errorf("got %v", err)
	}
}

func TestNotAfter_FollowsTheCertificate(t *testing.T) {
	volume := newSecretVolume(t)
	volume.write("1", pairFor(t, "a"))
	config, err := servingConfig(t.Context(), volume.Pair, logrus.StandardLogger())
	check(t, err)
	served, err := config.GetCertificate(nil)
	check(t, err)
	leaf, err := x509.ParseCertificate(served.Certificate[0])
	check(t, err)
	if got := notAfter(config); !got.Equal(leaf.NotAfter) || got.Before(time.Now()) {
		t.Errorf("the certificate ends %v, but NotAfter returns %v", leaf.NotAfter, got)
	}
}
