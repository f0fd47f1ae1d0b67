package render_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Played agents. They report at once, never, or end again and again. PLAYED_PID is the process id that the played
// systemd gives them.
const (
	playedAgent = `#!/bin/sh
# VERSION
case $1 in
sentinel) REPORT ;;
validate-connection) grep -q server "$2" ;;
set-connection) shift; while [ $# -gt 1 ]; do case $1 in --server) s=$2 ;; --out) o=$2 ;; esac; shift; done
	echo "{\"server\":\"$s\"}" >"$o" ;;
esac
`
	reports = `echo "$PLAYED_PID VERSION" >"$ROOT/var/upgrade/reported"`
	silent  = `:`
	crashes = `echo 9 >"$ROOT/nrestarts"`
)

func playedProgram(version, report string) string {
	return strings.ReplaceAll(strings.Replace(playedAgent, "REPORT", report, 1), "VERSION", version)
}

// playedSystemctl starts the agent as a process of its own number, and notes what runs.
const playedSystemctl = `#!/bin/sh
read -r n <"$ROOT/steps"
n=$((n + 1))
echo $n >"$ROOT/steps"
[ "$n" != "${KILL_AT:-}" ] || kill -9 0
echo "$*" >>"$ROOT/systemctl.log"
case "$1" in
restart)
	pid=$(($(cat "$ROOT/pid") + 1))
	echo $pid >"$ROOT/pid"
	echo 0 >"$ROOT/nrestarts"
	sed -n 's/^# //p' "$ROOT/usr/bin/rancher-system-agent" | head -n 1 >"$ROOT/running"
	cat "$ROOT/units/rancher-system-agent.env" >"$ROOT/running-env" 2>/dev/null || :
	PLAYED_PID=$pid "$ROOT/usr/bin/rancher-system-agent" sentinel ;;
show)
	case "$3" in
	MainPID) echo "MainPID=$(cat "$ROOT/pid")" ;;
	NRestarts) echo "NRestarts=$(cat "$ROOT/nrestarts")" ;;
	esac ;;
esac
exit 0
`

// playedCommand is a program that kills the whole script instead of running for the time with that number.
const playedCommand = `#!/bin/sh
read -r n <"$ROOT/steps"
n=$((n + 1))
echo $n >"$ROOT/steps"
[ "$n" != "${KILL_AT:-}" ] || kill -9 0
exec REAL "$@"
`

// upgradeHost is a machine with an installed agent and a server that offers another one.
type upgradeHost struct {
	t      *testing.T
	root   string
	server *httptest.Server
	assets map[string]string
	// stale is how many downloads another server answers.
	stale int
	pin   render.AgentPin
	env   []rkev1.EnvVar
	extra []string
}

func newUpgradeHost(t *testing.T, next string) *upgradeHost {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("the script needs root")
	}
	h := &upgradeHost{t: t, root: t.TempDir(), assets: map[string]string{}}
	h.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := h.assets[r.URL.Path]
		if !ok {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		if h.stale > 0 && r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/assets/") {
			h.stale--
			content = "#!/bin/sh\n# of a server that is not upgraded yet\n"
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		fmt.Fprint(w, content)
	}))
	t.Cleanup(h.server.Close)
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw}))
	h.assets["/cacerts"], h.assets["/assets/rancher-system-agent-amd64"] = authority, next
	h.pin = render.AgentPin{Command: "v2", Agent: &render.Agent{Version: "v2", Server: h.server.URL,
		CAChecksum: naming.CAChecksum(authority), Sums: map[string]string{"amd64": fmt.Sprintf("%x",
			sha256.Sum256([]byte(next)))}}}
	h.env = []rkev1.EnvVar{{Name: "HTTPS_PROXY", Value: `http://u:p"$w@proxy's:3128`},
		{Name: "CATTLE_AGENT_LOGLEVEL", Value: "debug"}, {Name: "CATTLE_AGENT_CONFIG_DIR", Value: "/elsewhere"}}
	h.install()
	return h
}

func (h *upgradeHost) write(path, content string, mode os.FileMode) {
	h.t.Helper()
	path = filepath.Join(h.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		h.t.Fatal(err)
	}
}

func (h *upgradeHost) read(path string) string {
	h.t.Helper()
	content, err := os.ReadFile(filepath.Join(h.root, path))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return string(content)
}

func (h *upgradeHost) install() {
	h.t.Helper()
	r := h.root
	h.write("usr/bin/rancher-system-agent", playedProgram("old", reports), 0o755)
	h.write("units/rancher-system-agent.service", "[Service]\nExecStart="+r+"/usr/bin/rancher-system-agent sentinel\n",
		0o644)
	h.write("units/rancher-system-agent.env", "NO_PROXY=kept\nHTTPS_PROXY=former\nGONE=former\n", 0o600)
	h.write("etc/config.yaml", "workDirectory: "+r+"/var/work\ninterlockDirectory: "+r+"/var/interlock\n"+
		"connectionInfoFile: "+r+"/var/connection.json\n", 0o600)
	h.write("var/connection.json", `{"server":"https://former"}`, 0o600)
	h.write("var/upgrade/reported", "1 old\n", 0o600)
	h.write("stubs/systemctl", playedSystemctl, 0o755)
	h.write("stubs/sync", "#!/bin/sh\n", 0o755) // of the whole machine, it takes long where others write
	for _, name := range []string{"mv", "cp", "ln", "rm", "curl"} {
		program, err := exec.LookPath(name)
		if err != nil {
			h.t.Fatal(err)
		}
		h.write("stubs/"+name, strings.ReplaceAll(playedCommand, "REAL", program), 0o755)
	}
	for name, value := range map[string]string{"pid": "1", "nrestarts": "0", "steps": "0\n", "running": "old\n"} {
		h.write(name, value, 0o600)
	}
}

// deliver writes the files of the step as an agent does.
func (h *upgradeHost) deliver() render.AgentStep {
	h.t.Helper()
	node := render.NodeOf(basicInput(distro.RKE2, "worker"))
	node.Dirs.Provisioning = filepath.Join(h.root, "capr")
	step, ok := node.AgentStep(h.pin, h.env)
	if !ok {
		h.t.Fatal("the pin has no step")
	}
	p := node.WithAgentStep(mustPlan(h.t, basicInput(distro.RKE2, "worker")), h.pin, h.env)
	for _, file := range p.Files {
		if strings.HasPrefix(file.Path, h.root) {
			content, err := base64.StdEncoding.DecodeString(file.Content)
			if err != nil {
				h.t.Fatal(err)
			}
			h.write(strings.TrimPrefix(file.Path, h.root), string(content), 0o600)
		}
	}
	return step
}

// script runs the script, and returns its output. It may be killed at a step.
func (h *upgradeHost) script(killAt int, args ...string) (string, error) {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "/bin/sh", args...)
	cmd.Env = append([]string{"PATH=" + h.root + "/stubs:" + os.Getenv("PATH"), "ROOT=" + h.root,
		"CATTLE_AGENT_CONFIG=" + h.root + "/etc/config.yaml", "CATTLE_AGENT_SYSTEMD_DIR=" + h.root + "/units",
		"AGENT_UPGRADE_PAUSE=0", "AGENT_UPGRADE_TRIES=3", "ARCH=amd64"}, h.extra...)
	if killAt > 0 {
		h.write("steps", "0\n", 0o600)
		cmd.Env = append(cmd.Env, "KILL_AT="+strconv.Itoa(killAt))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// start is the instruction of the plan.
func (h *upgradeHost) start() {
	h.t.Helper()
	h.deliver()
	dir := h.root + "/capr/agent-upgrade"
	if out, err := h.script(0, dir+"/agent-upgrade.sh", "start", dir+"/settings"); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
}

// serve is the service that the instruction starts.
func (h *upgradeHost) serve() string {
	h.t.Helper()
	out, err := h.script(0, h.root+"/var/upgrade/upgrade.sh", "run", h.root+"/var/upgrade")
	if err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// inventory is the content of all files that belong to the agent.
func (h *upgradeHost) inventory() map[string]string {
	h.t.Helper()
	out := map[string]string{}
	for _, dir := range []string{"etc", "var", "usr", "units"} {
		err := filepath.WalkDir(filepath.Join(h.root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				info, statErr := entry.Info()
				if statErr != nil {
					return statErr
				}
				name := strings.TrimPrefix(path, h.root+"/")
				out[name] = info.Mode().String() + " " + h.read(name)
			}
			return err
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	for _, name := range []string{"var/upgrade/reported", "var/upgrade/upgrade.sh", "var/upgrade/settings"} {
		delete(out, name)
	}
	return out
}

// check compares the state at the end of an upgrade with what is expected.
func (h *upgradeHost) check(before map[string]string, id, result string) {
	h.t.Helper()
	want := maps.Clone(before)
	running := "old\n"
	if result == "succeeded" {
		running = "new\n"
		want["usr/bin/rancher-system-agent"] = "-rwxr-xr-x " + h.assets["/assets/rancher-system-agent-amd64"]
		want["var/connection.json"] = "-rw------- {\"server\":\"" + h.server.URL + "\"}\n"
		want["units/rancher-system-agent.env"] = "-rw------- NO_PROXY=kept\nGONE=former\n# Cluster: begin\n" +
			`HTTPS_PROXY="http://u:p\"\$w@proxy's:3128"` + "\nCATTLE_LOGLEVEL=\"debug\"\n# Cluster: end\n"
	}
	got := h.inventory()
	if text := got["var/upgrade/result"]; !strings.HasPrefix(text, "-rw------- "+id+" "+result) {
		h.t.Errorf("result %q, want %s %s", text, id, result)
	}
	delete(got, "var/upgrade/result")
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("files (-want +got):\n%s", diff)
	}
	if got := h.read("running"); got != running {
		h.t.Errorf("agent %q runs, want %q", got, running)
	}
}
