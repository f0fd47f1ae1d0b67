package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestCommandsFollow takes a cluster through its life with commands on a terminal: create, scale, upgrade, delete. Each
// command asks, and returns when the cluster has what it requests.
func TestCommandsFollow(t *testing.T) {
	const before, after = "v1.36.2+k3s1", "v1.36.3+k3s1"
	w := newWorld(t, "commands", before, after)
	w.typed("create cluster commands --pool servers=1,roles=all --pool workers=1,roles=worker --apply --wait",
		reply{"or hosts for existing hosts: ", "nspawn"},
		reply{"Secret with the credential, empty for none: ", "cattle-global-data:cc-lab"},
		reply{"Kubernetes version", before}, reply{"Create cluster fleet-default/commands? [y/N] ", "y"})
	w.wantMachines(2, before)
	w.typed("scale commands workers=2 --wait", reply{"Change cluster fleet-default/commands? [y/N] ", "y"})
	w.wantMachines(3, before)
	w.typed("upgrade cluster commands --version "+after+" --wait",
		reply{"Change cluster fleet-default/commands? [y/N] ", "y"})
	w.wantMachines(3, after)
	w.typed("delete commands --wait", reply{"Type the name of the cluster to delete it: ", "commands"})
	_, err := w.objects.Resource(clustersResource).Namespace(namespace).Get(t.Context(), "commands",
		metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the cluster after its deletion: %v", err)
	}
}

// reply is what a user types after a question.
type reply struct{ question, answer string }

// typed runs a drover command on a terminal, which script makes, and types the replies. The command must succeed.
func (w *world) typed(command string, replies ...reply) {
	w.t.Helper()
	program := fmt.Sprintf("stty cols %d rows %d; exec %s --kubeconfig=%s", statusColumns, statusRows,
		filepath.Join(binFolder(w.t), "drover")+" "+command, filepath.Join(w.DataDir(), "kubeconfig"))
	start := time.Now()
	run := w.watchStatus(command, "script", "-qec", program, "/dev/null")
	for _, one := range replies {
		w.within(time.Minute, command+" asks: "+one.question, func() error {
			if shown := run.shown(); !strings.Contains(shown, one.question) {
				return fmt.Errorf("it shows:\n%s", shown)
			}
			return nil
		})
		_, err := run.keys.Write([]byte(one.answer + "\r"))
		must(w.t, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			w.t.Fatalf("drover %s: %v\n%s", command, err, run.shown())
		}
	case <-time.After(readyTimeout):
		must(w.t, run.cmd.Process.Signal(os.Interrupt))
		w.t.Fatalf("drover %s goes on:\n%s", command, run.shown())
	}
	w.t.Logf("drover %s ended after %s", command, time.Since(start).Round(time.Second))
}

// wantMachines checks that the cluster has machines of one version, without waiting.
func (w *world) wantMachines(n int, version string) {
	w.t.Helper()
	machines, err := w.list(machinesResource)
	must(w.t, err)
	var problems []error
	if len(machines) != n {
		problems = append(problems, fmt.Errorf("%d machines, want %d", len(machines), n))
	}
	for i := range machines {
		got, _, err := unstructured.NestedString(machines[i].Object, "status", "nodeInfo", "kubeletVersion")
		if err != nil || got != version {
			problems = append(problems, fmt.Errorf("machine %s has %q, want %s", machines[i].GetName(), got, version))
		}
	}
	if err := errors.Join(problems...); err != nil {
		w.t.Error(err)
	}
}
