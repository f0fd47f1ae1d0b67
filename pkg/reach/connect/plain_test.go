package connect

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

func newRequest(t *testing.T, method, target string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
}

func record(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func TestPlain(t *testing.T) {
	w := newWorld(t)
	notReady := errors.New("hunter2")
	w.options.Ready = func(context.Context) error { return notReady }
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		method, target string
		wantStatus     int
		wantBody       string
	}{
		"ping":                  {http.MethodGet, "/ping", 200, "pong"},
		"health":                {http.MethodGet, "/healthz", 200, "ok"},
		"not ready":             {http.MethodGet, "/readyz", 503, "not ready yet\n"},
		"authority":             {http.MethodGet, "/cacerts", 200, string(w.options.CACerts) + "\n"},
		"POST of the authority": {http.MethodPost, "/cacerts", 405, "this path answers only GET\n"},
		"setting": {
			http.MethodGet, "/v3/settings/cacerts", 200,
			`{"id":"cacerts","name":"cacerts","type":"setting","value":"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"}` + "\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := record(handler, newRequest(t, tc.method, tc.target))
			if got.Code != tc.wantStatus || got.Body.String() != tc.wantBody {
				t.Errorf("status %d, body %q", got.Code, got.Body)
			}
		})
	}
	notReady = nil
	if got := record(handler, newRequest(t, http.MethodGet, "/readyz")); got.Code != http.StatusOK {
		t.Errorf("ready: status %d", got.Code)
	}
}

func TestCACerts_Proof(t *testing.T) {
	w := newWorld(t)
	secret := &corev1.Secret{ObjectMeta: meta("crt-token-default-token", "x"),
		Data: map[string][]byte{"token": []byte("new"), "previousToken": []byte("old"),
			"gracePeriodExpiresAt": []byte("2026-11-21T12:00:01Z")}}
	w.add(w.secrets, secret)
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]bool{"new": true, "old": true, "unknown": false, "": false} {
		digest := sha256.Sum256([]byte(token))
		request := newRequest(t, http.MethodGet, "/cacerts")
		request.Header.Set("X-Cattle-Nonce", "n")
		request.Header.Set("Authorization", "Bearer "+base64.StdEncoding.EncodeToString(digest[:]))
		response := record(handler, request)
		mac := hmac.New(sha512.New, []byte(token))
		mac.Write([]byte("n\x00" + response.Body.String() + "\x00"))
		proof := base64.StdEncoding.EncodeToString(mac.Sum(nil))
		if got := response.Header().Get("X-Cattle-Hash"); (got == proof) != want || (!want && got != "") {
			t.Errorf("token %q: proof %q, expected one: %v", token, got, want)
		}
	}
}

func TestAssets(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	w.options.AssetsDir = filepath.Join(dir, "assets")
	w.options.Binary = filepath.Join(dir, "drover")
	for path, content := range map[string]string{
		"drover": "the agent", "secret": "hunter2", "assets/docker-machine-driver-x": "a driver", "assets/.hidden": "x",
		"assets/sub/file": "x",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "assets", "link")); err != nil {
		t.Fatal(err)
	}
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) *httptest.ResponseRecorder {
		return record(handler, newRequest(t, http.MethodGet, assetsPrefix+name))
	}
	for name, want := range map[string]string{ownAgent(): "the agent", "docker-machine-driver-x": "a driver",
		uninstallName: uninstallScript} {
		if got := get(name); got.Code != http.StatusOK || got.Body.String() != want {
			t.Errorf("%s: status %d, %d bytes", name, got.Code, got.Body.Len())
		}
	}
	for _, name := range []string{"", ".", "..", ".hidden", "link", "sub", "sub/file", "../secret",
		"rancher-system-agent-pdp11", strings.Repeat("a", 200)} {
		if got := get(name); got.Code == http.StatusOK || strings.Contains(got.Body.String(), "hunter2") {
			t.Errorf("%q: status %d, body %s", name, got.Code, got.Body)
		}
	}
	if got := record(handler, newRequest(t, http.MethodPost,
		assetsPrefix+ownAgent())); got.Code != http.StatusMethodNotAllowed {
		t.Errorf("post: status %d", got.Code)
	}
	if err := os.WriteFile(filepath.Join(dir, "assets", ownAgent()), []byte("upstream's agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := get(ownAgent()); got.Body.String() != "upstream's agent" {
		t.Errorf("the directory must be first, got %q", got.Body)
	}
}

func TestInstallScript_KnowsTheServer(t *testing.T) {
	w := newWorld(t)
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	script := record(handler, newRequest(t, http.MethodGet, installPath)).Body.String()
	for _, want := range []string{
		"#!/usr/bin/env sh\n", `CATTLE_AGENT_BINARY_BASE_URL="https://drover.example.com/assets"`,
		`CATTLE_SERVER="${CATTLE_SERVER:-https://drover.example.com}"`,
		`CATTLE_CA_CHECKSUM="${CATTLE_CA_CHECKSUM:-` + naming.CAChecksum(string(w.options.CACerts)) + `}"`,
		"CATTLE_AGENT_BINARY_CHECKSUM_" + runtime.GOARCH + "=",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("the script does not contain %s", want)
		}
	}
}

func TestInstallScript_UnquotableHost(t *testing.T) {
	w := newWorld(t)
	w.options.ServerURL = ""
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{`x"; rm -rf / #`, "x$(id)", "x`id`", `x\`} {
		request := newRequest(t, http.MethodGet, installPath)
		request.Host = host
		if got := record(handler, request); got.Code != http.StatusBadRequest {
			t.Errorf("host %q: status %d", host, got.Code)
		}
	}
}

// install runs the script against a server and returns its output, its root directory and its error.
func install(t *testing.T, w *world, script string, environment ...string) (output, root string, err error) {
	t.Helper()
	return installWith(t, w, script, []string{"sh", "-s"}, environment...)
}

// installWith is install with a given shell, including the script's flags.
func installWith(t *testing.T, w *world, script string, shell []string, environment ...string) (output, root string,
	err error) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("the install script needs root")
	}
	root = t.TempDir()
	bin := filepath.Join(root, "stubs")
	for path, content := range map[string]string{
		filepath.Join(bin, "systemctl"): "#!/bin/sh\necho \"$*\" >> " + root + "/systemctl.log\n",
		// Like the real binary, it is the agent only under that name.
		filepath.Join(root,
			"agent"): "#!/bin/sh\ncase ${0##*/} in rancher-system-agent*) ;; *) exit 64 ;; esac\n[ \"$1\" = " +
			"validate-connection ] && grep -q secretName \"$2\" && stat -c %a \"$2\" > " + root + "/mode\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "units"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.options.Binary = filepath.Join(root, "agent")
	w.options.ServerURL = ""
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	t.Cleanup(server.Close)
	w.options.CACerts = pemOf(server)
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = handler
	cmd := exec.CommandContext(t.Context(), shell[0], shell[1:]...)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append([]string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "CATTLE_SERVER=" + server.URL, "CATTLE_TOKEN=" +
			naming.TokenHash(bootstrapJWT), "CATTLE_ROLE_NONE=true",
		"CATTLE_CA_CHECKSUM=" + naming.CAChecksum(string(w.options.CACerts)), "CATTLE_AGENT_CONFIG_DIR=" + root +
			"/etc", "CATTLE_AGENT_VAR_DIR=" + root + "/var",
		"CATTLE_AGENT_BIN_PREFIX=" + root + "/usr", "CATTLE_AGENT_SYSTEMD_DIR=" + root + "/units", "CATTLE_ID=" +
			someID, "HTTPS_PROXY=", "NO_PROXY=example.com",
	}, environment...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), root, err
}

func TestInstallScript_InstallsAndConnects(t *testing.T) {
	w := newWorld(t)
	w.expectIntroduction()
	output, root, err := install(t, w, InstallScript())
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Errorf("%v", err)
		}
		return string(data)
	}
	if got := read("var/rancher2_connection_info.json"); !strings.Contains(got, planJWT) ||
		!strings.Contains(got, `"secretName":"b-machine-plan"`) {
		t.Errorf("connection = %s", got)
	}
	if got := strings.TrimSpace(read("mode")); got != "600" {
		t.Errorf("the connection was checked with mode %s", got)
	}
	if got := strings.TrimSpace(read("etc/cattle-id")); got != someID {
		t.Errorf("id = %s", got)
	}
	for _, want := range []string{"workDirectory: " + root + "/var/work", "remoteEnabled: true", "localEnabled: false",
		"connectionInfoFile: " + root + "/var/rancher2_connection_info.json", "interlockDirectory: " + root +
			"/var/interlock"} {
		if !strings.Contains(read("etc/config.yaml"), want) {
			t.Errorf("the configuration does not contain %s:\n%s", want, read("etc/config.yaml"))
		}
	}
	unit := read("units/rancher-system-agent.service")
	for _, want := range []string{"Restart=always", "RestartSec=5s", "CATTLE_AGENT_CONFIG=" + root + "/etc/config.yaml",
		"ExecStart=" + root + "/usr/bin/rancher-system-agent sentinel"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit does not contain %s:\n%s", want, unit)
		}
	}
	if got := read("units/rancher-system-agent.env"); !strings.Contains(got, "NO_PROXY=example.com") {
		t.Errorf("environment file = %s", got)
	}
	if got := read("systemctl.log"); !strings.HasSuffix(got,
		"daemon-reload\nenable rancher-system-agent\nrestart rancher-system-agent\n") {
		t.Errorf("systemctl got: %s", got)
	}
	for path, want := range map[string]os.FileMode{"etc/config.yaml": 0o600, "etc/cattle-id": 0o600,
		"var/rancher2_connection_info.json": 0o600, "usr/bin/rancher-system-agent": 0o755,
		"units/rancher-system-agent.env": 0o600, "var": 0o700 | os.ModeDir} {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(root, "var", "install.*")); len(left) != 0 {
		t.Errorf("remaining files: %v", left)
	}
	if left, _ := os.ReadDir(filepath.Join(root, "var", "interlock")); len(left) != 0 {
		t.Errorf("the interlock remains: %v", left)
	}
	if strings.Contains(output, naming.TokenHash(bootstrapJWT)) || strings.Contains(output, planJWT) {
		t.Errorf("a token is in the output:\n%s", output)
	}
}

// TestInstallScript_TracesNoSecret: the traced output contains no secrets, because users share it.
func TestInstallScript_TracesNoSecret(t *testing.T) {
	token := naming.TokenHash(bootstrapJWT)
	for _, shell := range []string{"sh", "bash", "busybox sh"} {
		name := strings.Fields(shell)
		if _, err := exec.LookPath(name[0]); err != nil {
			continue
		}
		for title, tc := range map[string]struct {
			arguments   []string
			environment []string
		}{
			"DEBUG=1, token in the environment": {arguments: []string{"-s"}, environment: []string{"DEBUG=1"}},
			"DEBUG=1, token by flag": {arguments: []string{"-s", "--", "--token", token},
				environment: []string{"DEBUG=1", "CATTLE_TOKEN="}},
			"a shell with tracing": {arguments: []string{"-x", "-s", "--", "-t", token}},
			"a machine that creates its identity": {arguments: []string{"-s"},
				environment: []string{"DEBUG=1", "CATTLE_ID="}},
			"a proxy with a password": {arguments: []string{"-s"},
				environment: []string{"DEBUG=1", "http_proxy=http://me:hunter2@127.0.0.1:1"}},
		} {
			t.Run(shell+": "+title, func(t *testing.T) {
				w := newWorld(t)
				w.machineClient.EXPECT().Patch("ns", "m", gomock.Any(), gomock.Any()).Return(&clusterv1.Machine{}, nil)
				w.expectUse()
				output, root, err := installWith(t, w, InstallScript(), slices.Concat(name, tc.arguments),
					tc.environment...)
				if err != nil || !strings.Contains(output, "+ find_places") {
					t.Fatalf("%v, or no trace:\n%s", err, output)
				}
				id, err := os.ReadFile(filepath.Join(root, "etc", "cattle-id"))
				if err != nil || len(strings.TrimSpace(string(id))) < 16 {
					t.Fatalf("identity %q, %v", id, err)
				}
				for _, secret := range []string{token, bootstrapJWT, planJWT, strings.TrimSpace(string(id)),
					"hunter2"} {
					if strings.Contains(output, secret) {
						t.Errorf("%s is in the trace:\n%s", secret, output)
					}
				}
			})
		}
	}
}

// TestInstallScript_KeepsItsIdentity: a repeated installation uses the same identity, because the server accepts no
// other.
func TestInstallScript_KeepsItsIdentity(t *testing.T) {
	kept := t.TempDir()
	var seen []string
	for range 2 {
		w := newWorld(t)
		w.machineClient.EXPECT().Patch("ns", "m", gomock.Any(), gomock.Any()).DoAndReturn(
			func(_, _ string, _ types.PatchType, patch []byte, _ ...string) (*clusterv1.Machine, error) {
				var sent clusterv1.Machine
				decodeJSON(t, string(patch), &sent)
				seen = append(seen, sent.Labels[rkev1.MachineIDLabel])
				return nil, apierrors.NewConflict(schema.GroupResource{}, "m", nil) // the answer gets lost
			})
		script := strings.Replace(InstallScript(), "TRIES=4500", "TRIES=1", 1)
		output, _, err := install(t, w, script, "CATTLE_ID=", "CATTLE_AGENT_CONFIG_DIR="+kept)
		if err == nil || !strings.Contains(output, "503") {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	if len(seen) != 2 || len(seen[0]) != 63 || seen[0] != seen[1] {
		t.Errorf("identities %q", seen)
	}
}

func TestInstallScript_ShowsTheRefusalOfTheServer(t *testing.T) {
	w := newWorld(t)
	w.bound("m", "first")
	script := strings.NewReplacer("TRIES=4500", "TRIES=2", "PAUSE=5", "PAUSE=0").Replace(InstallScript())
	output, _, err := install(t, w, script)
	if err == nil ||
		!strings.Contains(output, "answered 409: this machine is already registered with another identity") {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestInstallScript_Refusals(t *testing.T) {
	tests := map[string]struct {
		environment []string
		want        string
	}{
		"another authority than expected": {environment: []string{"CATTLE_CA_CHECKSUM=" + strings.Repeat("0", 64)},
			want: "expected 0000"},
		"damaged agent": {environment: []string{"CATTLE_AGENT_BINARY_CHECKSUM=" + strings.Repeat("0", 64)},
			want: "download has SHA-256"},
		"no role":  {environment: []string{"CATTLE_ROLE_NONE=false"}, want: "at least one role"},
		"no token": {environment: []string{"CATTLE_TOKEN="}, want: "the token must be given"},
		"plain http": {environment: []string{"CATTLE_SERVER=http://127.0.0.1"},
			want: "must be an https URL"},
		"strict without checksum": {environment: []string{"CATTLE_CA_CHECKSUM=", "STRICT_VERIFY=true"},
			want: "strict verification needs"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.machineClient.EXPECT().Patch(gomock.Any(), gomock.Any(), gomock.Any(), gomock.Any()).Times(0)
			output, root, err := install(t, w, InstallScript(), tc.environment...)
			if err == nil || !strings.Contains(output, tc.want) {
				t.Errorf("err %v, output:\n%s", err, output)
			}
			if left, _ := filepath.Glob(filepath.Join(root, "var", "interlock", "*")); len(left) != 0 {
				t.Errorf("the interlock remains: %v", left)
			}
		})
	}
}

func TestInstallScript_FlagWithoutValue(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the install script needs root")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-s", "--", "--no-roles", "--server")
	cmd.Stdin = strings.NewReader(InstallScript())
	output, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "flag --server needs a value") {
		t.Errorf("err %v, output:\n%s", err, output)
	}
}
