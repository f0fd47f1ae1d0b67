package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-io/drover/tests/testbed/distro"
)

// TestStandInSnapshots checks that the stand-in keeps the distributions' contract about snapshots, without a plan.
// Snapshots are taken, listed in the cluster and pruned. One server starts again with a snapshot's data under the
// cluster's certificates. The other servers, whose data were declared dead, join it.
func TestStandInSnapshots(t *testing.T) {
	bin := binFolder(t)
	create, _ := openLab(t, "snaps")
	const runtime = distro.RKE2
	kubectl, data := kubectlOf(runtime), distro.NewLayout(runtime, "").Data
	first, second, third := create(t, "first"), create(t, "second"), create(t, "third")
	servers := []machine{first, second, third}
	begins := `{"cluster-init": true, "token": "t1", "agent-token": "t2", "etcd-snapshot-retention": 2}`
	joins := func(server machine) string {
		return fmt.Sprintf(`{"server": "https://%s:%s", "token": "t1", "agent-token": "t2"}`, server.Address,
			port(runtime))
	}
	for _, server := range servers {
		settings := joins(first)
		if server.Name == first.Name {
			settings = begins
		}
		server.configure(runtime, settings)
		server.install(bin, runtime, "v1.36.3+rke2r1", "server")
	}
	second.eventually(kubectl+"get nodes --no-headers | grep -cw Ready", "3")
	first.run(kubectl + "create configmap before --from-literal=a=b")
	first.run(kubectl +
		"create configmap -n kube-system rke2-etcd-snapshot-extra-metadata " +
		"--from-literal=provisioning-cluster-spec=whole")
	first.run("cp /etc/rancher/rke2/rke2.yaml /root/known.yaml")
	sums := "sha256sum " + data + "/server/tls/*-ca.crt " + data + "/server/tls/etcd/*-ca.crt"
	known := first.run(sums)

	for _, name := range []string{"one", "two", "three"} {
		first.run("rke2 etcd-snapshot save --name Count-" + name)
		first.run("rke2 etcd-snapshot save")
	}
	for _, server := range []machine{second, third} {
		server.run("rke2 etcd-snapshot save")
	}
	file := second.run("cd " + data + "/server/db/snapshots && ls on-demand-second-*")
	objects := kubectl +
		"get etcdsnapshotfiles.k3s.cattle.io --no-headers -o " +
		"custom-columns=N:.spec.nodeName,R:.status.readyToUse,M:.spec.metadata"
	metadata := " true map[provisioning-cluster-spec:whole]"
	listed := strings.Join([]string{
		"first" + metadata, "first" + metadata, "first" + metadata, "first" + metadata, "first" + metadata, "second" +
			metadata, "third" + metadata,
	}, "\n")
	// The last two snapshots of each name, and three names with one.
	first.eventually(objects+" | tr -s ' ' | sort", listed)
	first.run("rke2 etcd-snapshot delete $(rke2 etcd-snapshot ls | grep -o '^Count-one-[^ ]*')")
	listed = strings.TrimPrefix(listed, "first"+metadata+"\n")
	first.eventually(objects+" | tr -s ' ' | sort", listed)

	first.run(kubectl + "delete configmap before && " + kubectl + "create configmap after --from-literal=a=b")
	for _, server := range servers {
		server.run("rke2-killall.sh")
		server.eventually("readlink /proc/[0-9]*/exe | grep -c /usr/local/bin/drover-kube || true", "0")
		server.run("touch " + data + "/server/db/etcd/tombstone && rm -rf " + data + "/server/tls " + data +
			"/server/cred")
	}
	reset := "rke2 server --cluster-reset --etcd-arg=advertise-client-urls=https://127.0.0.1:2379 " +
		"--etcd-disable-snapshots=false"
	if out, err := second.try(reset + " --etcd-s3=false --cluster-reset-restore-path=db/snapshots/" +
		file); err == nil || !strings.Contains(out, "server URL is set") {
		t.Errorf("a joining server resets the cluster: %v: %s", err, out)
	}
	second.configure(runtime, begins)
	if out, err := second.try(reset + " --cluster-reset-restore-path=db/snapshots/none"); err == nil ||
		!strings.Contains(out, "does not exist") {
		t.Errorf("a missing snapshot is restored: %v: %s", err, out)
	}
	second.run("rm -rf " + data + "/server/db/etcd")
	if out := second.run(reset + " --etcd-s3=false --cluster-reset-restore-path=db/snapshots/" + file +
		" 2>&1"); !strings.Contains(out, "restart without --cluster-reset flag now") {
		t.Errorf("after a reset, the server prints %q", out)
	}
	if out, err := second.try(reset + " 2>&1"); err == nil || !strings.Contains(out, "was previously reset") {
		t.Errorf("the cluster is reset twice: %v: %s", err, out)
	}
	if out, err := second.try("rke2 server --cluster-reboot 2>&1"); err == nil ||
		!strings.Contains(out, "unknown flag") {
		t.Errorf("an unknown flag is accepted: %v: %s", err, out)
	}

	second.run("systemctl start rke2-server")
	second.eventually(kubectl+"get configmaps -o name | grep -v kube-root", "configmap/before")
	second.run("test ! -e " + data + "/server/db/reset-flag")
	for _, server := range []machine{first, third} {
		server.configure(runtime, joins(second))
		server.run("systemctl start rke2-server")
	}
	second.eventually(membersCommand(runtime)+" | wc -l", "3")
	second.eventually(kubectl+"get nodes --no-headers | grep -cw Ready", "3")
	first.eventually(objects+" | tr -s ' ' | sort", listed) // the data contain none of them
	if got := first.run(sums); got != known {
		t.Errorf("the authorities have changed: %s, before %s", got, known)
	}
	first.run(data + "/bin/kubectl --kubeconfig /root/known.yaml get --raw /readyz")

	t.Log("certificates that are missing without a restore come from the server's own data")
	second.run("systemctl stop rke2-server && rm -rf " + data + "/server/tls " + data +
		"/server/cred && systemctl start rke2-server")
	second.eventually(kubectl+"get --raw /readyz", "ok")
	if got := second.run(sums); got != known {
		t.Errorf("the authorities have changed: %s, before %s", got, known)
	}
}
