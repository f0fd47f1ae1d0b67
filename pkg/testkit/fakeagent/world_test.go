package fakeagent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/reach/proxy"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const namespace = "default"

// theater is a management API with a World that runs on it.
type theater struct {
	t      *testing.T
	world  *World
	client kubernetes.Interface
}

func play(t *testing.T, change func(*Options)) *theater {
	t.Helper()
	management := memkube.New(memkube.Options{})
	opts := Options{
		Config: management.Config("unused"), API: func() http.Handler { return memkube.New(memkube.Options{}) },
		Probe: 10 * time.Millisecond, Retry: 20 * time.Millisecond, Log: t.Logf,
	}
	if change != nil {
		change(&opts)
	}
	world, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- world.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(management.Config("test"))
	if err != nil {
		t.Fatal(err)
	}
	return &theater{t: t, world: world, client: client}
}

// job creates the Job of a machine and its state Secret, as Drover does.
func (th *theater) job(name, infra, capi string, remove bool) {
	th.t.Helper()
	args := []string{"--secret-namespace=" + namespace, "--secret-name=" + infra + "-state", "create", "--driver=sim",
		"--hostname-override=host-" + infra, infra}
	if remove {
		args = []string{"--secret-namespace=" + namespace, "--secret-name=" + infra + "-state", "rm", "-y",
			"--update-config", infra}
	}
	labels := map[string]string{rkev1.InfraRemoveLabel: "false", rkev1.CAPIMachineNameLabel: capi}
	if remove {
		labels[rkev1.InfraRemoveLabel] = "true"
	} else {
		_, err := th.client.CoreV1().Secrets(namespace).Create(th.t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: infra + "-state"}, Type: rkev1.SecretTypeMachineState,
		}, metav1.CreateOptions{})
		if err != nil {
			th.t.Fatal(err)
		}
	}
	_, err := th.client.BatchV1().Jobs(namespace).Create(th.t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "machine", Image: "rancher/machine:v1", Args: args}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		th.t.Fatal(err)
	}
}

// plan writes a plan for a machine.
func (th *theater) plan(capi string, roles []string, p plan.NodePlan) {
	th.t.Helper()
	encoded, err := nodeplan.Encode(p)
	if err != nil {
		th.t.Fatal(err)
	}
	data, err := nodeplan.Deliver(nil, nodeplan.Delivery{Plan: encoded, MaxFailures: 2, FailureThreshold: 2})
	if err != nil {
		th.t.Fatal(err)
	}
	labels := map[string]string{rkev1.MachineNameLabel: capi, rkev1.ClusterNameLabel: "demo"}
	for _, role := range roles {
		labels[role] = "true"
	}
	_, err = th.client.CoreV1().Secrets(namespace).Create(th.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: capi + "-machine-plan", Labels: labels}, Type: rkev1.SecretTypeMachinePlan,
		Data: data,
	}, metav1.CreateOptions{})
	if err != nil {
		th.t.Fatal(err)
	}
}

func serverPlan() plan.NodePlan {
	return plan.NodePlan{
		Files: []plan.File{{
			Path: "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml",
			// {"node-label":["a=b"],"node-taint":["x=y:NoSchedule"]}
			Content: "eyJub2RlLWxhYmVsIjpbImE9YiJdLCJub2RlLXRhaW50IjpbIng9eTpOb1NjaGVkdWxlIl19",
		}},
		Instructions: []plan.OneTimeInstruction{{CommonInstruction: plan.CommonInstruction{
			Name: "install", Image: "registry.example.com:5000/rancher/system-agent-installer-rke2:v1.36.2-rke2r1",
			Env: []string{"RESTART_STAMP=1"},
		}}},
		PeriodicInstructions: []plan.PeriodicInstruction{
			{CommonInstruction: plan.CommonInstruction{Name: "capture-kubeconfig"}, PeriodSeconds: 600}},
		Probes: map[string]plan.Probe{"kubelet": {}},
	}
}

// state waits until the machine's plan state satisfies reached, and returns it.
func (th *theater) state(capi, want string, reached func(nodeplan.State) bool) nodeplan.State {
	th.t.Helper()
	var last nodeplan.State
	th.until(capi+" is "+want, func() bool {
		secret, err := th.client.CoreV1().Secrets(namespace).Get(th.t.Context(), capi+"-machine-plan",
			metav1.GetOptions{})
		if err != nil {
			return false
		}
		last, err = nodeplan.Parse("test", secret.Data)
		return err == nil && reached(last)
	})
	return last
}

func (th *theater) until(what string, reached func() bool) {
	th.t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-tick.C:
		case <-deadline:
			th.t.Fatalf("not done in time: %s", what)
		}
	}
}

func (th *theater) jobPhase(name string) machinejob.Phase {
	job, err := th.client.BatchV1().Jobs(namespace).Get(th.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return machinejob.Observe(job, nil).Phase
}

func settled(s nodeplan.State) bool { return s.InSync && s.Healthy && len(s.ProbeStatuses) > 0 }

var serverRoles = []string{rkev1.EtcdRoleLabel, rkev1.ControlPlaneRoleLabel}

func TestWorld_ServerStartsItsCluster(t *testing.T) {
	th := play(t, nil)
	th.plan("m1", serverRoles, serverPlan())
	th.job("make-m1", "i1", "m1", false)
	state := th.state("m1", "settled", settled)

	machine := th.world.Machines(namespace)["m1"]
	if machine.Node != "host-i1" || machine.Applied != 1 || machine.Installs != 1 {
		t.Errorf("want a registered machine with one installation, got %+v", machine)
	}
	if phase := th.jobPhase("make-m1"); phase != machinejob.PhaseSucceeded {
		t.Errorf("want the Job succeeded, got %q", phase)
	}

	// The captured kubeconfig works with the machine's address.
	access, err := proxy.Capture(state.PeriodicOutput["capture-kubeconfig"].Stdout)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := access.Kubeconfig(machine.Address)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	downstream, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	node, err := downstream.CoreV1().Nodes().Get(t.Context(), "host-i1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{node.Labels["a"], node.Labels["node-role.kubernetes.io/etcd"], node.Spec.ProviderID,
		node.Spec.Taints[0].ToString(), node.Status.NodeInfo.KubeletVersion, node.Status.Addresses[0].Address}
	want := []string{"b", "true", "rke2://host-i1", "x=y:NoSchedule", "v1.36.2+rke2r1", machine.Address}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node differs (-want +got):\n%s", diff)
	}
	config.CertData, config.KeyData = nil, nil
	if stranger, err := kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	} else if _, err := stranger.Discovery().ServerVersion(); err == nil {
		t.Error("a client without a certificate was accepted")
	}
}

func TestWorld_IdleAgentRunsPeriodicInstructions(t *testing.T) {
	th := play(t, func(o *Options) { o.Idle = 20 * time.Millisecond })
	p := serverPlan()
	p.PeriodicInstructions[0].PeriodSeconds = 1
	th.job("create-a", "infra-a", "capi-a", false)
	th.plan("capi-a", []string{rkev1.EtcdRoleLabel, rkev1.ControlPlaneRoleLabel}, p)
	first := ""
	th.state("capi-a", "a second run of a periodic instruction", func(s nodeplan.State) bool {
		last := s.PeriodicOutput["capture-kubeconfig"].LastSuccessfulRunTime
		if first == "" {
			first = last
		}
		return first != "" && last != first
	})
}

func TestWorld_WorkerWaitsForTheAPI(t *testing.T) {
	th := play(t, nil)
	worker := serverPlan()
	worker.PeriodicInstructions = nil
	th.job("make-m2", "i2", "m2", false)
	th.plan("m2", []string{rkev1.WorkerRoleLabel}, worker)
	th.state("m2", "applied and unhealthy", func(s nodeplan.State) bool { return s.InSync && !s.Healthy })
	th.job("make-m1", "i1", "m1", false)
	th.plan("m1", serverRoles, serverPlan())
	th.state("m2", "settled", settled)
	nodes, err := th.world.Downstream(namespace, "demo").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 {
		t.Errorf("want two nodes, got %d, error %v", len(nodes.Items), err)
	}
}

func TestWorld_RemovedMachineStops(t *testing.T) {
	th := play(t, nil)
	th.plan("m1", serverRoles, serverPlan())
	th.job("make-m1", "i1", "m1", false)
	th.state("m1", "settled", settled)
	th.job("remove-m1", "i1", "m1", true)
	th.until("the Job ended", func() bool { return th.jobPhase("remove-m1") == machinejob.PhaseSucceeded })
	if machines := th.world.Machines(namespace); len(machines) != 0 {
		t.Errorf("want no machine, got %+v", machines)
	}
	secret, err := th.client.CoreV1().Secrets(namespace).Get(t.Context(), "i1-state", metav1.GetOptions{})
	if err != nil || machinejob.StateHolds(secret.Data[rkev1.MachineStateKey]) {
		t.Errorf("want an empty state, error %v", err)
	}
}

type faults struct{ NoFaults }

func (faults) Job(machine string, _ bool, _ int) string {
	if machine == "bad" {
		return "no quota left"
	}
	return ""
}

func (faults) Instruction(machine, _ string, attempt int) error {
	if machine == "flaky" && attempt == 1 || machine == "broken" {
		return errors.New("disk full")
	}
	return nil
}

func TestWorld_Faults(t *testing.T) {
	th := play(t, func(o *Options) { o.Faults = faults{} })
	th.job("make-bad", "bad", "bad", false)
	th.until("the Job failed", func() bool { return th.jobPhase("make-bad") == machinejob.PhaseFailed })
	job, err := th.client.BatchV1().Jobs(namespace).Get(t.Context(), "make-bad", metav1.GetOptions{})
	if err != nil || !strings.Contains(machinejob.Observe(job, nil).Message, "no quota left") {
		t.Errorf("want the reason in the Job, got %q, error %v", machinejob.Observe(job, nil).Message, err)
	}
	for _, name := range []string{"flaky", "broken"} {
		th.job("make-"+name, name, name, false)
		th.plan(name, serverRoles, serverPlan())
	}
	th.state("flaky", "settled", settled)
	if state := th.state("broken", "failed", func(s nodeplan.State) bool { return s.Failed }); state.FailureCount != 2 {
		t.Errorf("want two failures, got %d", state.FailureCount)
	}
}

type hanging struct {
	NoFaults
	answer atomic.Value
}

func (h *hanging) Job(string, bool, int) string { return h.answer.Load().(string) }

func TestWorld_ADriverThatHangs(t *testing.T) {
	driver := &hanging{}
	driver.answer.Store(Hangs)
	th := play(t, func(o *Options) { o.Faults = driver })
	th.job("make-m1", "i1", "m1", false)
	th.until("the Job runs", func() bool {
		job, err := th.client.BatchV1().Jobs(namespace).Get(t.Context(), "make-m1", metav1.GetOptions{})
		return err == nil && machinejob.Observe(job, nil).Started && th.jobPhase("make-m1") == machinejob.PhaseRunning
	})
	if machines := th.world.Machines(namespace); len(machines) != 0 {
		t.Errorf("want no machine before the driver ends, got %+v", machines)
	}
	driver.answer.Store("")
	th.until("the Job ended", func() bool { return th.jobPhase("make-m1") == machinejob.PhaseSucceeded })
}

func TestWorld_LostQuorum(t *testing.T) {
	th := play(t, nil)
	th.plan("m1", serverRoles, serverPlan())
	th.job("make-m1", "i1", "m1", false)
	th.state("m1", "settled", settled)
	if th.world.LoseQuorum(namespace, "unknown") || !th.world.LoseQuorum(namespace, "demo") {
		t.Fatal("want the quorum of the running cluster lost")
	}
	secret, err := th.client.CoreV1().Secrets(namespace).Get(t.Context(), "m1-machine-plan", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(secret.Data, nodeplan.KeyProbeStatuses)
	if _, err := th.client.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	th.state("m1", "unhealthy", func(s nodeplan.State) bool { return s.InSync && !s.Healthy })
	th.world.Remove(namespace, "m1")
	if machines := th.world.Machines(namespace); len(machines) != 0 {
		t.Errorf("want no machine, got %+v", machines)
	}
}

func TestWorld_SilentMachineServesNothing(t *testing.T) {
	th := play(t, nil)
	th.plan("m1", serverRoles, serverPlan())
	th.job("make-m1", "i1", "m1", false)
	th.state("m1", "settled", settled)
	address := th.world.Machines(namespace)["m1"].Address
	if reached(address) != nil {
		t.Fatal("the API cannot be reached")
	}
	th.world.Silence(namespace, "m1")
	if reached(address) == nil {
		t.Error("the API of a silent machine is reachable")
	}
	secret, err := th.client.CoreV1().Secrets(namespace).Get(t.Context(), "m1-machine-plan", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(secret.Data, nodeplan.KeyProbeStatuses)
	if _, err := th.client.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	th.world.Wake(namespace, "m1")
	th.state("m1", "settled again", settled)
	th.until("the API can be reached", func() bool { return reached(address) == nil })
}

// reached dials the API of a machine.
func reached(address string) error {
	connection, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", net.JoinHostPort(address, port))
	if err != nil {
		return err
	}
	return connection.Close()
}
