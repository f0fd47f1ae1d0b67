package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// isClean prints what a host still has from a cluster, or nothing.
// The folder with images is a mount of the lab.
const isClean = "ls -d /etc/rancher/agent /etc/rancher/k3s /var/lib/rancher/k3s " +
	"/var/lib/rancher/capr /etc/systemd/system/k3s*.service /etc/systemd/system/rancher-system-agent* " +
	"/usr/local/bin/k3s* /usr/local/bin/rancher-system-agent* 2>/dev/null; " +
	"ls /var/lib/rancher/agent | grep -vx images; pgrep -l k3s; pgrep -l drover-kube; " +
	"pgrep -l rancher-system; true"

// TestHostsComeAndGo removes hosts and registers them again: a worker and a server that answer are cleaned, and a
// worker that is away for too long is removed. Each comes back with the same command and the same node.
func TestHostsComeAndGo(t *testing.T) {
	w := newWorld(t, "comeandgo", "v1.36.3+k3s1")
	id := w.identified("hosts", "{kubernetesVersion: v1.36.3+k3s1, rkeConfig: {}}")
	command := strings.ReplaceAll(w.commandOf(id, "nodeCommand"), "sudo ", "")
	first, second, worker := w.bare("first"), w.bare("second"), w.bare("worker")
	first.run(command + " --all-roles")
	w.awaitReady("hosts")
	worker.run(command + " --worker")
	second.run(command + " --etcd --controlplane --node-name Second")
	everything := []string{first.Name, "second", worker.Name}
	settled := func() {
		t.Helper()
		w.within(4*time.Minute, "all hosts are nodes", func() error { return w.hostsAre(everything...) })
	}
	settled()
	client := w.downstream("hosts")

	for _, leaver := range []struct {
		machine machine
		node    string
		flags   string
	}{{worker, worker.Name, " --worker"}, {second, "second", " --etcd --controlplane --node-name second"}} {
		was := w.machineOfNode(leaver.node)
		w.deleteMachine(was.GetName())
		began := time.Now()
		w.within(3*time.Minute, leaver.node+" has left", func() error {
			return errors.Join(w.isGone(was.GetName()), noNode(t, client, leaver.node))
		})
		t.Logf("%s left within %s", leaver.node, time.Since(began).Round(time.Second))
		leaver.machine.eventually(isClean, "")
		leaver.machine.run(command + leaver.flags)
		settled()
		if is := w.machineOfNode(leaver.node); is.GetUID() == was.GetUID() {
			t.Errorf("the host has its former Machine %s", is.GetName())
		}
	}

	was := w.machineOfNode(worker.Name)
	must(t, w.Lab.SetPower(t.Context(), worker.Name, lab.Off, true))
	away := func(value string) {
		w.change(
			"hosts",
			`{"metadata":{"annotations":{"`+rkev1.DeleteMissingCustomMachinesAfterAnnotation+`":`+value+`}}}`,
		)
	}
	away(`"24h"`)
	w.within(2*time.Minute, "the node is silent", func() error {
		for _, c := range w.machineOfNode(worker.Name).Object["status"].(map[string]any)["conditions"].([]any) {
			if c := c.(map[string]any); c["type"] == "NodeReady" && c["status"] == "Unknown" {
				return nil
			}
		}
		return errors.New("it is ready")
	})
	away(`"10s"`)
	w.within(5*time.Minute, "the host that is away is removed", func() error {
		return errors.Join(w.isGone(was.GetName()), noNode(t, client, worker.Name))
	})
	away("null")
	must(t, w.Lab.SetPower(t.Context(), worker.Name, lab.On, false))
	w.within(2*time.Minute, "the former node registers itself", func() error {
		_, err := client.CoreV1().Nodes().Get(t.Context(), worker.Name, metav1.GetOptions{})
		return err
	})
	t.Log(worker.run(command + " --worker"))
	settled()
	node, err := client.CoreV1().Nodes().Get(t.Context(), worker.Name, metav1.GetOptions{})
	must(t, err)
	is := w.machineOfNode(worker.Name)
	if got, want := node.Labels[rkev1.MachineUIDLabel], string(is.GetUID()); got != want {
		t.Errorf("the node is that of machine %s, want %s", got, want)
	}
	w.awaitReady("hosts")
	w.deleteCluster("hosts")
	worker.eventually("systemctl is-active k3s-agent", "active") // the hosts of a deleted cluster keep what they have
}

// machineOfNode returns the Machine with this node.
func (w *world) machineOfNode(node string) unstructured.Unstructured {
	w.t.Helper()
	for _, machine := range w.machines() {
		if name, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "name"); name == node {
			return machine
		}
	}
	w.t.Fatalf("no Machine has the node %s", node)
	return unstructured.Unstructured{}
}

func (w *world) deleteMachine(name string) {
	w.t.Helper()
	must(w.t, w.objects.Resource(machinesResource).Namespace(namespace).Delete(w.t.Context(), name,
		metav1.DeleteOptions{}))
}

// isGone returns an error while a Machine exists.
func (w *world) isGone(machine string) error {
	for _, found := range w.machines() {
		if found.GetName() == machine {
			status, _, _ := unstructured.NestedFieldNoCopy(found.Object, "status", "deletion")
			return fmt.Errorf("machine %s still exists: %v", machine, status)
		}
	}
	return nil
}

// noNode returns an error while a node exists.
func noNode(t *testing.T, client kubernetes.Interface, name string) error {
	t.Helper()
	_, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("node %s still exists: %w", name, err)
	}
	return nil
}
