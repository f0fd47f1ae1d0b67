package simulated

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/cmd"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

var logLine = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)) \[(INFO |ERROR)\] (.+)$`)

// failedRemovals lets the first removal of each machine fail, with a pod that has written an output.
type failedRemovals struct {
	fakeagent.NoFaults
	fail func(machine string) string
}

// Job implements fakeagent.Faults.
func (f failedRemovals) Job(machine string, remove bool, attempt int) string {
	if !remove || attempt > 1 {
		return ""
	}
	return f.fail(machine)
}

// TestProvisioningLog reads the logs of a cluster and of a machine with the command. The cluster's log tells how it
// came up, and a settled cluster gets no line. The machine's output is there after its pod is gone.
func TestProvisioningLog(t *testing.T) {
	var st *stage.Stage
	namespace := plane.Namespace(t)
	st = stage.Start(t, stage.Settings{Machines: func(o *fakeagent.Options) {
		o.Boot = 5 * time.Second // as long as Drover may hold back the messages of a Cluster
		o.Faults = failedRemovals{fail: func(machine string) string {
			if err := addPod(context.WithoutCancel(t.Context()), st, namespace, machine); err != nil {
				t.Logf("make the pod of %s: %v", machine, err)
			}
			return "Job has reached the specified backoff limit"
		}}
	}})
	clusters := st.Apply(namespace, 2, map[string]string{"logged": stage.K3s})
	clusters.AwaitReady()
	stage.WatchRest(t, clusters)
	expectStory(t, printed(t, "logs", "logged", "-n", namespace))

	worker := workerOf(t, st, namespace)
	if err := st.Client.Delete(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	output := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: naming.MachineOutput(worker.Spec.InfrastructureRef.Name)}}
	plane.Until(t, 2*time.Minute, func() string {
		if err := st.Client.Get(t.Context(), client.ObjectKeyFromObject(output), output); err != nil {
			return err.Error()
		}
		return ""
	})
	if err := st.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(namespace),
		client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	if got := printed(t, "logs", "machine/"+worker.Name, "-n", namespace); got != "asking the cloud\nquota exceeded\n" {
		t.Errorf("the output of the machine is %q", got)
	}
	plane.Until(t, 5*time.Minute, func() string { return st.Gone(output) })
}

// workerOf returns the worker of the cluster.
func workerOf(t *testing.T, st *stage.Stage, namespace string) *clusterv1.Machine {
	t.Helper()
	machines := &clusterv1.MachineList{}
	if err := st.Client.List(t.Context(), machines, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range machines.Items {
		if strings.Contains(machines.Items[i].Name, "-worker-") {
			return &machines.Items[i]
		}
	}
	t.Fatalf("none of %d machines is a worker", len(machines.Items))
	return nil
}

// addPod acts as the Job controller and the kubelet: it makes the failed pod of the Job that removes a machine.
func addPod(ctx context.Context, st *stage.Stage, namespace, machine string) error {
	jobs := &batchv1.JobList{}
	if err := st.Client.List(ctx, jobs, client.InNamespace(namespace),
		client.MatchingLabels{rkev1.InfraRemoveLabel: "true"}); err != nil {
		return err
	}
	at := slices.IndexFunc(jobs.Items, func(job batchv1.Job) bool {
		return job.Annotations[machinejob.InfraMachineAnnotation] == machine
	})
	if at < 0 {
		return fmt.Errorf("none of %d Jobs removes it", len(jobs.Items))
	}
	template := jobs.Items[at].Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: jobs.Items[at].Name,
		Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec}
	pod.Labels[batchv1.JobNameLabel] = jobs.Items[at].Name
	if err := st.Client.Create(ctx, pod); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1,
			Message: "asking the cloud\nquota exceeded\n"}}}}
	return st.Client.Status().Update(ctx, pod)
}

// printed returns the output of a command.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := cmd.NewCommand(nil)
	root.SetOut(&out)
	root.SetErr(t.Output())
	root.SetArgs(append(args, "--kubeconfig", plane.Kubeconfig(t)))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Errorf("drover %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// expectStory checks the lines of a cluster that came up without a failure: their form, their order and the end.
func expectStory(t *testing.T, log string) {
	t.Helper()
	t.Log(log)
	lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
	if len(lines) < 2 || !strings.HasSuffix(lines[len(lines)-1], " [INFO ] provisioning done") {
		t.Errorf("the log has %d lines, or another end", len(lines))
	}
	var last, lastText string
	for _, line := range lines {
		parts := logLine.FindStringSubmatch(line)
		switch {
		case parts == nil:
			t.Errorf("not a line of a log: %q", line)
		case parts[1] <= last || parts[3] == lastText:
			t.Errorf("%q follows %s %s", line, last, lastText)
		default:
			last, lastText = parts[1], parts[3]
		}
	}
}
