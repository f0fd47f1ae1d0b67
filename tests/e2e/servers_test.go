package e2e

import (
	"fmt"
	"testing"

	"github.com/drover-io/drover/tests/testbed/distro"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// TestStandInServers checks that clusters of several servers keep the distributions' contract, without a plan. Servers
// join at the same time. A worker survives the loss of the server that it joined. A server comes back. A member leaves
// etcd when its node requests it.
func TestStandInServers(t *testing.T) {
	bin := binFolder(t)
	create, l := openLab(t, "servers")
	const runtime = distro.RKE2
	kubectl := kubectlOf(runtime)
	first, second, third, worker := create(t, "first"), create(t, "second"), create(t, "third"), create(t, "worker")
	start := func(m machine, settings, role string) {
		t.Helper()
		m.configure(runtime, settings)
		m.install(bin, runtime, "v1.36.3+rke2r1", role)
	}
	joining := func(server machine) string {
		return fmt.Sprintf(`{"server": "https://%s:%s", "token": "t1", "agent-token": "t2"}`, server.Address,
			port(runtime))
	}

	start(first, `{"token": "t1", "agent-token": "t2"}`, "server")
	start(second, joining(first), "server")
	start(third, joining(first), "server")
	start(worker, fmt.Sprintf(`{"server": "https://%s:%s", "token": "t2"}`, first.Address, port(runtime)), "agent")
	second.eventually(kubectl+"get nodes --no-headers | grep -cw Ready", "4")
	third.eventually(membersCommand(runtime)+" | wc -l", "3")
	first.run(kubectl + "create configmap kept --from-literal=a=b")

	must(t, l.SetPower(t.Context(), first.Name, lab.Off, true))
	second.eventually(kubectl+"get configmap kept -o jsonpath='{.data.a}'", "b")
	second.eventually(kubectl+"get node first -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'",
		"Unknown")
	worker.eventually("curl -fsS http://localhost:10248/healthz", "ok")
	worker.run("systemctl restart rke2-agent")
	third.eventually(kubectl+"get node worker -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'", "True")

	must(t, l.SetPower(t.Context(), first.Name, lab.On, false))
	second.eventually(kubectl+"get nodes --no-headers | grep -cw Ready", "4")
	second.run(kubectl + "annotate node third etcd.rke2.cattle.io/remove=true")
	name := third.run("cat " + distro.NewLayout(runtime, "").Data + "/server/db/etcd/name")
	second.eventually(kubectl+
		"get node third -o jsonpath='{.metadata.annotations.etcd\\.rke2\\.cattle\\.io/removed-node-name}'", name)
	first.eventually(membersCommand(runtime)+" | wc -l", "2")
}

// TestStandInSplitRoles: a server with only etcd starts the cluster, another server has only the API, and a worker
// joins the second.
func TestStandInSplitRoles(t *testing.T) {
	bin := binFolder(t)
	create, _ := openLab(t, "split")
	for _, runtime := range []distro.Runtime{distro.RKE2, distro.K3s} {
		t.Run(string(runtime), func(t *testing.T) {
			version := "v1.36.3+" + string(runtime) + "1"
			etcd, api, worker := create(t, string(runtime)+"-etcd"), create(t, string(runtime)+"-api"),
				create(t, string(runtime)+"-worker")
			kubectl := kubectlOf(runtime)
			etcd.configure(runtime, `{"cluster-init": true, "token": "t1", "agent-token": "t2",
				"disable-apiserver": true, "disable-controller-manager": true, "disable-scheduler": true}`)
			etcd.install(bin, runtime, version, "server")
			etcd.eventually(membersCommand(runtime)+" | wc -l", "1")
			etcd.eventually("curl -fsS http://localhost:10248/healthz", "ok")
			api.configure(runtime,
				fmt.Sprintf(`{"server": "https://%s:%s", "token": "t1", "agent-token": "t2", "disable-etcd": true}`,
					etcd.Address, port(runtime)))
			api.install(bin, runtime, version, "server")
			worker.configure(runtime, fmt.Sprintf(`{"server": "https://%s:%s", "token": "t2"}`, api.Address,
				port(runtime)))
			worker.install(bin, runtime, version, "agent")
			api.eventually(kubectl+"get nodes --no-headers | grep -cw Ready", "3")
			api.eventually(kubectl+"get node "+etcd.Name+
				" -o jsonpath='{.metadata.labels.node-role\\.kubernetes\\.io/etcd}{.metadata.labels.node-role\\.kubernetes\\.io/control-plane}'", "true")
			api.run("systemctl restart " + unit(runtime))
			api.eventually(kubectl+"get --raw /readyz", "ok")
		})
	}
}

// membersCommand prints a line for each member of etcd, like the instruction in the plan of an init node without a
// control plane (docs/wire/planner.md#saved-output).
func membersCommand(runtime distro.Runtime) string {
	return "curl -fsS --cacert " + distro.NewLayout(runtime, "").Data + "/server/tls/server-ca.crt https://localhost:" +
		port(runtime) +
		"/db/info | grep -o '\"clientURLs\":.\"[^\"]*'"
}
