package connect

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/decide/hostremoval"
)

// connectionFile is a connection as the server answers it.
func connectionFile(t *testing.T, server, secret, uid string) string {
	t.Helper()
	data, err := json.Marshal(connectionInfo{Namespace: "ns", SecretName: secret, MachineUID: uid,
		KubeConfig: "apiVersion: v1\nclusters:\n- cluster:\n    server: " + server + "\n  name: agent\nkind: Config\n"})
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}

// A host that had a Machine of the same name before loses the distribution of that Machine, and no other host does.
func TestInstallScript_RemovesTheDistributionOfARemovedMachine(t *testing.T) {
	const server = "https://drover.example.com:8443"
	const labels = `{"data-dir": "/data","node-label": ["rke.cattle.io/machine=former"]}`
	for name, tc := range map[string]struct {
		former, config, script string
		removed                bool
		fails                  string
	}{
		"a removed Machine": {connectionFile(t, server, "s", "former"), labels, "k3s-uninstall.sh", true, ""},
		"a removed worker":  {connectionFile(t, server, "s", "former"), labels, "k3s-agent-uninstall.sh", true, ""},
		"an earlier release wrote the connection": {connectionFile(t, server, "s", ""),
			labels, "k3s-uninstall.sh", true, ""},
		"the command is repeated": {connectionFile(t, server, "s", "now"), strings.ReplaceAll(labels, "former", "now"),
			"k3s-uninstall.sh", false, ""},
		"another server": {
			connectionFile(t, "https://other:8443", "s", "former"), labels, "k3s-uninstall.sh", false, "",
		},
		"another Machine":    {connectionFile(t, server, "other", "former"), labels, "k3s-uninstall.sh", false, ""},
		"no connection":      {"", labels, "k3s-uninstall.sh", false, ""},
		"no distribution":    {connectionFile(t, server, "s", "former"), "", "k3s-uninstall.sh", false, ""},
		"of another program": {connectionFile(t, server, "s", "former"), "{}", "k3s-uninstall.sh", false, ""},
		"the script is missing": {connectionFile(t, server, "s", "former"), labels, "other.sh", false,
			"k3s-uninstall.sh is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, content := range map[string]string{
				"connection": tc.former, "connection.tmp": connectionFile(t, server, "s", "now"),
				"etc/rancher/k3s/config.yaml.d/50-rancher.yaml": tc.config,
				"bin/" + tc.script:  "#!/bin/sh\necho $K3S_DATA_DIR >" + root + "/removed\n",
				"var/capr/a-record": "",
			} {
				file := filepath.Join(root, path)
				if content == "" {
					continue
				}
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			script := strings.NewReplacer(
				"/etc/rancher/$runtime", root+"/etc/rancher/$runtime",
				"/var/lib/rancher/capr", root+"/var/capr",
				"main \"$@\"\n", "CONNECTION="+root+"/connection\nremove_former\n",
				":/usr/local/bin:/usr/bin:/opt/$runtime/bin:/opt/bin", "",
			).Replace(InstallScript())
			cmd := exec.CommandContext(t.Context(), "sh", "-s")
			cmd.Stdin, cmd.Env = strings.NewReader(script), []string{"PATH=" + root + "/bin:" + os.Getenv("PATH")}
			out, err := cmd.CombinedOutput()
			if (err != nil) != (tc.fails != "") || !strings.Contains(string(out), tc.fails) {
				t.Errorf("%v: %s", err, out)
			}
			data, err := os.ReadFile(filepath.Join(root, "removed"))
			if (err == nil) != tc.removed || tc.removed && string(data) != "/data\n" {
				t.Errorf("removed with the data directory %q, %v: %s", data, err, out)
			}
		})
	}
}

// A host that has just left its cluster removes its agent a little later. The new agent is not installed before that.
func TestInstallScript_WaitsForTheRemovalOfTheFormerAgent(t *testing.T) {
	leave := hostremoval.Plan(hostremoval.Home{}).Instructions[1].Args[1]
	if !strings.Contains(leave, "unit=drover-host-cleanup\n") {
		t.Errorf("the last plan has another unit:\n%s", leave)
	}
	for name, tc := range map[string]struct{ ends, want string }{
		"no removal": {"0", "1 asked, went on\n"},
		"a removal":  {"3", "4 asked, waited\n"},
		"a removal that does not end": {"999",
			"24 asked, waited\n"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			stub := "#!/bin/sh\n[ \"$*\" = 'is-active drover-host-cleanup' ] || exit 9\necho x >>" + root +
				"/asked\n[ $(wc -l <" + root + "/asked) -gt " + tc.ends + " ] || echo active\n"
			if err := os.WriteFile(filepath.Join(root, "systemctl"), []byte(stub), 0o755); err != nil {
				t.Fatal(err)
			}
			script := strings.NewReplacer("PAUSE=5\n", "PAUSE=0\n", "main \"$@\"\n", "await_cleanup && end=waited || "+
				"end='went on'\necho $(wc -l <"+root+"/asked) asked, $end\n").Replace(InstallScript())
			cmd := exec.CommandContext(t.Context(), "sh", "-s")
			cmd.Stdin, cmd.Env = strings.NewReader(script), []string{"PATH=" + root + ":" + os.Getenv("PATH")}
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != tc.want {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
