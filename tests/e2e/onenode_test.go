package e2e

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// TestOneNode creates a cluster of one real machine, uses it and deletes it. Afterwards everything is as before.
func TestOneNode(t *testing.T) {
	for name, version := range map[string]string{"K3s": "v1.36.3+k3s1", "RKE2": "v1.36.3+rke2r1"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "one")
			w.eventually("the control plane's objects in every namespace", w.namespacesAreComplete)
			before, host := w.apiInventory(), w.host.inventory(t)
			must(t, w.Apply(t.Context(), cluster("one", version)))
			w.awaitReady("one")

			client := w.downstream("one")
			nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			must(t, err)
			machine := w.onlyMachine()
			if len(nodes.Items) != 1 || nodes.Items[0].Labels["rke.cattle.io/machine"] != string(machine.GetUID()) {
				t.Errorf("the cluster's nodes differ from the machine: %v", nodes.Items)
			}
			if got := nodes.Items[0].Status.NodeInfo.KubeletVersion; got != w.installed(version) {
				t.Errorf("the node runs %s, want %s", got, w.installed(version))
			}

			w.deleteCluster("one")
			if machines := w.Lab.List(); len(machines) != 0 {
				t.Errorf("the cloud still has machines: %+v", machines)
			}
			awaitSame(t, "the API", before, w.apiInventory)
			awaitSame(t, "the host", host, func() []string { return w.host.inventory(t) })
		})
	}
}

// downstream is a client of a cluster, with the kubeconfig that Drover wrote.
func (w *world) downstream(cluster string) kubernetes.Interface {
	w.t.Helper()
	client, err := kubernetes.NewForConfig(w.downstreamConfig(cluster))
	must(w.t, err)
	return client
}

func (w *world) downstreamConfig(cluster string) *rest.Config {
	w.t.Helper()
	management, err := kubernetes.NewForConfig(w.Config)
	must(w.t, err)
	secret, err := management.CoreV1().Secrets(namespace).Get(w.t.Context(), cluster+"-kubeconfig", metav1.GetOptions{})
	must(w.t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	must(w.t, err)
	config.Dial = w.Dial
	return config
}

// moment is a state in which a test kills the server or the plane.
type moment struct {
	// hold keeps the moment from passing.
	hold func(w *world) hold
	// reached reports whether the moment has come.
	reached func(w *world) (bool, error)
}

// hold controls how a held moment continues.
type hold struct {
	// away is called after the kill, before the server is restarted.
	away func()
	// back is called when the server answers again.
	back func()
}

// passing is the hold of a moment that lasts long enough without one.
func passing(*world) hold { return hold{away: func() {}, back: func() {}} }

// TestOneNodeKilled kills drover server, and in other runs the whole management plane, at moments at which a machine
// could be created twice, lost or replaced. It detects the moments by watching objects, and holds those that would pass
// in milliseconds.
func TestOneNodeKilled(t *testing.T) {
	moments := map[string]moment{
		"state Secret written, no Job":           {holdJobs, stateWithoutJob},
		"the cloud created it, nothing is saved": {holdAnswer, madeNotSaved},
		"the agent is applying its plan":         {passing, planUnderWay},
	}
	for name, moment := range moments {
		for who, kill := range map[string]func(w *world, away func()){"server": killServer, "plane": killPlane} {
			t.Run(who+" killed when "+name, func(t *testing.T) {
				w := newWorld(t, "one")
				hold := moment.hold(w)
				must(t, w.Apply(t.Context(), cluster("one", "v1.36.3+k3s1")))
				w.eventually(name, func() (bool, error) { return moment.reached(w) })
				machine := w.onlyMachine()
				before := w.ServerPID()
				kill(w, hold.away)
				w.eventually("a new server process", func() (bool, error) {
					pid := w.ServerPID()
					return pid != 0 && pid != before, nil
				})
				w.eventually("a server that answers", func() (bool, error) {
					err := w.Answers(w.t.Context())
					return err == nil, err
				})
				hold.back()
				w.awaitReady("one")
				if got := w.creates(); got != 1 {
					t.Errorf("the cloud created %d machines, want 1", got)
				}
				if after := w.onlyMachine(); after.GetUID() != machine.GetUID() {
					t.Errorf("the Machine was replaced: %s, then %s", machine.GetName(), after.GetName())
				}
			})
		}
	}
}

// holdJobs makes the API server reject Jobs, with a quota of zero.
func holdJobs(w *world) hold {
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
	return hold{away: func() {}, back: func() {
		w.t.Helper()
		w.eventually("the end of the quota", func() (bool, error) {
			err := quotas.Delete(w.t.Context(), quota.Name, metav1.DeleteOptions{})
			return err == nil || apierrors.IsNotFound(err), err
		})
	}}
}

// stateWithoutJob: the write-ahead Secret exists and no Job was started.
func stateWithoutJob(w *world) (bool, error) {
	secrets, err := w.list(secretsResource)
	if err != nil {
		return false, err
	}
	jobs, err := w.list(jobsResource)
	return err == nil && len(jobs) == 0 && ofType(secrets, rkev1.SecretTypeMachineState) != nil && w.creates() == 0, err
}

// holdAnswer lets the cloud create machines and holds its answers until the kill. Without the plane, the driver's
// create returns while its result cannot be saved. Without only the server, the driver saves the result while no Drover
// runs.
func holdAnswer(w *world) hold {
	answers := w.Lab.HoldCreates()
	w.t.Cleanup(answers.Release)
	return hold{back: func() {}, away: func() {
		w.t.Helper()
		answers.Release()
		select {
		case <-answers.Sent():
		case <-time.After(readyTimeout):
			w.t.Fatal("no client received the cloud's answer: the provisioning pod must outlive the kill")
		}
	}}
}

// madeNotSaved: the cloud has created the machine, and rancher-machine has no answer yet.
func madeNotSaved(w *world) (bool, error) { return w.creates() == 1, nil }

// planUnderWay: the plan was delivered, and the agent has not reported it as applied.
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
	// The agent writes nothing to the API while it applies a plan. A file on the machine shows that it does.
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

// killServer kills only drover server. Its child processes continue until the next run ends them, which starts at once.
// The API is therefore unavailable for a moment only.
func killServer(w *world, away func()) {
	w.t.Helper()
	must(w.t, syscall.Kill(w.ServerPID(), syscall.SIGKILL))
	away()
}

// killPlane kills drover server and all processes of the management plane at the same time, by their process groups. It
// prevents the next run from starting until away has returned.
func killPlane(w *world, away func()) {
	w.t.Helper()
	held, release := w.holdRestart()
	defer release()
	must(w.t, w.KillPlane())
	select {
	case <-held:
	case <-time.After(readyTimeout):
		w.t.Fatal("the next run of drover server could not be delayed")
	}
	// A killed process listens until the kernel has released its memory.
	w.eventually("an unavailable API", func() (bool, error) {
		conn, err := w.Dial(w.t.Context(), "tcp", net.JoinHostPort(lab.Gateway.String(), "6443"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil, nil
	})
	away()
}

// holdRestart takes the lock of the management plane's folder as soon as the running plane ends, because the kernel
// gives the lock to the longest waiter. Meanwhile, restarts of drover server fail and are retried.
func (w *world) holdRestart() (held <-chan struct{}, release func()) {
	w.t.Helper()
	lock, err := os.OpenFile(filepath.Join(w.DataDir(), "run", "lock"), os.O_RDWR, 0)
	must(w.t, err)
	taken, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer lock.Close()
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX) == nil {
			close(taken)
		}
		<-free
	}()
	return taken, func() {
		close(free)
		select {
		case <-taken:
			<-done
		default: // release the lock as soon as it is taken
		}
	}
}

// TestAgentRestart restarts the agent and then the machine. Neither reinstalls or restarts anything, and all probes are
// healthy afterwards.
func TestAgentRestart(t *testing.T) {
	w := newWorld(t, "one")
	must(t, w.Apply(t.Context(), cluster("one", "v1.36.3+k3s1")))
	w.awaitReady("one")
	machine := w.Lab.List()[0].Name
	const (
		installs = "wc -l </var/lib/rancher/k3s/system-agent-installer/runs"
		agent    = "systemctl show -p InvocationID --value rancher-system-agent"
		// A manual restart does not count in NRestarts, but every start has a new invocation ID.
		process = "systemctl show -p InvocationID -p ActiveEnterTimestampMonotonic -p NRestarts -p ExecMainPID k3s"
		// The number of times that systemd began to start the unit in this boot. The ID is systemd's
		// SD_MESSAGE_UNIT_STARTING.
		starts = "journalctl --sync; journalctl --boot --quiet --output=cat UNIT=k3s.service " +
			"MESSAGE_ID=7d4958e842da4a758f6c1cdc7b36dcc5 | wc -l"
		boot = "cat /proc/sys/kernel/random/boot_id"
	)
	w.want(machine, "the install instruction before any restart", installs, "1")
	w.want(machine, "starts of k3s before any restart", starts, "1")
	before, agentBefore := w.command(machine, process), w.command(machine, agent)

	w.command(machine, "systemctl restart rancher-system-agent")
	if w.command(machine, agent) == agentBefore {
		t.Fatal("the agent was not restarted")
	}
	w.forgetProbes()
	w.healthyAgain(machine)
	w.want(machine, "k3s after the agent's restart", process, before)
	w.want(machine, "the install instruction after the agent's restart", installs, "1")
	w.want(machine, "starts of k3s after the agent's restart", starts, "1")

	bootBefore := w.command(machine, boot)
	must(t, w.Lab.SetPower(t.Context(), machine, lab.Off, false))
	w.forgetProbes()
	must(t, w.Lab.SetPower(t.Context(), machine, lab.On, false))
	if w.command(machine, boot) == bootBefore {
		t.Fatal("the machine was not booted again")
	}
	w.healthyAgain(machine)
	w.want(machine, "the install instruction after the reboot", installs, "1")
	w.want(machine, "starts of k3s since the reboot", starts, "1")
	w.want(machine, "restarts of k3s since the reboot", "systemctl show -p NRestarts --value k3s", "0")
}

// want compares the output of a command on a machine.
func (w *world) want(machine, what, command, want string) {
	w.t.Helper()
	if got := w.command(machine, command); got != want {
		w.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// forgetProbes removes the states of the probes from the plan Secret. Only the running agent writes them again, at the
// end of its next pass (docs/wire/plan.md#one-pass-of-the-agent). A write by a stopped agent would be a conflict.
func (w *world) forgetProbes() {
	w.t.Helper()
	secrets, err := w.list(secretsResource)
	must(w.t, err)
	secret := ofType(secrets, rkev1.SecretTypeMachinePlan)
	if secret == nil || data(*secret, nodeplan.KeyProbeStatuses) == "" {
		w.t.Fatal("the plan Secret has no probe statuses to rewrite")
	}
	patch := fmt.Appendf(nil, `{"data":{%q:null}}`, nodeplan.KeyProbeStatuses)
	patched, err := w.objects.Resource(secretsResource).Namespace(namespace).Patch(w.t.Context(), secret.GetName(),
		types.MergePatchType, patch, metav1.PatchOptions{})
	must(w.t, err)
	if data(*patched, nodeplan.KeyProbeStatuses) != "" {
		w.t.Fatal("the plan Secret still has probe statuses")
	}
}

// command runs a command on a machine and returns its output.
func (w *world) command(machine, command string) string {
	w.t.Helper()
	out, err := w.Lab.Exec(w.t.Context(), machine, command)
	if err != nil {
		w.t.Fatalf("%s on %s: %v: %s", command, machine, err, out)
	}
	return out
}

// healthyAgain waits until the agent has made a pass since forgetProbes, finds the plan applied, and all probes pass.
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
		plan, planErr := base64.StdEncoding.DecodeString(data(*secret, nodeplan.KeyPlan))
		applied, appliedErr := base64.StdEncoding.DecodeString(data(*secret, nodeplan.KeyAppliedChecksum))
		if err := errors.Join(planErr, appliedErr); err != nil || string(applied) != nodeplan.Checksum(plan) {
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
