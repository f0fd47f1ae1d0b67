package managementplane_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/local/managementplane"
)

// cluster is a complete plane. The image "shell:*" runs /bin/sh -c.
type cluster struct {
	plane *managementplane.Plane
	kubernetes.Interface
	dir string
}

func startCluster(t *testing.T) cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the process kubelet needs root")
	}
	config := configIn(t, t.TempDir())
	config.Components = managementplane.AllComponents()
	config.EndPods = true
	config.Images = []managementplane.Image{
		{Match: "shell:*", Program: "/bin/sh", Args: []string{"-ec"}},
		{
			Match: "example.test/machine:*", Program: "/bin/sh", Args: []string{"-ec"}, WorkingDir: "/home/machine",
			User:  1000,
			Files: map[string]string{"/usr/local/bin/tool": "/bin/echo"},
		},
	}
	plane := start(t, config)
	return cluster{plane: plane, Interface: client(t, plane), dir: config.Dir}
}

// job returns a Job of one pod that runs a script.
func job(name, image, script string, alter ...func(*corev1.PodSpec)) *batchv1.Job {
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "main", Image: image, Args: []string{script}}},
	}
	for _, f := range alter {
		f(&spec)
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       batchv1.JobSpec{BackoffLimit: new(int32), Template: corev1.PodTemplateSpec{Spec: spec}},
	}
}

func (c cluster) run(t *testing.T, j *batchv1.Job) {
	t.Helper()
	if _, err := c.BatchV1().Jobs("default").Create(t.Context(), j, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ended waits for the Job's end and returns its pod.
func (c cluster) ended(t *testing.T, name string) corev1.Pod {
	t.Helper()
	eventually(t, "Job "+name+" ends", func() error {
		j, err := c.BatchV1().Jobs("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if j.Status.Succeeded+j.Status.Failed == 0 {
			return fmt.Errorf("%+v, pods %s", j.Status, c.podStates(t.Context(), name))
		}
		return nil
	})
	return c.pod(t, name)
}

func (c cluster) pod(t *testing.T, jobName string) corev1.Pod {
	t.Helper()
	pods, err := c.pods(t.Context(), jobName)
	if err != nil || len(pods) != 1 {
		t.Fatalf("Job %s has pods %v, %v; want one", jobName, pods, err)
	}
	return pods[0]
}

func (c cluster) pods(ctx context.Context, jobName string) ([]corev1.Pod, error) {
	list, err := c.CoreV1().Pods("default").List(ctx,
		metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + jobName})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (c cluster) podStates(ctx context.Context, jobName string) string {
	pods, err := c.pods(ctx, jobName)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, pod := range pods {
		fmt.Fprintf(&out, "%s %s %s %+v;", pod.Name, pod.Status.Phase, pod.Status.Message, pod.Status.ContainerStatuses)
	}
	return out.String()
}

func (c cluster) kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), kubeBinary(t),
		append([]string{"kubectl", "--kubeconfig", c.plane.Kubeconfig()}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), err
}

func terminated(t *testing.T, pod corev1.Pod) corev1.ContainerStateTerminated {
	t.Helper()
	if len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Terminated == nil {
		t.Fatalf("pod status is %+v, want one terminated container", pod.Status)
	}
	return *pod.Status.ContainerStatuses[0].State.Terminated
}

// One plane serves the whole story, because starting a plane takes longer than all the pods.
