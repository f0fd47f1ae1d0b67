package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/tests/testbed/lab"
)

const version = "v1.36.3+rke2r1"

// TestScaleUpDown changes the number of servers several times. Data written in between must survive. Members join and
// leave etcd one after the other, and the first server may be among those that leave.
func TestScaleUpDown(t *testing.T) {
	w := newWorld(t, "scale")
	sizes := []int{1, 3, 5, 3, 1}
	for i, servers := range sizes {
		must(t, w.Apply(t.Context(), manifest("scale", version, pool{"server", servers, "ecw"})))
		w.awaitNodes("scale", servers)
		client := w.downstream("scale")
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "step-" + strconv.Itoa(i)},
			Data:       map[string]string{"servers": strconv.Itoa(servers)},
		}, metav1.CreateOptions{})
		must(t, err)
		for earlier := range i + 1 {
			got, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "step-"+strconv.Itoa(earlier),
				metav1.GetOptions{})
			must(t, err)
			if got.Data["servers"] != strconv.Itoa(sizes[earlier]) {
				t.Errorf("with %d servers, the value that was written with %d is %v", servers, sizes[earlier], got.Data)
			}
		}
	}
}

// TestLostInitNode permanently switches the first server off. Its pool's health check replaces it. The cluster is then
// ready again with three servers and another init node.
func TestLostInitNode(t *testing.T) {
	w := newWorld(t, "lost")
	text := string(manifest("lost", version, pool{"server", 3, "ec"}, pool{"worker", 1, "w"}))
	text = replaceOnce(t, text, "quantity: 3,", "quantity: 3, unhealthyNodeTimeout: 20s, maxUnhealthy: \"1\",")
	must(t, w.Apply(t.Context(), []byte(text)))
	w.awaitNodes("lost", 4)
	first := w.initNode()
	must(t, w.Lab.SetPower(t.Context(), first, lab.Off, true))
	w.eventually("a new machine in place of "+first, func() (bool, error) {
		machines, err := w.list(machinesResource)
		return err == nil && !slices.ContainsFunc(machines, func(m unstructured.Unstructured) bool {
			return m.GetName() == first
		}), err
	})
	w.awaitNodes("lost", 4)
	if now := w.initNode(); now == first {
		t.Errorf("%s is still the init node", now)
	}
	w.expectRoles("lost", []string{"etcd+api", "etcd+api", "etcd+api", "worker"})
}

// TestDeadWorkerDoesNotBlock: a worker is switched off and detected as missing, the cluster is upgraded, and all other
// nodes get the new version.
func TestDeadWorkerDoesNotBlock(t *testing.T) {
	const before, after = "v1.36.2+rke2r1", version
	w := newWorld(t, "dead", before, after)
	must(t, w.Apply(t.Context(), manifest("dead", before, pool{"server", 1, "ec"}, pool{"worker", 3, "w"})))
	w.awaitNodes("dead", 4)
	dead := ""
	for _, machine := range w.Lab.List() {
		if _, worker := w.labelOf(machine.Name, "rke.cattle.io/worker-role"); worker && dead == "" {
			dead = machine.Name
		}
	}
	must(t, w.Lab.SetPower(t.Context(), dead, lab.Off, true))
	w.eventually(dead+" missed", func() (bool, error) {
		machine, err := w.objects.Resource(machinesResource).Namespace(namespace).Get(t.Context(), dead,
			metav1.GetOptions{})
		return err == nil && conditionOf(machine, "NodeReady") == "Unknown", err
	})
	w.change("dead", fmt.Sprintf(`{"spec": {"kubernetesVersion": %q}}`, after))
	w.eventually("the new version on all nodes but "+dead, func() (bool, error) {
		nodes, err := w.downstream("dead").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // the only server restarts
		}
		updated := 0
		for i := range nodes.Items {
			if nodes.Items[i].Status.NodeInfo.KubeletVersion == after {
				updated++
			}
		}
		return updated == len(nodes.Items)-1, nil
	})
}

// awaitNodes waits until a cluster has exactly that many machines, all of them ready nodes.
func (w *world) awaitNodes(cluster string, want int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d machines", want), func() (bool, error) {
		machines, err := w.list(machinesResource)
		return len(machines) == want, err
	})
	w.awaitReady(cluster)
	nodes, err := w.downstream(cluster).CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	must(w.t, err)
	if len(nodes.Items) != want {
		w.t.Errorf("%d nodes, want %d", len(nodes.Items), want)
	}
}

// initNode returns the machine with the label of the init node.
func (w *world) initNode() string {
	w.t.Helper()
	machines, err := w.list(machinesResource)
	must(w.t, err)
	found := ""
	for i := range machines {
		if machines[i].GetLabels()["rke.cattle.io/init-node"] == "true" {
			if found != "" {
				w.t.Errorf("two init nodes exist: %s and %s", found, machines[i].GetName())
			}
			found = machines[i].GetName()
		}
	}
	return found
}

// conditionOf returns the status of an object's condition.
func conditionOf(object *unstructured.Unstructured, kind string) string {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range all {
		if condition, ok := entry.(map[string]any); ok && condition["type"] == kind {
			return fmt.Sprint(condition["status"])
		}
	}
	return ""
}

func (w *world) labelOf(machine, label string) (value string, has bool) {
	w.t.Helper()
	found, err := w.objects.Resource(machinesResource).Namespace(namespace).Get(w.t.Context(), machine,
		metav1.GetOptions{})
	must(w.t, err)
	value, has = found.GetLabels()[label]
	return value, has
}
