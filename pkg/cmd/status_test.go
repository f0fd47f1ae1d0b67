package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// observed is a management cluster with Cluster demo, which waits for its machine a, and Cluster ready in team-a.
func observed(t *testing.T) *memkube.Server {
	t.Helper()
	scheme, err := clients.NewScheme()
	check(t, err)
	api := memkube.New(memkube.Options{Scheme: scheme, Namespaces: []string{defaultNamespace, "team-a"}})
	demo := build.Cluster("demo", build.Pool("all", "ecw", 1))
	setReady(demo, "Unknown", "waiting for a")
	ready := build.Cluster("ready", build.Pool("all", "ecw", 1))
	ready.Namespace = "team-a"
	setReady(ready, "True", "")
	machine := build.Machine("demo", "a", "ecw")
	machine.Labels[rkev1.MachinePoolNameLabel] = "all"
	machine.Labels[clusterv1.ClusterNameLabel] = "demo"
	check(t, api.Add(demo, ready, machine))
	return api
}

func setReady(c *provv1.Cluster, status, message string) {
	conditions.Set(&c.Status.Conditions, conditions.Condition{Type: "Ready", Status: status, Message: message},
		time.Now())
}

// statusOf runs drover status until it ends.
func statusOf(t *testing.T, api *memkube.Server, args ...string) (code int, out, problems string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newStatusCommand(nil, &inspectOptions{config: api.Config("looker")})
	root.SilenceUsage = true
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = execute(t.Context(), root, args)
	return code, stdout.String(), stderr.String()
}

func TestStatus_Commands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := observed(t)
		for name, tc := range map[string]struct {
			args      []string
			out, fail string
		}{
			"a namespace": {nil, "NAME  STATE    VERSION         MACHINES  SINCE  WAITS FOR\n" +
				"demo  Waiting  v1.36.2+rke2r1  0/1       0s     waiting for a\n", ""},
			"all namespaces": {[]string{"-A"}, "" +
				"NAMESPACE      NAME   STATE    VERSION         MACHINES  SINCE  WAITS FOR\n" +
				"fleet-default  demo   Waiting  v1.36.2+rke2r1  0/1       0s     waiting for a\n" +
				"team-a         ready  Ready    v1.36.2+rke2r1  0/1       0s\n", ""},
			"a cluster that works": {[]string{"ready", "-n", "team-a"}, "" +
				"Cluster team-a/ready  Ready for 0s  v1.36.2+rke2r1\n\n" +
				"NAME                                   STATE  SINCE  WAITS FOR\n" +
				"Pool all (etcd, controlplane, worker)  0/1    -\n", ""},
			"names": {[]string{"-o", "name"}, "cluster.provisioning.cattle.io/demo\n", ""},
			"names of one cluster": {[]string{"demo", "-o=name"}, "" +
				"cluster.provisioning.cattle.io/demo\nmachine.cluster.x-k8s.io/a\n", ""},
			"an empty namespace": {[]string{"-n", "empty"}, "",
				"There are no clusters in namespace empty; -A shows all"},
			"an unknown cluster": {[]string{"absent"}, "",
				"there is no Cluster absent in namespace fleet-default"},
			"a name without namespace":  {[]string{"demo", "-A"}, "", "a cluster has one namespace"},
			"a watch for programs":      {[]string{"-w", "-o", "json"}, "", "--watch prints text for people"},
			"a watch of no cluster":     {[]string{"absent", "-w"}, "", "there is no Cluster absent in namespace"},
			"more than one cluster":     {[]string{"a", "b"}, "", `unexpected argument "b"`},
			"an unknown kind of output": {[]string{"-o", "tree"}, "", "use table, wide, json, yaml or name"},
		} {
			code, out, problems := statusOf(t, api, tc.args...)
			isError := tc.fail != "" && name != "an empty namespace"
			if diff := cmp.Diff(tc.out, out); diff != "" || code != map[bool]int{true: 1}[isError] ||
				!strings.Contains(problems, tc.fail) {
				t.Errorf("%s: exit code %d, %s (-want +got):\n%s", name, code, problems, diff)
			}
		}
		if writes := api.Writes("drover"); len(writes) > 0 {
			t.Errorf("writes: %v", writes)
		}
	})
}

func TestStatus_TellsWhatIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code, out, problems := statusOf(t, observed(t), "demo")
		for _, want := range []string{"Cluster fleet-default/demo  Waiting for 0s", "`- a ", "Broken: ", "  Do:    "} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("exit code %d, no %q, %s:\n%s", code, want, problems, out)
			}
		}
	})
}

func TestStatus_AsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := observed(t)
		_, out, _ := statusOf(t, api, "-A", "-o", "json")
		var fleet struct {
			Items []struct {
				Namespace, Name, State string
				Machines               map[string]int
			}
		}
		check(t, json.Unmarshal([]byte(out), &fleet))
		if len(fleet.Items) != 2 || fleet.Items[0].State != "Waiting" || fleet.Items[0].Machines["wanted"] != 1 {
			t.Errorf("got %+v", fleet)
		}
		_, out, _ = statusOf(t, api, "-n", "empty", "-o", "json")
		if out != "{\n  \"items\": []\n}\n" {
			t.Errorf("an empty list is %q", out)
		}
		_, out, _ = statusOf(t, api, "ready", "-n", "team-a", "-o", "yaml")
		if !strings.Contains(out, "  state: Ready\n") || !strings.Contains(out, "groups:\n") {
			t.Errorf("got %s", out)
		}
	})
}

// A user without permissions for Machines sees the clusters.
func TestStatus_WithoutMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := observed(t)
		api.Intercept(func(r memkube.Request) error {
			if r.Resource.Resource == "machines" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", errors.New("not for you"))
			}
			return nil
		})
		code, out, problems := statusOf(t, api)
		if code != 0 || !strings.Contains(out, "demo  Waiting  v1.36.2+rke2r1  - ") ||
			!strings.Contains(out, "Note: machines are unknown: ") {
			t.Errorf("exit code %d, %s:\n%s", code, problems, out)
		}
	})
}

// watching is a running drover status --watch.
type watching struct {
	*testing.T
	api    *memkube.Server
	writer *clients.Clients
	out    printedBuffer
	width  atomic.Int32
	done   chan error
	stop   func()
}

// watch starts drover status --watch. A width makes its output a terminal.
func watch(t *testing.T, api *memkube.Server, width int32, environ []string, args ...string) *watching {
	t.Helper()
	w := &watching{T: t, api: api, done: make(chan error, 1)}
	w.width.Store(width)
	o := &statusOptions{inspectOptions: &inspectOptions{config: w.api.Config("looker"),
		formats: []string{outputTable, outputWide}}, environ: environ, now: time.Now,
		terminal: func(io.Writer) *terminal {
			if width == 0 {
				return nil
			}
			return &terminal{size: func() (int, int) { return int(w.width.Load()), 24 },
				resized: func() (<-chan os.Signal, func()) { return nil, func() {} }}
		}}
	cmd := o.command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&w.out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(append(args, "--watch"))
	var err error
	w.writer, err = clients.New(w.api.Config("writer"), clients.Options{Version: "writer", WithoutDynamic: true})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = func() {
		cancel()
		w.writer.Stop()
	}
	go func() { w.done <- cmd.ExecuteContext(ctx) }()
	return w
}

// next returns what was printed during the next seconds.
func (w *watching) next(wait time.Duration) string {
	time.Sleep(wait)
	synctest.Wait()
	return w.out.next()
}

// printedBuffer is a buffer that several goroutines use.
type printedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (b *printedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// next returns what was written since the last call.
func (b *printedBuffer) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.buffer.Reset()
	return b.buffer.String()
}

// ready changes condition Ready of Cluster demo.
func (w *watching) ready(status, message string) {
	w.Helper()
	cluster, err := w.writer.Provisioning.Cluster().Get(defaultNamespace, "demo", metav1.GetOptions{})
	check(w.T, err)
	setReady(cluster, status, message)
	_, err = w.writer.Provisioning.Cluster().UpdateStatus(cluster)
	check(w.T, err)
}

// ended requires that the command has ended without an error.
func (w *watching) ended() {
	w.Helper()
	synctest.Wait()
	select {
	case err := <-w.done:
		check(w.T, err)
	default:
		w.Fatal("the command goes on")
	}
}

func TestStatus_WatchPrintsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, observed(t), 0, nil, "demo")
		defer w.stop()
		got := w.next(2 * time.Second)
		for _, want := range []string{
			"2000-01-01T00:00:00Z Cluster fleet-default/demo Waiting: waiting for a\n" +
				"2000-01-01T00:00:00Z Machine fleet-default/a Creating: Waiting for the host\n",
			"Broken: ",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in:\n%s", want, got)
			}
		}
		if got := w.next(time.Minute); got != "" {
			t.Errorf("printed without a change:\n%s", got)
		}
		w.ready("True", "")
		const want = "2000-01-01T00:01:02Z Cluster fleet-default/demo Ready\n"
		if diff := cmp.Diff(want, w.next(time.Second)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		check(t, w.writer.Provisioning.Cluster().Delete(defaultNamespace, "demo", nil))
		if got := w.next(time.Second); !strings.HasSuffix(got, "Cluster fleet-default/demo is gone\n") {
			t.Errorf("printed %q", got)
		}
		w.ended()
	})
}

// The watch goes on after the API server was away, and shows what has changed meanwhile.
func TestStatus_WatchResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, observed(t), 0, nil)
		defer w.stop()
		w.next(2 * time.Second)
		w.api.CutAfter("drover/"+Version, 0, nil)
		const problem = "Z cannot read, and tries again: memkube: connection refused: the client was disconnected\n"
		if got := w.next(15 * time.Minute); strings.Count(got, problem) != 1 { // watches have ended meanwhile
			t.Errorf("printed %q", got)
		}
		w.ready("False", "no quota")
		if got := w.next(10 * time.Minute); got != "" {
			t.Fatalf("the cut had no effect:\n%s", got)
		}
		w.api.Mend("drover/" + Version)
		if got := w.next(15 * time.Second); !strings.Contains(got, "Cluster fleet-default/demo Failed: no quota\n") {
			t.Errorf("printed %q", got)
		}
		w.stop()
		w.ended()
	})
}

func TestStatus_WatchDrawsATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, observed(t), 80, nil)
		defer w.stop()
		first := w.next(500 * time.Millisecond)
		if !strings.Contains(first, "\x1b[33mWaiting\x1b[0m") || strings.Count(first, "\x1b[J") != 1 {
			t.Errorf("the first drawing is %q", first)
		}
		w.ready("True", "")
		second := w.next(500 * time.Millisecond)
		if !strings.HasPrefix(second, "\x1b[2A\r") || !strings.Contains(second, "\x1b[32mReady\x1b[0m") {
			t.Errorf("the second drawing is %q", second)
		}
		w.width.Store(20)
		for line := range strings.SplitSeq(w.next(2*time.Second), "\r\n") {
			if strings.Contains(line, "v1.36.2") {
				t.Errorf("a line for 20 columns: %q", line)
			}
		}
		w.stop()
		w.ended()
	})
}

func TestStatus_WatchIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, observed(t), 80, []string{"NO_COLOR=1"}, "demo")
		defer w.stop()
		if got := w.next(2 * time.Second); strings.Contains(got, "\x1b[3") || !strings.Contains(got, "\x1b[K") {
			t.Errorf("colours in spite of NO_COLOR: %q", got)
		}
		check(t, w.writer.Provisioning.Cluster().Delete(defaultNamespace, "demo", nil))
		if got := w.next(time.Second); !strings.Contains(got, "Cluster fleet-default/demo is gone") {
			t.Errorf("printed %q", got)
		}
		w.ended()
	})
}

// A refused watch ends with the error, and not with an endless attempt.
func TestStatus_WatchIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, observed(t), 0, nil)
		defer w.stop()
		w.next(2 * time.Second)
		w.api.Intercept(func(r memkube.Request) error {
			if r.Resource.Resource == "clusters" {
				return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
					Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "no"}}
			}
			return nil
		})
		w.next(2 * time.Hour)
		select {
		case err := <-w.done:
			if err == nil || !strings.Contains(err.Error(), "list clusters of fleet-default: no") {
				t.Errorf("error %v", err)
			}
		default:
			t.Error("the command goes on")
		}
	})
}

// A watch without permissions for Machines shows the clusters.
func TestStatus_WatchWithoutMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := observed(t)
		api.Intercept(func(r memkube.Request) error {
			if r.Resource.Resource == "machines" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", errors.New("not for you"))
			}
			return nil
		})
		w := watch(t, api, 80, nil)
		defer w.stop()
		got := w.next(2 * time.Second)
		if !strings.Contains(got, "demo  \x1b[33mWaiting\x1b[0m  v1.36.2+rke2r1  - ") ||
			!strings.Contains(got, "Note: machines are unknown: ") {
			t.Errorf("drew %q", got)
		}
		w.stop()
		w.ended()
	})
}

func TestRootFor_KubectlPlugin(t *testing.T) {
	var out bytes.Buffer
	root := rootFor("/usr/bin/kubectl-drover", nil)
	root.SetOut(&out)
	if code := execute(t.Context(), root, []string{"status", "--help"}); code != 0 ||
		!strings.Contains(out.String(), "kubectl drover status [CLUSTER] [flags]") {
		t.Errorf("exit code %d:\n%s", code, out.String())
	}
}

// Every command looks in the namespace of the context, like kubectl.
func TestInNamespace(t *testing.T) {
	path := twoContexts(t)
	for name, tc := range map[string]struct {
		o    inspectOptions
		want string
	}{
		"the flag": {
			inspectOptions{kubeconfig: path, context: "there", namespace: "mine"}, "mine",
		},
		"the context of the flag":       {inspectOptions{kubeconfig: path, context: "team"}, "team-a"},
		"a context without a namespace": {inspectOptions{kubeconfig: path}, defaultNamespace},
		"no kubeconfig":                 {inspectOptions{kubeconfig: path + "-absent"}, defaultNamespace},
	} {
		if got := tc.o.inNamespace(); got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
