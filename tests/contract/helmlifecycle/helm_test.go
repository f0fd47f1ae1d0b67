package helmlifecycle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	helm "helm.sh/helm/v4/pkg/cmd"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/testkit/disruptions"
	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/plane"
)

// installation is Drover from its administrator's view.
type installation struct {
	t *testing.T
	// kubeconfig is the administrator's kubeconfig.
	kubeconfig string
	kube       *kubernetes.Clientset
	// values are arguments of helm.
	values []string
}

const (
	release = "drover"
	// serverName is the host in server.url. Its address is that of the release's Service.
	serverName = "drover.test"
)

// newInstallation returns an installation before the first helm command, with only the value that the chart requires.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	for _, variable := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		t.Setenv(variable, t.TempDir())
	}
	t.Cleanup(func() {
		if t.Failed() {
			tellPods(t)
		}
	})
	runServices(t)
	kube, err := kubernetes.NewForConfig(plane.Config(t, "contract-tests"))
	check(t, err)
	return &installation{t: t, kubeconfig: plane.Kubeconfig(t), kube: kube,
		values: []string{"--set", "server.url=https://" + serverName}}
}

// helm runs a Helm command in Drover's namespace and returns its output.
func (in *installation) helm(args ...string) string {
	in.t.Helper()
	args = append(args, "--namespace", charts.SystemNamespace, "--kubeconfig", in.kubeconfig)
	said := &strings.Builder{}
	command, err := helm.NewRootCmd(io.MultiWriter(in.t.Output(), said), args, func(bool) {})
	if err != nil {
		in.t.Fatal(err)
	}
	command.SetArgs(args)
	command.SetErr(in.t.Output())
	if err := command.ExecuteContext(in.t.Context()); err != nil {
		in.t.Fatalf("helm %v: %v", args, err)
	}
	return said.String()
}

func (in *installation) install() {
	in.t.Helper()
	in.helm("install", "drover-crd", in.chart("drover-crd"), "--create-namespace", "--wait", "--timeout", "1m")
	in.helm(append([]string{"install", "drover", in.chart("drover"), "--wait", "--timeout", "2m"}, in.values...)...)
	in.test()
}

// test runs the chart's own test, as docs/install.md and docs/upgrade.md describe. A pod sends a machine's first
// request to the server through its Service.
func (in *installation) test() {
	in.t.Helper()
	if said := in.helm("test", "drover", "--timeout", "3m", "--logs"); !strings.Contains(said,
		"can be used by machines") {
		in.t.Error("helm test has not asked the server")
	}
}

// upgrade upgrades to another version of the charts and of the program. Only the version number differs.
func (in *installation) upgrade(version string) {
	in.t.Helper()
	dir := in.t.TempDir()
	for _, name := range []string{"drover-crd", "drover"} {
		in.helm("package", in.chart(name), "--version", version, "--app-version", "v"+version, "--destination", dir)
		in.helm("upgrade", name, filepath.Join(dir, name+"-"+version+".tgz"), "--reset-then-reuse-values", "--wait",
			"--timeout", "2m")
	}
	in.test()
}

func (in *installation) uninstall() {
	in.t.Helper()
	for _, name := range []string{"drover", "drover-crd"} {
		in.helm("uninstall", name, "--wait", "--timeout", "1m")
	}
	plane.Until(in.t, time.Minute, func() string {
		pods, err := in.kube.CoreV1().Pods(charts.SystemNamespace).List(in.t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Sprintf("%d pods are left (%v)", len(pods.Items), err)
		}
		return ""
	})
}

func (in *installation) chart(name string) string {
	return filepath.Join(plane.Root(in.t), "charts", name)
}

// tellPods logs the states of the pods and the end of their logs.
func tellPods(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	kube, err := kubernetes.NewForConfig(plane.Config(t, "contract-tests"))
	check(t, err)
	pods, err := kube.CoreV1().Pods(charts.SystemNamespace).List(ctx, metav1.ListOptions{})
	check(t, err)
	for i := range pods.Items {
		pod := &pods.Items[i]
		said, err := kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name,
			&corev1.PodLogOptions{TailLines: new(int64(40))}).DoRaw(ctx)
		t.Logf("pod %s is %s, %s %v %v\n%s (%v)", pod.Name, pod.Status.Phase, pod.Status.Message, pod.Status.Conditions,
			pod.Status.ContainerStatuses, said, err)
	}
	if len(pods.Items) == 0 {
		sets, err := kube.AppsV1().ReplicaSets(charts.SystemNamespace).List(ctx, metav1.ListOptions{})
		check(t, err)
		t.Logf("the Deployment has no pods; replica sets: %v", sets.Items)
	}
}

// expectNoDisruption fails for every machine that these runs of the program have restarted, drained or replaced.
func (in *installation) expectNoDisruption() {
	in.t.Helper()
	for _, pod := range in.pods() {
		text, err := in.metrics(pod)
		check(in.t, err)
		counts, err := disruptions.Scraped(bytes.NewReader(text))
		check(in.t, err)
		for cause, count := range counts {
			if count > 0 {
				in.t.Errorf("pod %s counts %d disruptions by %s", pod.Name, count, cause)
			}
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
