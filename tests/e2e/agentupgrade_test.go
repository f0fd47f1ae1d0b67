package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/testbed/rig"
)

// beforeUpgrades is the last commit whose agent knows nothing of its own upgrade.
const beforeUpgrades = "802fd2ae"

// formerAgent returns an agent that knows nothing of its own upgrade. AGENT_BEFORE names one. Otherwise it is built
// from beforeUpgrades. A clone without that commit builds the present agent without a version, which behaves the same:
// it neither reports its version nor notes its reports.
func formerAgent(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("AGENT_BEFORE"); path != "" {
		return path
	}
	root, err := filepath.Abs("../..")
	must(t, err)
	out := filepath.Join(t.TempDir(), "agent")
	source := filepath.Join(t.TempDir(), "source")
	must(t, os.Mkdir(source, 0o755))
	archive := exec.CommandContext(t.Context(), "sh", "-c", "git archive "+beforeUpgrades+" | tar -x -C '"+source+"'")
	archive.Dir = root
	if text, err := archive.CombinedOutput(); err != nil {
		t.Logf("the commit %s is not in this clone: %s", beforeUpgrades, text)
	}
	if _, err := os.Stat(filepath.Join(source, "go.mod")); err != nil {
		source = root
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags",
		"-s -w -X github.com/drover-io/drover/pkg/cmd.Version=", "-o", out, ".")
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the former agent: %v\n%s", err, text)
	}
	return out
}

// agentWorld is a world whose server offers the agent in a file.
type agentWorld struct {
	*world
	assets string
}

func newAgentWorld(t *testing.T, name string) *agentWorld {
	t.Helper()
	assets := t.TempDir()
	must(t, os.Chmod(assets, 0o755))
	return &agentWorld{newWorldWith(t, name, func(o *rig.Options) {
		o.ServerArgs = append(o.ServerArgs, "--assets-dir="+assets)
	}), assets}
}

// offer makes the server offer the agent with that content.
func (w *agentWorld) offer(content []byte) {
	w.t.Helper()
	path := filepath.Join(w.assets, "rancher-system-agent-"+runtime.GOARCH)
	must(w.t, os.WriteFile(path+".new", content, 0o755))
	must(w.t, os.Rename(path+".new", path))
}

func (w *agentWorld) patch(name string, patch map[string]any) {
	w.t.Helper()
	body, err := json.Marshal(patch)
	must(w.t, err)
	_, err = w.objects.Resource(clustersResource).Namespace(namespace).Patch(w.t.Context(), name, types.MergePatchType,
		body, metav1.PatchOptions{})
	must(w.t, err)
}

func (w *agentWorld) request(name, text string) {
	w.t.Helper()
	w.patch(name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		rkev1.AgentUpgradeAnnotation: text,
	}}})
}

// condition returns status and message of a condition of the control plane.
func (w *agentWorld) condition(name, kind string) (status, message string, err error) {
	found, err := w.objects.Resource(controlPlanesResource).Namespace(namespace).Get(w.t.Context(), name,
		metav1.GetOptions{})
	if err != nil {
		return "", "", err
	}
	all, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
	for _, one := range all {
		if c, ok := one.(map[string]any); ok && c["type"] == kind {
			message, _ := c["message"].(string)
			return fmt.Sprint(c["status"]), message, nil
		}
	}
	return "", "", nil
}

func (w *agentWorld) onEach(command string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, machine := range w.Lab.List() {
		text, err := w.Lab.Exec(w.t.Context(), machine.Name, command)
		if err != nil {
			w.t.Fatalf("%s on %s: %v: %s", command, machine.Name, err, text)
		}
		out[machine.Name] = strings.TrimSpace(text)
	}
	return out
}

// kubernetesCounters are systemd's counters of the units of Kubernetes. They show every restart.
const kubernetesCounters = "systemctl show -p Id,NRestarts,ActiveEnterTimestamp,MainPID rke2-server rke2-agent"

const agentSum = "sha256sum /usr/local/bin/rancher-system-agent | cut -d' ' -f1"

// TestAgentUpgrade upgrades the agents of a cluster of three servers and a worker, from one that knows nothing of
// upgrades. Kubernetes does not restart. An upgrade that is killed again and again comes to its end. A broken agent
// goes back by itself, and to no second machine.
func TestAgentUpgrade(t *testing.T) {
	former, err := os.ReadFile(formerAgent(t))
	must(t, err)
	current, err := os.ReadFile(filepath.Join(binFolder(t), "drover"))
	must(t, err)
	w := newAgentWorld(t, "agentup")
	w.offer(former)
	must(t, w.Apply(t.Context(), manifest("agentup", "v1.36.3+rke2r1", pool{"servers", 3, "ec"},
		pool{"workers", 1, "w"})))
	w.awaitReady("agentup")
	before, sums := w.onEach(kubernetesCounters), w.onEach(agentSum)
	if distinct := slices.Compact(slices.Sorted(maps.Values(sums))); len(distinct) != 1 {
		t.Fatalf("agents before: %v", sums)
	}

	w.offer(current)
	w.request("agentup", "first")
	// The upgrade on the worker, which is the first, is killed whenever it runs.
	for name := range sums {
		if strings.Contains(name, "workers") {
			_, err := w.Lab.Exec(t.Context(), name, "systemd-run --unit=killer sh -c 'n=0; while [ $n -lt 6 ]; do "+
				"systemctl kill -s KILL rancher-system-agent-upgrade && n=$((n + 1)); sleep 1.3; done'")
			must(t, err)
		}
	}
	w.awaitAgents("agentup", "True")
	after := w.onEach(agentSum)
	for name, sum := range after {
		if sum == sums[name] {
			t.Errorf("%s has its former agent", name)
		}
	}
	if diff := cmp.Diff(before, w.onEach(kubernetesCounters)); diff != "" {
		t.Errorf("units of Kubernetes (-before +after):\n%s", diff)
	}
	for name, left := range w.onEach("ls -A /var/lib/rancher/agent/upgrade; ls /usr/local/bin /etc/systemd/system | " +
		"grep -c rancher-system-agent.upgrade || true") {
		if strings.Contains(left, "backup") || !strings.HasSuffix(left, "0") {
			t.Errorf("%s has leftovers: %q", name, left)
		}
	}

	w.offer([]byte("#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" != --out ] || cp -p " +
		"/var/lib/rancher/agent/rancher2_connection_info.json \"$2\"; shift; done\n[ \"$1\" != sentinel ]\n"))
	w.request("agentup", "broken")
	w.awaitAgents("agentup", "False")
	_, message, err := w.condition("agentup", "AgentsUpgraded")
	must(t, err)
	if !strings.Contains(message, "workers") || !strings.Contains(message, "the new agent ended") {
		t.Errorf("condition %q", message)
	}
	if diff := cmp.Diff(after, w.onEach(agentSum)); diff != "" {
		t.Errorf("agents after a broken upgrade (-before +after):\n%s", diff)
	}
	for name, state := range w.onEach("systemctl is-active rancher-system-agent") {
		if state != "active" {
			t.Errorf("the agent of %s is %s", name, state)
		}
	}
	if status, message, err := w.condition("agentup", "Ready"); status != "True" {
		t.Errorf("a failed upgrade of an agent makes the cluster %s: %s, %v", status, message, err)
	}
	if diff := cmp.Diff(before, w.onEach(kubernetesCounters)); diff != "" {
		t.Errorf("units of Kubernetes (-before +after):\n%s", diff)
	}
}

// awaitAgents waits for the condition AgentsUpgraded, after it had another status.
func (w *agentWorld) awaitAgents(name, want string) {
	w.t.Helper()
	seen := false
	for range 3 { // four machines, one after the other
		if w.comesTrue(func() bool {
			status, _, err := w.condition(name, "AgentsUpgraded")
			seen = seen || status == "Unknown"
			return err == nil && seen && status == want
		}) {
			return
		}
	}
	status, message, err := w.condition(name, "AgentsUpgraded")
	w.t.Fatalf("condition AgentsUpgraded is %q %q, want %s (%v)", status, message, want, err)
}

// TestAgentEnvironment: an edit of the cluster's variables reaches agents that run, and so does their removal.
func TestAgentEnvironment(t *testing.T) {
	w := newAgentWorld(t, "agentenv")
	must(t, w.Apply(t.Context(), cluster("agentenv", "v1.36.3+k3s1")))
	w.awaitReady("agentenv")
	counters := "systemctl show -p NRestarts,ActiveEnterTimestamp,MainPID k3s"
	before := w.onEach(counters)
	environment := "tr '\\0' '\\n' </proc/$(systemctl show -p MainPID --value rancher-system-agent)/environ | " +
		"grep -E '^(NO_PROXY|EXTRA|CATTLE_LOGLEVEL)=' | sort"
	for _, step := range []struct {
		variables []map[string]any
		want      string
		// mayRestart is true for a change of proxies. Kubernetes needs them too, and its installers restart it for
		// that.
		mayRestart bool
	}{
		{[]map[string]any{
			{"name": "EXTRA", "value": "b $c\"d"}, {"name": "CATTLE_AGENT_LOGLEVEL", "value": "debug"},
		}, "CATTLE_LOGLEVEL=debug\nEXTRA=b $c\"d", false},
		{[]map[string]any{{"name": "NO_PROXY", "value": "other"}}, "CATTLE_LOGLEVEL=info\nNO_PROXY=other", true},
		{nil, "CATTLE_LOGLEVEL=info", true},
	} {
		w.patch("agentenv", map[string]any{"spec": map[string]any{"agentEnvVars": step.variables}})
		w.eventually("the environment "+step.want, func() (bool, error) {
			for _, machine := range w.Lab.List() {
				text, err := w.Lab.Exec(t.Context(), machine.Name, environment)
				if err != nil || strings.TrimSpace(text) != step.want {
					return false, fmt.Errorf("%q, %w", text, err)
				}
			}
			return true, nil
		})
		w.awaitReady("agentenv")
		if diff := cmp.Diff(before, w.onEach(counters)); diff != "" && !step.mayRestart {
			t.Errorf("units of Kubernetes after %q (-before +after):\n%s", step.want, diff)
		}
		before = w.onEach(counters)
	}
}
