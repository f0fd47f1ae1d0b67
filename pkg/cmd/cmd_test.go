package cmd

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	check(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// parse reads options as the command does, from its arguments, an environment and a file.
func parse(t *testing.T, args, environ []string) (*serverOptions, error) {
	t.Helper()
	o := &serverOptions{}
	cmd := &cobra.Command{Use: "server", SilenceErrors: true, SilenceUsage: true}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return complete(cmd, environ) }
	cmd.SetOut(&bytes.Buffer{})
	o.addFlags(cmd.Flags())
	cmd.SetArgs(args)
	return o, cmd.Execute()
}

func TestOptions_FlagsBeforeEnvironmentBeforeFile(t *testing.T) {
	file := write(t, "config.yaml", `
server-url: https://file.example.com
port: 1111
instance-id: from-file
bootstrap-token-ttl: 5m
system-default-registry-pull-secrets: [one, two]
embedded: true
`)
	for name, tc := range map[string]struct {
		args, environ []string
		want          map[string]any
	}{
		"defaults": {
			want: map[string]any{"url": "", "port": 8443, "id": "", "ttl": 30 * time.Minute, "secrets": 0,
				"embedded": false},
		},
		"the file replaces defaults": {
			args: []string{"--config", file},
			want: map[string]any{"url": "https://file.example.com", "port": 1111, "id": "from-file",
				"ttl": 5 * time.Minute, "secrets": 2, "embedded": true},
		},
		"the environment replaces the file": {
			args: []string{"--config", file},
			environ: []string{"DROVER_PORT=2222", "DROVER_SERVER_URL=https://env.example.com", "DROVER_UNRELATED=x",
				"PATH=/bin"},
			want: map[string]any{"url": "https://env.example.com", "port": 2222, "id": "from-file",
				"ttl": 5 * time.Minute, "secrets": 2, "embedded": true},
		},
		"a flag replaces both": {
			args:    []string{"--config", file, "--port", "3333", "--embedded=false"},
			environ: []string{"DROVER_PORT=2222"},
			want: map[string]any{"url": "https://file.example.com", "port": 3333, "id": "from-file",
				"ttl": 5 * time.Minute, "secrets": 2, "embedded": false},
		},
		"the variables of a Service named drover are not settings": {
			args: []string{"--config", file},
			environ: []string{"DROVER_PORT=tcp://10.43.0.7:443", "DROVER_SERVICE_PORT=443",
				"DROVER_PORT_443_TCP_PROTO=tcp"},
			want: map[string]any{"url": "https://file.example.com", "port": 1111, "id": "from-file",
				"ttl": 5 * time.Minute, "secrets": 2, "embedded": true},
		},
		"the environment names the file": {
			environ: []string{"DROVER_CONFIG=" + file},
			want: map[string]any{"url": "https://file.example.com", "port": 1111, "id": "from-file",
				"ttl": 5 * time.Minute, "secrets": 2, "embedded": true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(t, tc.args, tc.environ)
			check(t, err)
			got := map[string]any{
				"url": o.settings.ServerURL, "port": o.port, "id": o.instanceID, "ttl": o.settings.BootstrapTokenTTL,
				"secrets": len(o.settings.SystemDefaultRegistryPullSecrets), "embedded": o.embedded,
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOptions_ErrorsNameTheSource(t *testing.T) {
	for name, tc := range map[string]struct {
		file    string
		environ []string
		want    string
	}{
		"an unknown key": {file: "sever-url: x\n",
			want: "unknown keys sever-url; keys are named like the flags"},
		"a value of the wrong kind": {file: "port: many\n", want: "--port: "},
		"invalid YAML":              {file: "{", want: "read config file"},
		"a bad environment variable": {environ: []string{"DROVER_PORT=many"},
			want: `DROVER_PORT: invalid argument "many"`},
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			if tc.file != "" {
				args = []string{"--config", write(t, "config.yaml", tc.file)}
			}
			if _, err := parse(t, args, tc.environ); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// run runs the program and returns its exit code and output.
func run(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	root := NewCommand(nil)
	var buffer printedBuffer
	root.SetOut(&buffer)
	root.SetErr(&buffer)
	code = execute(t.Context(), root, args)
	return code, buffer.next()
}

func TestRoot_HelpVersionAndMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		args     []string
		wantCode int
		want     []string
	}{
		"help lists the commands": {[]string{"--help"}, 0,
			[]string{"server", "agent", "version", "completion"}},
		"the server's help has examples": {[]string{"server", "--help"}, 0,
			[]string{"--embedded", "--server-url address", "empty with --embedded means this host's address",
				"DROVER_SERVER_URL", "drover server --kubeconfig"}},
		"the help has placeholders": {[]string{"server", "--help"}, 0,
			[]string{"--log-level level", "--log-format format", "--admission mode", "--capi mode", "--crds mode"}},
		"version":            {[]string{"version"}, 0, []string{"drover dev"}},
		"completion":         {[]string{"completion", "bash"}, 0, []string{"bash completion"}},
		"an unknown command": {[]string{"sever"}, 1, []string{`unknown command "sever"`, "server"}},
		"an unknown command of the agent": {[]string{"agent", "sentinal"}, 1,
			[]string{`unknown command "sentinal" for "drover agent"`, "drover agent --help"}},
		"an argument of the UI": {[]string{"ui", "demo"}, 1, []string{`unexpected argument "demo"`}},
		"a UI for other computers": {[]string{"ui", "--address", "0.0.0.0:8080"}, 1,
			[]string{`--address: "0.0.0.0:8080" is not a loopback address`, "SSH tunnel"}},
		"an unknown shell": {[]string{"completion", "cash"}, 1,
			[]string{`unknown command "cash" for "drover completion"`}},
		"the agent alone shows its help":  {[]string{"agent"}, 0, []string{"sentinel", "validate-config"}},
		"completion alone shows its help": {[]string{"completion"}, 0, []string{"bash", "zsh"}},
		"an argument of version": {[]string{"version", "agent"}, 1,
			[]string{`unexpected argument "agent"; see 'drover version --help'`}},
		"unknown arguments of the agent": {[]string{"agent", "sentinel", "now"}, 1, []string{"unknown command"}},
		"without an address for machines": {[]string{"server", "--kubeconfig", "x"}, 1,
			[]string{"--server-url is required"}},
		"two management clusters": {[]string{"server", "--server-url", "https://x", "--embedded", "--kubeconfig",
			"x"}, 1, []string{"exclude each other"}},
		"an invalid registry": {[]string{"server", "--server-url", "https://x", "--system-default-registry",
			"https://r"}, 1, []string{`--system-default-registry: "https://r" must be a host`}},
		"an invalid registry of images": {[]string{"images", "--system-default-registry", "https://r"}, 1,
			[]string{`--system-default-registry: "https://r" must be a host`}},
		"an invalid registry of preview": {[]string{"explain", "demo", "--system-default-registry", "https://r"}, 1,
			[]string{`--system-default-registry: "https://r" must be a host`}},
		"all wrong options at once": {[]string{"server", "--kubeconfig", "/none", "--server-url", "http://x", "--capi",
			"bogus", "--core-writes", "few", "--crds", "x", "--cluster-agent-image", "A B",
			"--port", "70000", "--data-dir", "", "--health-address", "8081", "--profiler-address", "x",
			"--machine-provision-image-pull-policy", "always", "--registration-commands", "token"}, 1, []string{
			`--server-url: "http://x" is not an address that machines can reach; use https://HOST or https://HOST:PORT`,
			`--capi: "bogus" is unknown; use embedded or external`,
			`--core-writes: "few" is unknown; use plain or thrifty`,
			`--crds: "x" is unknown; use install or host`, `--cluster-agent-image: "A B" is not an image`,
			"--port: 70000 is not a port", "--data-dir: is required", "--health-address: ", "--profiler-address: ",
			`--machine-provision-image-pull-policy: "always" is unknown; use Always, IfNotPresent or Never`,
			`--registration-commands: "token" is unknown; use secret or status`,
		}},
		"writes of a core in another process": {[]string{"server", "--server-url", "https://x", "--capi", "external",
			"--core-writes", "thrifty"}, 1, []string{"--core-writes: thrifty has no effect with --capi=external"}},
		"a certificate without a key": {[]string{"server", "--server-url", "https://x", "--tls-cert-file", "x"}, 1,
			[]string{"belong together"}},
		"an unknown log level": {[]string{"server", "--log-level", "loud"}, 1, []string{`"loud" is unknown`}},
		"unexpected arguments": {[]string{"server", "now"}, 1,
			[]string{`unexpected argument "now"; see 'drover server --help'`}},
		"without a URL": {[]string{"ping"}, 1, []string{"URL is missing; see 'drover ping --help'"}},
		"without a file to restore": {[]string{"restore"}, 1,
			[]string{"FILE is missing; see 'drover restore --help'"}},
		"without a file of the agent": {[]string{"agent", "validate-config"}, 1,
			[]string{"FILE is missing; see 'drover agent validate-config --help'"}},
		"two files of the agent": {[]string{"agent", "validate-connection", "a", "b"}, 1,
			[]string{`unexpected argument "b"; see 'drover agent validate-connection --help'`}},
		"without a cluster": {[]string{"diagnose"}, 1,
			[]string{"CLUSTER is missing; see 'drover diagnose --help'"}},
		"without a cluster to pack": {[]string{"support-bundle"}, 1,
			[]string{"name clusters, or give --all; see 'drover support-bundle --help'"}},
		"two clusters": {[]string{"explain", "a", "b"}, 1,
			[]string{`unexpected argument "b"; see 'drover explain --help'`}},
		"without a file to preview": {[]string{"preview"}, 1,
			[]string{"FILE is missing; use -f FILE; see 'drover preview --help'"}},
		"a file without its flag": {[]string{"preview", "cluster.yaml"}, 1,
			[]string{`unexpected argument "cluster.yaml"; see 'drover preview --help'`}},
		"an unknown flag": {[]string{"diagnose", "a", "--x"}, 1,
			[]string{"unknown flag: --x; see 'drover diagnose --help'"}},
		"an unknown flag of no command": {[]string{"--x"}, 1, []string{"unknown flag: --x; see 'drover --help'"}},
		"a flag of the wrong kind": {[]string{"ping", "https://x", "--timeout=long"}, 1,
			[]string{`invalid argument "long" for "--timeout"`, "see 'drover ping --help'"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := run(t, tc.args...)
			if code != tc.wantCode {
				t.Errorf("exit code %d, want %d", code, tc.wantCode)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("output lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

// The program is the agent if it is started under the agent's name.
func TestMain_AgentByName(t *testing.T) {
	if code := Main(t.Context(), []string{"/usr/local/bin/rancher-system-agent", "validate-config", "/does/not/exist"},
		nil); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if code := Main(t.Context(), []string{"/usr/local/bin/drover", "validate-config", "/does/not/exist"},
		nil); code != 1 {
		t.Errorf("the server's exit code is %d", code)
	}
	if code := Main(t.Context(), []string{"/usr/local/bin/rancher-system-agent", "sentinal"}, nil); code != 1 {
		t.Errorf("the agent's exit code is %d", code)
	}
	if code := Main(t.Context(), []string{"/usr/local/bin/rancher-system-agent", "--version"}, nil); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

type probe struct{ err error }

func (p probe) Ready() error { return p.err }

func TestHealth(t *testing.T) {
	for path, want := range map[string][2]int{
		"/healthz": {200, 200}, "/readyz": {200, 503}, "/metrics": {200, 200}, "/other": {404, 404},
	} {
		for i, s := range []probe{{}, {errors.New("caches are not filled yet")}} {
			w := httptest.NewRecorder()
			healthHandler(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != want[i] {
				t.Errorf("%s of %v: %d, want %d", path, s, w.Code, want[i])
			}
		}
	}
}

func TestProfiler(t *testing.T) {
	for path, want := range map[string]int{"/debug/pprof/": 200, "/debug/pprof/heap?gc=1": 200,
		"/debug/pprof/goroutine": 200, "/debug/pprof/none": 404, "/metrics": 404} {
		w := httptest.NewRecorder()
		if profilerHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != want ||
			w.Body.Len() == 0 {
			t.Errorf("%s: status %d and %d bytes, want status %d and a body", path, w.Code, w.Body.Len(), want)
		}
	}
}

func TestProxyEnvironment(t *testing.T) {
	got := proxyEnvironment([]string{"HTTP_PROXY=http://p", "NO_PROXY=a,b", "HOME=/root", "HTTPS_PROXY=x=y"})
	want := map[string]string{"HTTP_PROXY": "http://p", "NO_PROXY": "a,b", "HTTPS_PROXY": "x=y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("proxy (-want +got):\n%s", diff)
	}
}

// Certificates are valid for the address in --server-url, and machines learn their authority.
func TestCertificate_CoversTheServerURL(t *testing.T) {
	o := &serverOptions{dataDir: t.TempDir(), embedded: true}
	o.settings.ServerURL = "https://drover.example.com:8443"
	config, err := o.certificate(t.Context(), nil, logrus.StandardLogger())
	check(t, err)
	served, err := config.GetCertificate(&tls.ClientHelloInfo{})
	check(t, err)
	leaf := served.Leaf
	if err := leaf.VerifyHostname("drover.example.com"); err != nil {
		t.Error(err)
	}
	if !strings.Contains(o.settings.CACerts, "BEGIN CERTIFICATE") {
		t.Errorf("authority: %q", o.settings.CACerts)
	}
	again := &serverOptions{dataDir: o.dataDir, embedded: true}
	again.settings.ServerURL = o.settings.ServerURL
	_, err = again.certificate(t.Context(), nil, logrus.StandardLogger())
	check(t, err)
	if again.settings.CACerts != o.settings.CACerts {
		t.Error("the authority must stay the same over restarts")
	}
}
