package outside

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// exampleLines is the maximum length of the documented program, without imports, comments and empty lines.
const exampleLines = 40

// TestExampleHost: the program of docs/examples/embed, built outside the repository, makes a Cluster ready, serves its
// own page next to Drover's endpoints, and ends on request.
func TestExampleHost(t *testing.T) {
	source := read(t, filepath.Join(plane.Root(t), "docs", "examples", "embed", "main.go"))
	if n := codeLines(string(source)); n >= exampleLines {
		t.Errorf("the example has %d lines of code, want less than %d", n, exampleLines)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), source)
	write(t, filepath.Join(dir, "go.mod"), []byte("module example.com/embed\n\ngo 1.26.0\n"))
	m := newModule(t, dir)
	m.run(t, "go", "build", "-o", "host", ".")
	m.checkResolved(t)

	st := stage.Start(t, stage.Settings{Drover: func(t *testing.T) { startHost(t, filepath.Join(dir, "host")) }})
	clusters := st.Apply(plane.Namespace(t), 2, map[string]string{"k3s": stage.K3s})
	clusters.AwaitReady()
	clusters.Delete()
}

// startHost runs the example until the test ends, and waits until machines can use it.
func startHost(t *testing.T, program string) {
	t.Helper()
	dir := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "ca.crt": certificate, "tls.key": key} {
		write(t, filepath.Join(dir, name), content)
	}
	address := "127.0.0.1:" + stage.FreePort(t)
	host := exec.CommandContext(context.WithoutCancel(t.Context()), program,
		"--kubeconfig", plane.Kubeconfig(t), "--server-url", "https://"+address, "--listen", address, "--data-dir", dir)
	host.Stdout, host.Stderr = t.Output(), t.Output()
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Wait() }()
	t.Cleanup(func() {
		_ = host.Process.Signal(syscall.SIGTERM) // the code below reports an earlier end
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("after the signal, the host ended with: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the host does not end after the signal")
			_ = host.Process.Kill()
		}
	})
	get := clientTrusting(certificate)
	plane.Until(t, 2*time.Minute, func() string { return get("https://"+address+"/readyz", "ok") })
	if wrong := get("https://"+address+"/", "the host's own page\n"); wrong != "" {
		t.Error(wrong)
	}
}

// clientTrusting returns a function that describes what is wrong with the answer of a URL.
func clientTrusting(certificate []byte) func(url, want string) string {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	client := &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	return func(url, want string) string {
		answer, err := client.Get(url)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(want)) {
			return fmt.Sprintf("%s answers %s %q, error %v", url, answer.Status, body, err)
		}
		return ""
	}
}

// codeLines counts the lines of code of a program after its imports.
func codeLines(source string) int {
	_, code, _ := strings.Cut(source, "\n)\n")
	n := 0
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}
