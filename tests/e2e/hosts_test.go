package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// TestHosts makes a cluster of existing hosts with the command that Drover shows: a server, and a worker that joins it.
// The command can be repeated, and a host leaves the cluster when its Machine is deleted.
func TestHosts(t *testing.T) {
	w := newWorld(t, "hosts", "v1.36.3+k3s1")
	id := w.identified("hosts", "{kubernetesVersion: v1.36.3+k3s1, rkeConfig: {}}")
	// The hosts have no sudo, and root needs none.
	command := strings.ReplaceAll(w.commandOf(id, "nodeCommand"), "sudo ", "")

	server, worker := w.bare("server"), w.bare("worker")
	worker.write("/root/bad.sh", []byte(command+" --etcd --label 'a b=c'\n"), 0o700)
	worker.run("setsid sh /root/bad.sh >/root/bad.log 2>&1 </dev/null & echo $! >/root/bad.pid")
	const told = `--label "a b=c" must be KEY=VALUE`
	worker.eventually("grep -om1 -e '"+told+"' /root/bad.log", told)
	worker.run("kill -- -$(cat /root/bad.pid)")
	began := time.Now()
	t.Log(server.run(command + " --all-roles --node-name first --label site=north"))
	t.Log(worker.run(command + " --worker --taint example.com/edge=yes:NoSchedule"))
	w.awaitReady("hosts")
	t.Logf("ready %s after the first command", time.Since(began).Round(time.Millisecond))

	w.within(2*time.Minute, "both Machines have their nodes", func() error { return w.hostsAre("first", worker.Name) })
	client := w.downstream("hosts")
	first, err := client.CoreV1().Nodes().Get(t.Context(), "first", metav1.GetOptions{})
	must(t, err)
	if first.Labels["site"] != "north" || first.Labels["cattle.io/os"] != "linux" {
		t.Errorf("labels of the server's node: %v", first.Labels)
	}
	second, err := client.CoreV1().Nodes().Get(t.Context(), worker.Name, metav1.GetOptions{})
	must(t, err)
	if !slices.ContainsFunc(second.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.ToString() == "example.com/edge=yes:NoSchedule"
	}) {
		t.Errorf("taints of the worker's node: %v", second.Spec.Taints)
	}

	machines := w.machineUIDs()
	worker.run(command + " --all-roles") // its roles are already decided
	if diff := slices.Sorted(maps.Keys(machines)); !slices.Equal(diff, slices.Sorted(maps.Keys(w.machineUIDs()))) {
		t.Errorf("the repeated command created or removed a Machine: %v", w.machineUIDs())
	}
	for _, machine := range w.machines() {
		if machine.GetLabels()[rkev1.EtcdRoleLabel] == "" {
			must(t, w.objects.Resource(machinesResource).Namespace(namespace).Delete(t.Context(), machine.GetName(),
				metav1.DeleteOptions{}))
		}
	}
	w.within(2*time.Minute, "the worker has left", func() error {
		if _, err := client.CoreV1().Nodes().Get(t.Context(), worker.Name, metav1.GetOptions{}); !apierrors.IsNotFound(
			err) {
			return fmt.Errorf("its node still exists: %w", err)
		}
		return w.hostsAre("first")
	})
	w.deleteCluster("hosts")
}

// bare is a host that Drover does not know and that trusts no server yet.
func (w *world) bare(name string) machine {
	w.t.Helper()
	signer, authorized := keyPair(w.t)
	made, err := w.Lab.Create(w.t.Context(), name, authorized, "")
	must(w.t, err)
	m := machine{Machine: made, t: w.t, lab: w.Lab, signer: signer}
	m.eventually("true", "")
	m.trusts("https://" + lab.Gateway.String() + ":8443")
	return m
}

func (w *world) machines() []unstructured.Unstructured {
	w.t.Helper()
	found, err := w.list(machinesResource)
	must(w.t, err)
	return found
}

func (w *world) machineUIDs() map[string]string {
	uids := map[string]string{}
	for _, machine := range w.machines() {
		uids[string(machine.GetUID())] = machine.GetName()
	}
	return uids
}

// hostsAre checks that the Machines have exactly these nodes and that Cluster API reports them as running.
func (w *world) hostsAre(nodes ...string) error {
	found, err := w.list(machinesResource)
	if err != nil {
		return err
	}
	var have []string
	for _, machine := range found {
		node, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "name")
		phase, _, _ := unstructured.NestedString(machine.Object, "status", "phase")
		if phase != "Running" {
			return fmt.Errorf("%s is %s: %v", machine.GetName(), phase, machine.Object["status"])
		}
		have = append(have, node)
	}
	slices.Sort(have)
	slices.Sort(nodes)
	if !slices.Equal(have, nodes) {
		return fmt.Errorf("the nodes are %v, want %v", have, nodes)
	}
	return nil
}
