package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/drover-io/drover/tests/testbed/distro"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// TestStandInDistribution checks the stand-in's contract with plans, without a plan. The installer image's run.sh
// installs it. It serves Kubernetes, answers every probe of a plan, accepts a worker and survives a reboot.
func TestStandInDistribution(t *testing.T) {
	bin := binFolder(t)
	create, l := openLab(t, "distro")
	for _, runtime := range []distro.Runtime{distro.K3s, distro.RKE2} {
		t.Run(string(runtime), func(t *testing.T) {
			server, worker := create(t, string(runtime)+"-server"), create(t, string(runtime)+"-worker")
			version := "v1.36.3+" + string(runtime) + "1"

			server.configure(runtime, `{"cluster-init": true, "token": "t1", "agent-token": "t2", "node-label": ["a=b"],
				"kube-controller-manager-arg": ["cert-dir=`+distro.NewLayout(runtime, "").Data+`/server/tls/kube-controller-manager", "secure-port=10257"]}`)
			start := time.Now()
			server.install(bin, runtime, version, "server")
			server.eventually("cat "+stamp(runtime), "1")
			kubectl := kubectlOf(runtime)
			server.eventually(kubectl+"get --raw /readyz", "ok")
			t.Logf("API ready after %s", time.Since(start).Round(time.Millisecond))
			server.eventually(kubectl+"get node "+server.Name+
				" -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status} {.status.nodeInfo.kubeletVersion} "+
				"{.metadata.labels.a} {.spec.providerID}'",
				"True "+version+" b "+string(runtime)+"://"+server.Name)
			server.eventually(kubectl+"get node "+server.Name+
				" -o jsonpath='{.metadata.labels.node-role\\.kubernetes\\.io/control-plane}'", "true")
			for _, probe := range probes(runtime) {
				server.eventually("curl -fsS -o /dev/null -w '%{http_code}' "+probe, "200")
			}

			worker.configure(runtime, `{"server": "https://`+server.Address.String()+`:`+port(runtime)+
				`", "token": "t2"}`)
			worker.install(bin, runtime, version, "agent")
			worker.eventually("curl -fsS http://localhost:10248/healthz", "ok")
			server.eventually(kubectl+"get node "+worker.Name+
				" -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'", "True")

			manifest := "/var/lib/rancher/" + string(runtime) + "/server/manifests/below/config.yaml"
			object := func(of string) []byte {
				return []byte(
					"kind: ConfigMap\napiVersion: v1\nmetadata: {name: deployed, namespace: below}\ndata: {of: " + of +
						"}\n" +
						"---\nkind: Namespace\napiVersion: v1\nmetadata: {name: below}\n")
			}
			for _, of := range []string{"first", "second"} {
				server.write(manifest, object(of), 0o600)
				server.eventually(kubectl+"-n below get configmap deployed -o jsonpath='{.data.of}'", of)
			}

			restarts := server.run("systemctl show -p NRestarts --value " + unit(runtime))
			must(t, l.SetPower(t.Context(), server.Name, lab.Off, true))
			must(t, l.SetPower(t.Context(), server.Name, lab.On, false))
			server.eventually(kubectl+"get --raw /readyz", "ok")
			server.eventually(kubectl+"get nodes --no-headers | wc -l", "2")
			t.Logf("restarts before the power cut: %s", restarts)
			must(t, l.Delete(t.Context(), server.Name))
			must(t, l.Delete(t.Context(), worker.Name))
		})
	}
}

// openLab opens a lab and destroys it when the test ends. It returns the function that creates machines in it.
func openLab(t *testing.T, name string) (create func(*testing.T, string) machine, l *lab.Lab) {
	t.Helper()
	config := lab.Config{Name: name, Dir: filepath.Join(t.TempDir(), "lab"), Image: machineImage(t)}
	t.Cleanup(func() {
		if err := lab.Destroy(context.Background(), config); err != nil {
			t.Errorf("destroy lab: %v", err)
		}
	})
	l, err := lab.Open(t.Context(), config)
	must(t, err)
	signer, authorized := keyPair(t)
	return func(t *testing.T, name string) machine {
		t.Helper()
		made, err := l.Create(t.Context(), name, authorized, "")
		must(t, err)
		return machine{Machine: made, t: t, lab: l, signer: signer}
	}, l
}

// kubectlOf returns the kubectl command of a server's administrator.
func kubectlOf(runtime distro.Runtime) string {
	return distro.NewLayout(runtime, "").Data + "/bin/kubectl --kubeconfig /etc/rancher/" + string(runtime) + "/" +
		string(runtime) + ".yaml "
}

func probes(runtime distro.Runtime) []string {
	data := distro.NewLayout(runtime, "").Data
	list := []string{
		"--cacert " + data + "/server/tls/server-ca.crt --cert " + data +
			"/server/tls/client-kube-apiserver.crt --key " + data +
			"/server/tls/client-kube-apiserver.key https://localhost:6443/readyz",
		"--cacert " + data +
			"/server/tls/kube-controller-manager/kube-controller-manager.crt https://localhost:10257/healthz",
		"http://localhost:10248/healthz",
	}
	if runtime == distro.RKE2 {
		list = append(list, "http://localhost:2381/health", "http://localhost:9099/liveness")
	}
	return list
}

// stamp is the file in which the installer keeps its restart stamp.
func stamp(runtime distro.Runtime) string {
	data := distro.NewLayout(runtime, "").Data
	if runtime == distro.K3s {
		return data + "/restart_stamp"
	}
	return data + "/system-agent-installer/rke2_restart_stamp"
}

func port(runtime distro.Runtime) string {
	if runtime == distro.K3s {
		return "6443"
	}
	return "9345"
}

func unit(runtime distro.Runtime) string {
	if runtime == distro.K3s {
		return "k3s"
	}
	return "rke2-server"
}

// machine is a lab machine with helpers for tests.
type machine struct {
	lab.Machine
	t      *testing.T
	lab    *lab.Lab
	signer ssh.Signer
}

func (m machine) try(command string) (string, error) {
	out, err := sshRun(m.t.Context(), m.lab.Namespace(), m.Address.String()+":22", m.signer, command)
	return strings.TrimSpace(out), err
}

func (m machine) run(command string) string {
	m.t.Helper()
	out, err := m.try(command)
	if err != nil {
		m.t.Fatalf("%s: %s: %v: %s", m.Name, command, err, out)
	}
	return out
}

// eventually waits until a command succeeds and prints the wanted text.
func (m machine) eventually(command, want string) {
	m.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		out, err := m.try(command)
		if err == nil && out == want {
			return
		}
		if time.Now().After(deadline) {
			journal, _ := m.try(
				"journalctl -n 30 --no-pager -u k3s -u k3s-agent -u rke2-server -u rke2-agent; tail -n 5 " +
					"/var/lib/rancher/*/server/logs/*.log; tail -n 15 " +
					"/var/lib/rancher/*/server/logs/process-kubelet.log")
			m.t.Fatalf("%s: %s: got %q (%v), want %q\n%s", m.Name, command, out, err, want, journal)
		}
		select {
		case <-m.t.Context().Done():
			m.t.Fatal(m.t.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (m machine) write(path string, data []byte, mode os.FileMode) {
	m.t.Helper()
	// The disk of a running machine is an overlay, so files must be written through the machine's own root.
	must(m.t, m.lab.WriteFile(m.Name, path, data, mode))
}

func (m machine) configure(runtime distro.Runtime, config string) {
	m.t.Helper()
	m.write("/etc/rancher/"+string(runtime)+"/config.yaml.d/50-rancher.yaml", []byte(config), 0o600)
}

// install runs the installer image's script as the node agent would.
func (m machine) install(bin string, runtime distro.Runtime, version, role string) {
	m.t.Helper()
	files, err := distro.ImageFiles(runtime, version, filepath.Join(bin, "drover-distro"),
		filepath.Join(bin, "drover-kube"))
	must(m.t, err)
	for _, file := range files {
		m.write("/tmp/installer/"+file.Name, file.Data, file.Mode)
	}
	prefix := strings.ToUpper(string(runtime))
	m.run("cd /tmp/installer && CATTLE_AGENT_EXECUTION_PWD=/tmp/installer RESTART_STAMP=1 INSTALL_" + prefix +
		"_EXEC=" + role + " sh ./run.sh && rm -r /tmp/installer")
}

func binFolder(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("DROVER_BIN")
	if bin == "" {
		bin = "../../bin"
	}
	bin, err := filepath.Abs(bin)
	must(t, err)
	return bin
}
