package connect

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
)

func TestInstallScriptSHA256_IsThatOfTheServedScript(t *testing.T) {
	w := newWorld(t)
	w.options.AssetsDir = t.TempDir()
	digest, err := InstallScriptSHA256(w.options)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	agent := filepath.Join(w.options.AssetsDir, ownAgent())
	for i, step := range []struct {
		name   string
		change func() error
	}{
		{"with the running program", func() error { return nil }},
		{"with an agent in the directory", func() error { return os.WriteFile(agent, []byte("one"), 0o600) }},
		{"with another agent", func() error { return os.WriteFile(agent, []byte("another"), 0o600) }},
		{"with another agent of the same size", func() error {
			if err := os.WriteFile(agent, []byte("neither"), 0o600); err != nil {
				return err
			}
			return os.Chtimes(agent, noon, noon.Add(time.Hour))
		}},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		script := record(handler, newRequest(t, http.MethodGet, installPath)).Body.String()
		if got, want := digest(), naming.SHA256(script); got != want {
			t.Errorf("%s: the digest is %s, want %s", step.name, got, want)
		}
		if seen[digest()] = true; len(seen) != i+1 {
			t.Errorf("%s: the digest does not change", step.name)
		}
	}
	w.options.ServerURL = ""
	if digest, err := InstallScriptSHA256(w.options); err != nil || digest() != "" {
		t.Errorf("without an address the digest is %q, %v", digest(), err)
	}
}

// runInsecure runs the insecure command for hosts with a server that sends a script.
func runInsecure(t *testing.T, script, pinned string) (output string, err error) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == installPath {
			text(w, script)
		}
	}))
	defer server.Close()
	status := registration.Decide(registration.Facts{
		Registration: &mgmtv3.ClusterRegistrationToken{Spec: mgmtv3.ClusterRegistrationTokenSpec{ClusterName: "c-m-1",
			Roles: []string{mgmtv3.HostRoleWorker}}},
		Fresh: "fresh", Now: noon, Environment: []corev1.EnvVar{{Name: "GREETING", Value: "it's $HOME"}},
		Settings: registration.Settings{ServerURL: server.URL, InstallScriptSHA256: naming.SHA256(pinned)},
	}).Status
	bin, temporary := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "sudo"), []byte("#!/bin/sh\nexec env \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "sh", "-c", status.InsecureNodeCommand+" --label 'a=b c'")
	command.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + temporary, "HTTPS_PROXY="}
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err = command.Run()
	if left, readErr := os.ReadDir(temporary); readErr != nil || len(left) > 0 {
		t.Errorf("the command leaves %v, %v", left, readErr)
	}
	return out.String(), err
}

// The insecure command runs the script of its server, and no other script.
func TestInsecureNodeCommand_RunsOnlyThePinnedScript(t *testing.T) {
	const script = "#!/bin/sh\necho \"arguments: $* <$6> for $GREETING\"\n"
	output, err := runInsecure(t, script, script)
	const want = "--label cattle.io/os=linux --token {token} --worker --label a=b c <{token}> for it's $HOME"
	if err != nil || !strings.Contains(output, want) {
		t.Errorf("%v, output: %s", err, output)
	}
	for name, other := range map[string]string{"a changed script": script + "echo changed\n", "an empty answer": ""} {
		output, err := runInsecure(t, other, script)
		if err == nil || !strings.Contains(output, "The script has changed: get a new command.") ||
			strings.Contains(output, "arguments:") {
			t.Errorf("%s: %v, output: %s", name, err, output)
		}
	}
}

// A host beyond a limit waits and retries.
func TestInstallScript_RetriesBeyondALimit(t *testing.T) {
	w := newWorld(t)
	w.options.MaxWaitingHosts = 1
	w.withHosts(func(*corev1.Secret) {})
	w.add(w.secrets, machineRequest("c-m-1", "custom-waits"))
	output, _, err := install(t, w, impatient(), "CATTLE_TOKEN="+hostToken, "CATTLE_ROLE_NONE=",
		"CATTLE_ROLE_WORKER=true")
	if err == nil || !strings.Contains(output, "answered 429: too many new hosts of this cluster are waiting; try "+
		"again, trying again every") || !strings.Contains(output, "gave up asking") {
		t.Errorf("%v, output: %s", err, output)
	}
}
