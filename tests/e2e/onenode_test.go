package e2e

import (
	"encoding/base64"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/nodeplan"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// TestOneNode makes a cluster of one real machine, uses it, and deletes it: then everything is as before.
func TestOneNode(t *testing.T) {
	for name, version := range map[string]string{"K3s": "v1.36.3+k3s1", "RKE2": "v1.36.3+rke2r1"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "one")
			before := w.apiInventory()
			must(t, w.Apply(t.Context(), cluster("one", version)))
			w.awaitReady("one")

			client := w.downstream("one")
			nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			must(t, err)
			machine := w.onlyMachine()
			if len(nodes.Items) != 1 || nodes.Items[0].Labels["rke.cattle.io/machine"] != string(machine.GetUID()) {
				t.Errorf("the cluster's nodes are not the one machine: %v", nodes.Items)
			}
			if got := nodes.Items[0].Status.NodeInfo.KubeletVersion; got != version {
				t.Errorf("the node runs %s, want %s", got, version)
			}

			w.deleteCluster("one")
			if machines := w.Lab.List(); len(machines) != 0 {
				t.Errorf("the cloud still has machines: %+v", machines)
			}
			w.eventually("the inventory of before", func() (bool, error) { return cmp.Equal(before, w.apiInventory()), nil })
		})
	}
}

// downstream is a client of a cluster, with the kubeconfig that Drover wrote.
func (w *world) downstream(cluster string) kubernetes.Interface {
	w.t.Helper()
	management, err := kubernetes.NewForConfig(w.Config)
	must(w.t, err)
	secret, err := management.CoreV1().Secrets(namespace).Get(w.t.Context(), cluster+"-kubeconfig", metav1.GetOptions{})
	must(w.t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	must(w.t, err)
	config.Dial = w.Dial
	client, err := kubernetes.NewForConfig(config)
	must(w.t, err)
	return client
}

// moment is a state in which the server or the plane is killed.
type moment struct {
	// hold keeps the moment from passing until it is released.
	hold func(w *world) (release func())
	// reached says that it has come.
	reached func(w *world) (bool, error)
}

// TestOneNodeKilled ends drover server, and in other runs the whole management plane with it, at the moments at which a machine could be
// made twice, lost or replaced. The moments are found by watching objects, and held where they would pass in milliseconds.
func TestOneNodeKilled(t *testing.T) {
	moments := map[string]moment{
		"state Secret written, no Job":              {holdJobs, stateWithoutJob},
		"the cloud made it, the state is not saved": {holdAnswer, madeNotSaved},
		"the agent is in the middle of its plan":    {func(*world) func() { return func() {} }, planUnderWay},
	}
	for name, moment := range moments {
		for who, kill := range map[string]func(w *world){"server": killServer, "plane": killPlane} {
			t.Run(who+" killed when "+name, func(t *testing.T) {
				w := newWorld(t, "one")
				release := moment.hold(w)
				must(t, w.Apply(t.Context(), cluster("one", "v1.36.3+k3s1")))
				w.eventually(name, func() (bool, error) { return moment.reached(w) })
				machine := w.onlyMachine()
				before := w.ServerPID()
				kill(w)
				w.eventually("a new server process", func() (bool, error) { pid := w.ServerPID(); return pid != 0 && pid != before, nil })
				// rancher-machine does not try again to save what it made while the API is away, so it hears of it afterwards.
				w.eventually("a server that answers", func() (bool, error) { err := w.Answers(w.t.Context()); return err == nil, err })
				release()
				w.awaitReady("one")
				if got := w.creates(); got != 1 {
					t.Errorf("the cloud made %d machines, want 1", got)
				}
				if after := w.onlyMachine(); after.GetUID() != machine.GetUID() {
					t.Errorf("the Machine was replaced: %s, then %s", machine.GetName(), after.GetName())
				}
			})
		}
	}
}

// holdJobs lets the API server refuse Jobs: a quota of none.
func holdJobs(w *world) func() {
	w.t.Helper()
	client, err := kubernetes.NewForConfig(w.Config)
	must(w.t, err)
	quotas := client.CoreV1().ResourceQuotas(namespace)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "no-jobs"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}},
	}
	_, err = quotas.Create(w.t.Context(), quota, metav1.CreateOptions{})
	must(w.t, err)
	w.eventually("the quota in force", func() (bool, error) {
		got, err := quotas.Get(w.t.Context(), quota.Name, metav1.GetOptions{})
		return err == nil && len(got.Status.Hard) == 1, err
	})
	return func() {
		w.t.Helper()
		w.eventually("the end of the quota", func() (bool, error) {
			err := quotas.Delete(w.t.Context(), quota.Name, metav1.DeleteOptions{})
			return err == nil || apierrors.IsNotFound(err), err
		})
	}
}

// stateWithoutJob: the write-ahead Secret is there and nothing was started.
func stateWithoutJob(w *world) (bool, error) {
	secrets, err := w.list(secretsResource)
	if err != nil {
		return false, err
	}
	jobs, err := w.list(jobsResource)
	return err == nil && len(jobs) == 0 && ofType(secrets, rkev1.SecretTypeMachineState) != nil && w.creates() == 0, err
}

// holdAnswer lets the cloud make machines and keep back its answers.
func holdAnswer(w *world) func() { return w.Lab.HoldCreates() }

// madeNotSaved: the cloud has made the machine, and rancher-machine has not heard of it.
func madeNotSaved(w *world) (bool, error) { return w.creates() == 1, nil }

// planUnderWay: the plan was delivered, and the agent has not reported it applied.
func planUnderWay(w *world) (bool, error) {
	secrets, err := w.list(secretsResource)
	if err != nil {
		return false, err
	}
	secret := ofType(secrets, rkev1.SecretTypeMachinePlan)
	if secret == nil || data(*secret, nodeplan.KeyPlan) == "" || data(*secret, nodeplan.KeyAppliedChecksum) != "" {
		return false, nil
	}
	machines := w.Lab.List()
	if len(machines) != 1 {
		return false, nil
	}
	// The agent writes nothing while it applies: that it does is seen on the machine.
	return w.Lab.FileExists(machines[0].Name, "/var/lib/rancher/agent/interlock/applyinator-active")
}

func ofType(secrets []unstructured.Unstructured, kind corev1.SecretType) *unstructured.Unstructured {
	for i := range secrets {
		if got, _, _ := unstructured.NestedString(secrets[i].Object, "type"); got == string(kind) {
			return &secrets[i]
		}
	}
	return nil
}

func data(secret unstructured.Unstructured, key string) string {
	value, _, _ := unstructured.NestedString(secret.Object, "data", key)
	return value
}

// killServer ends drover server alone.
func killServer(w *world) {
	w.t.Helper()
	must(w.t, syscall.Kill(w.ServerPID(), syscall.SIGKILL))
}

// killPlane ends drover server and every process of the management plane at the same time.
func killPlane(w *world) {
	w.t.Helper()
	must(w.t, w.KillPlane())
}

// TestAgentRestart restarts the agent and then the machine: neither installs or restarts anything again, and all probes
// are healthy afterwards.
func TestAgentRestart(t *testing.T) {
	w := newWorld(t, "one")
	must(t, w.Apply(t.Context(), cluster("one", "v1.36.3+k3s1")))
	w.awaitReady("one")
	machine := w.Lab.List()[0].Name
	const (
		installs = "wc -l </var/lib/rancher/k3s/system-agent-installer/runs"
		process  = "systemctl show -p NRestarts -p ExecMainPID k3s"
	)
	if got := w.command(machine, installs); got != "1" {
		t.Fatalf("the install instruction ran %s times before anything was restarted, want 1", got)
	}
	before := w.command(machine, process)

	w.command(machine, "systemctl restart rancher-system-agent")
	w.healthyAgain(machine)
	if got := w.command(machine, process); got != before {
		t.Errorf("k3s was restarted with the agent: got %q, want %q", got, before)
	}
	if got := w.command(machine, installs); got != "1" {
		t.Errorf("the install instruction had run %s times after the agent's restart, want 1", got)
	}

	must(t, w.Lab.SetPower(t.Context(), machine, lab.Off, false))
	must(t, w.Lab.SetPower(t.Context(), machine, lab.On, false))
	w.healthyAgain(machine)
	if got := w.command(machine, installs); got != "1" {
		t.Errorf("the install instruction had run %s times after the reboot, want 1", got)
	}
	if got := w.command(machine, "systemctl show -p NRestarts --value k3s"); got != "0" {
		t.Errorf("k3s was restarted %s times after the reboot", got)
	}
}

// command runs a command on a machine and returns what it prints.
func (w *world) command(machine, command string) string {
	w.t.Helper()
	out, err := w.Lab.Exec(w.t.Context(), machine, command)
	if err != nil {
		w.t.Fatalf("%s on %s: %v: %s", command, machine, err, out)
	}
	return out
}

// healthyAgain waits until the agent has looked at its plan again since it started, found it applied, and sees all probes pass.
func (w *world) healthyAgain(machine string) {
	w.t.Helper()
	w.eventually("a running agent", func() (bool, error) {
		out, err := w.Lab.Exec(w.t.Context(), machine, "systemctl is-active rancher-system-agent k3s")
		return err == nil && strings.Count(out, "active") == 2 && !strings.Contains(out, "inactive"), err
	})
	w.eventually("all probes healthy", func() (bool, error) {
		secrets, err := w.list(secretsResource)
		if err != nil {
			return false, err
		}
		secret := ofType(secrets, rkev1.SecretTypeMachinePlan)
		if secret == nil {
			return false, nil
		}
		raw, err := base64.StdEncoding.DecodeString(data(*secret, nodeplan.KeyProbeStatuses))
		if err != nil {
			return false, err
		}
		statuses, err := nodeplan.DecodeProbeStatuses(raw)
		if err != nil || len(statuses) == 0 {
			return false, err
		}
		for _, status := range statuses {
			if !status.Healthy {
				return false, nil
			}
		}
		_, err = w.downstream("one").Discovery().ServerVersion()
		return err == nil, err
	})
}
