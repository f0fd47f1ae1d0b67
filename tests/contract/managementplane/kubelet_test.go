package managementplane_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/local/managementplane"
)

func TestProcessKubelet(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	t.Run("job with secret volume", func(t *testing.T) { testSecretVolume(t, c) })
	t.Run("job runs in a clean folder", func(t *testing.T) { testCleanPlace(t, c) })
	t.Run("service account token works", func(t *testing.T) { testToken(t, c) })
	t.Run("failing job", func(t *testing.T) { testFailingJob(t, c) })
	t.Run("unknown image", func(t *testing.T) { testUnknownImage(t, c) })
	t.Run("secret arrives late", func(t *testing.T) { testLateSecret(t, c) })
	t.Run("init container and shared directory", func(t *testing.T) { testInitContainer(t, c) })
	t.Run("restart policy", func(t *testing.T) { testRestart(t, c) })
	t.Run("exec and logs", func(t *testing.T) { testExec(t, c) })
	t.Run("deleted pod ends at once", func(t *testing.T) { testDelete(t, c) })
	t.Run("kubelet killed", func(t *testing.T) { testKubeletKilled(t, c) })
}

func testSecretVolume(t *testing.T, c cluster) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap"},
		StringData: map[string]string{"value": "#!/bin/sh\necho from-secret", "other": "x"},
	}
	if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mode, user := int32(0o777), int64(1000)
	c.run(t, job("secret", "example.test/machine:v1",
		`/run/secrets/machine/value; cat /etc/rancher/ssl/ca.crt; id -u; pwd; echo "$HOME"; touch here; stat -c %a /run/secrets/machine/value; tool used`,
		func(spec *corev1.PodSpec) {
			spec.Volumes = []corev1.Volume{{Name: "bootstrap", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: "bootstrap", DefaultMode: &mode},
			}}}
			spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &user, RunAsGroup: &user}
			spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
				{Name: "bootstrap", MountPath: "/run/secrets/machine", ReadOnly: true},
				{Name: "bootstrap", MountPath: "/etc/rancher/ssl/ca.crt", SubPath: "other"},
			}
		}))
	pod := c.ended(t, "secret")
	logs, err := c.kubectl(t, "logs", pod.Name)
	if err != nil {
		t.Fatal(err)
	}
	if want := "from-secret\nx1000\n/home/machine\n/home/machine\n777\nused\n"; pod.Status.Phase !=
		corev1.PodSucceeded || logs != want {
		t.Errorf("phase %s, log %q; want Succeeded, %q", pod.Status.Phase, logs, want)
	}
	if left, _ := filepath.Glob(filepath.Join(c.dir, "kubelet", "pods", string(pod.UID), "volumes",
		"*")); len(left) > 0 {
		t.Errorf("volumes of a finished pod still exist on disk: %v", left)
	}
}

func testCleanPlace(t *testing.T, c cluster) {
	t.Helper()
	c.run(t, job("clean", "shell:1", `env | sort; ls -d /home/* /root/* "`+c.dir+
		`" 2>/dev/null | wc -l; touch /etc/mine /tmp/mine /run/mine; echo ok > /dev/null`))
	pod := c.ended(t, "clean")
	logs, err := c.kubectl(t, "logs", pod.Name)
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(c.plane.RESTConfig().Host, "https://")
	address, port, _ := strings.Cut(host, ":")
	want := strings.Join([]string{
		"HOME=/root", "HOSTNAME=" + pod.Name, "KUBERNETES_SERVICE_HOST=" + address, "KUBERNETES_SERVICE_PORT=" + port,
		"KUBERNETES_SERVICE_PORT_HTTPS=" + port, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"PWD=/", "0", "",
	}, "\n")
	if logs != want {
		t.Errorf("the pod sees %q, want %q", logs, want)
	}
	for _, path := range []string{"/etc/mine", "/tmp/mine", "/run/mine"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("the pod wrote %s on this machine", path)
		}
	}
}

func testToken(t *testing.T, c cluster) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl on this machine")
	}
	c.run(t, job("token", "shell:1", `d=/var/run/secrets/kubernetes.io/serviceaccount
curl -s --cacert $d/ca.crt -H "Authorization: Bearer $(cat $d/token)" https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/$(cat $d/namespace)/secrets`))
	pod := c.ended(t, "token")
	logs, err := c.kubectl(t, "logs", pod.Name)
	if err != nil {
		t.Fatal(err)
	}
	if want := `User \"system:serviceaccount:default:default\" cannot list resource \"secrets\"`; !strings.Contains(
		logs, want) {
		t.Errorf("the API server told the pod %s, want it to know the service account", logs)
	}
}

func testFailingJob(t *testing.T, c cluster) {
	t.Helper()
	c.run(t, job("fails", "shell:1", `echo working; echo "no quota left" | tee /dev/termination-log; exit 42`))
	pod := c.ended(t, "fails")
	end := terminated(t, pod)
	if pod.Status.Phase != corev1.PodFailed || end.ExitCode != 42 || end.Message != "no quota left\n" ||
		end.Reason != "Error" {
		t.Errorf("phase %s, end %+v; want Failed, 42, the termination message", pod.Status.Phase, end)
	}
}

func testUnknownImage(t *testing.T, c cluster) {
	t.Helper()
	c.run(t, job("unknown", "example.test/stranger:v1", "true"))
	pod := c.ended(t, "unknown")
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "UnknownImage" ||
		!strings.Contains(pod.Status.Message, `"example.test/stranger:v1"`) ||
		!strings.Contains(pod.Status.Message, "shell:*") {
		t.Errorf("pod failed as %s/%s: %s; want UnknownImage, the image and the known ones", pod.Status.Phase,
			pod.Status.Reason, pod.Status.Message)
	}
}

func testLateSecret(t *testing.T, c cluster) {
	t.Helper()
	c.run(t, job("late", "shell:1", `echo "$WORD"`, func(spec *corev1.PodSpec) {
		spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}}
	}))
	eventually(t, "the pod reports what it waits for", func() error {
		if states := c.podStates(t.Context(), "late"); !strings.Contains(states, `secrets "late" not found`) {
			return errors.New(states)
		}
		return nil
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late"},
		StringData: map[string]string{"WORD": "there"}}
	if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := c.ended(t, "late")
	if logs, err := c.kubectl(t, "logs", pod.Name); logs != "there\n" {
		t.Errorf("log %q, %v", logs, err)
	}
}

func testInitContainer(t *testing.T, c cluster) {
	t.Helper()
	c.run(t, job("init", "shell:1", `cat /shared/word`, func(spec *corev1.PodSpec) {
		mounts := []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
		spec.Volumes = []corev1.Volume{
			{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		spec.InitContainers = []corev1.Container{{Name: "first", Image: "shell:1",
			Args: []string{"echo prepared > /shared/word"}, VolumeMounts: mounts}}
		spec.Containers[0].VolumeMounts = mounts
	}))
	pod := c.ended(t, "init")
	if logs, err := c.kubectl(t, "logs", pod.Name); logs != "prepared\n" {
		t.Errorf("log %q, %v; pod %+v", logs, err, pod.Status)
	}
}

func testRestart(t *testing.T, c cluster) {
	t.Helper()
	j := job("again", "shell:1", `test -e /shared/second || { touch /shared/second; echo first; exit 1; }; echo second`,
		func(spec *corev1.PodSpec) {
			spec.RestartPolicy = corev1.RestartPolicyOnFailure
			spec.Volumes = []corev1.Volume{
				{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
		})
	*j.Spec.BackoffLimit = 3
	c.run(t, j)
	pod := c.ended(t, "again")
	if status := pod.Status.ContainerStatuses[0]; pod.Status.Phase != corev1.PodSucceeded || status.RestartCount != 1 ||
		status.LastTerminationState.Terminated == nil || status.LastTerminationState.Terminated.ExitCode != 1 {
		t.Errorf("pod %s, container %+v; want one restart after exit code 1", pod.Status.Phase, status)
	}
	for flag, want := range map[string]string{"--previous=false": "second\n", "--previous": "first\n"} {
		if logs, err := c.kubectl(t, "logs", pod.Name, flag); logs != want {
			t.Errorf("logs %s: %q, %v; want %q", flag, logs, err, want)
		}
	}
}

func testExec(t *testing.T, c cluster) {
	t.Helper()
	c.run(t, job("waits", "example.test/machine:v1",
		`trap 'echo told; exit 0' TERM; echo a; echo b; echo c; while :; do sleep 0.1; done`))
	eventually(t, "the pod runs", func() error { return c.running(t.Context(), "waits") })
	pod := c.pod(t, "waits")
	out, err := c.kubectl(t, "exec", pod.Name, "--", "sh", "-c", "id -u; pwd; exit 7")
	var exit *exec.ExitError
	if out != "1000\n/home/machine\n" || !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("exec printed %q, ended with %v; want user 1000 in /home/machine, exit code 7", out, err)
	}
	testPortForward(t, c, pod.Name)
	eventually(t, "the last line is in the log", func() error {
		if logs, err := c.kubectl(t, "logs", pod.Name, "--tail=2"); logs != "b\nc\n" {
			return fmt.Errorf("%q, %w", logs, err)
		}
		return nil
	})
}

// A pod's ports are this machine's ports. The test uses the kubelet's own health endpoint.
func testPortForward(t *testing.T, c cluster, pod string) {
	t.Helper()
	var ports managementplane.Ports
	content, err := os.ReadFile(filepath.Join(c.dir, "run", "ports"))
	if err == nil {
		err = json.Unmarshal(content, &ports)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, kubeBinary(t), "kubectl", "--kubeconfig", c.plane.Kubeconfig(), "port-forward",
		"pod/"+pod, fmt.Sprintf(":%d", ports.KubeletHealth))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(stdout).ReadString('\n') // Forwarding from 127.0.0.1:34567 -> 20001
	fields := strings.Fields(line)
	if err != nil || len(fields) < 3 {
		t.Fatalf("kubectl port-forward said %q, %v", line, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+fields[2]+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); string(body) != "ok" {
		t.Errorf("through the forwarded port came %q, %v", body, err)
	}
}

func (c cluster) running(ctx context.Context, jobName string) error {
	pods, err := c.pods(ctx, jobName)
	if err != nil {
		return err
	}
	if len(pods) != 1 || len(pods[0].Status.ContainerStatuses) != 1 ||
		pods[0].Status.ContainerStatuses[0].State.Running == nil {
		return errors.New(c.podStates(ctx, jobName))
	}
	return nil
}

// When the pod of testExec is deleted, it gets its signal, and is gone long before its grace period of 30 s ends.
func testDelete(t *testing.T, c cluster) {
	t.Helper()
	pod := c.pod(t, "waits")
	background := metav1.DeletePropagationBackground
	if err := c.BatchV1().Jobs("default").Delete(t.Context(), "waits",
		metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	tries := 0
	eventually(t, "the pod is deleted", func() error {
		tries++
		_, err := c.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still exists: %w", err)
		}
		return nil
	})
	if tries > 200 {
		t.Errorf("it took %d attempts, want far fewer than the grace period allows", tries)
	}
	eventually(t, "its files are deleted", func() error {
		if _, err := os.Stat(filepath.Join(c.dir, "kubelet", "pods", string(pod.UID))); err == nil {
			return errors.New("still exists")
		}
		return nil
	})
}

// The kubelet is killed while one pod runs and another ends. Neither runs twice, and both are reported.
func testKubeletKilled(t *testing.T, c cluster) {
	t.Helper()
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	hostPath := func(spec *corev1.PodSpec) {
		spec.Volumes = []corev1.Volume{
			{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: shared}}}}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/host"}}
	}
	for _, name := range []string{"long", "short"} {
		c.run(t, job(name, "shell:1", `echo run >> /host/`+name+`.runs; until test -e /host/`+name+
			`.go; do sleep 0.05; done; echo finished; exit 5`, hostPath))
		eventually(t, name+" runs", func() error { return c.running(t.Context(), name) })
	}
	touch := func(name string) {
		if err := os.WriteFile(filepath.Join(shared, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := c.plane.PID(managementplane.ProcessKubelet)
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	touch("short.go") // ends while no kubelet watches, or nearly so
	eventually(t, "another kubelet runs", func() error {
		if pid := c.plane.PID(managementplane.ProcessKubelet); pid == 0 || pid == old {
			return errors.New("not yet")
		}
		return nil
	})
	if end := terminated(t, c.ended(t, "short")); end.ExitCode != 5 {
		t.Errorf("short ended as %+v, want exit code 5", end)
	}
	if err := c.running(t.Context(), "long"); err != nil {
		t.Errorf("long has stopped: %v", err)
	}
	touch("long.go")
	pod := c.ended(t, "long")
	if end := terminated(t, pod); end.ExitCode != 5 {
		t.Errorf("long ended as %+v, want exit code 5", end)
	}
	if logs, err := c.kubectl(t, "logs", pod.Name); logs != "finished\n" {
		t.Errorf("log %q, %v", logs, err)
	}
	for _, name := range []string{"long", "short"} {
		if runs, err := os.ReadFile(filepath.Join(shared, name+".runs")); string(runs) != "run\n" {
			t.Errorf("%s ran as %q, %v; want exactly one run", name, runs, err)
		}
	}
}
