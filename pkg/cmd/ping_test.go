package cmd

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// The certificate of httptest is for example.com and 127.0.0.1.
func TestPing(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && asked.Add(1) == 1 {
			http.Error(w, "caches are not filled yet", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	authority, empty := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "empty.crt")
	check(t, os.WriteFile(authority,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	check(t, os.WriteFile(empty, nil, 0o600))
	trusting, connecting := "--cacerts-file="+authority, "--connect-to="+server.Listener.Addr().String()

	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a server that becomes ready": {args: []string{server.URL, trusting},
			want: "can be used by machines"},
		"behind a load balancer with another name": {args: []string{"https://example.com", trusting, connecting},
			want: "can be used by machines"},
		"an unknown authority": {args: []string{server.URL}, code: 1, want: "certificate"},
		"a certificate for another name": {args: []string{"https://drover.example.org", trusting, connecting}, code: 1,
			want: "drover.example.org"},
		"not https":              {args: []string{"http://127.0.0.1"}, code: 1, want: "use https://"},
		"an address with a path": {args: []string{server.URL + "/v3"}, code: 1, want: "use https://"},
		"a file without authorities": {args: []string{server.URL, "--cacerts-file=" + empty}, code: 1,
			want: "has no certificate"},
		"a missing file": {args: []string{server.URL, "--cacerts-file=" + dir + "/none"}, code: 1,
			want: "--cacerts-file"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := run(t, append([]string{"ping"}, tc.args...)...)
			if code != tc.code || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d, want %d and %q in:\n%s", code, tc.code, tc.want, out)
			}
		})
	}
}

// The error is the server's last answer, which explains more than the deadline.
func TestPing_SaysWhyTheServerIsNotReady(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			return
		}
		if asked.Add(1) == 2 {
			cancel()
			<-r.Context().Done()
		}
		http.Error(w, "caches are not filled yet", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	check(t, os.WriteFile(authority,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	err := (&pingOptions{caCerts: authority}).ping(ctx, server.URL)
	if err == nil || !strings.Contains(err.Error(), "503") ||
		!strings.Contains(err.Error(), "caches are not filled yet") {
		t.Errorf("got %v", err)
	}
}

// On a host, the program is installed only as the agent, under the name of the download or of the installed file.
func TestPing_IsACommandOfTheAgent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"/usr/local/bin/rancher-system-agent", "rancher-system-agent-amd64",
		"/usr/bin/drover"} {
		var out strings.Builder
		root := rootFor(name, nil)
		root.SetOut(&out)
		root.SetErr(&out)
		if code := execute(t.Context(), root, []string{"ping", "--help"}); code != 0 ||
			!strings.Contains(out.String(), root.Name()+" ping https://") {
			t.Errorf("%s ping --help ends with %d:\n%s", name, code, out.String())
		}
	}
}
