package machinenodelookup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

var demo = types.NamespacedName{Namespace: "fleet-default", Name: "demo"}

// cloud is the downstream side: one set of nodes for all clusters, and simulated failures.
type cloud struct {
	nodes *fake.Clientset

	mu    sync.Mutex
	calls map[types.NamespacedName]int
	down  map[types.NamespacedName]error
	hang  map[types.NamespacedName]bool
}

func newCloud(nodes ...runtime.Object) *cloud {
	return &cloud{
		nodes: fake.NewClientset(nodes...), calls: map[types.NamespacedName]int{},
		down: map[types.NamespacedName]error{},
		hang: map[types.NamespacedName]bool{},
	}
}

func (c *cloud) Client(ctx context.Context, cluster types.NamespacedName) (kubernetes.Interface, error) {
	c.mu.Lock()
	c.calls[cluster]++
	err, hang := c.down[cluster], c.hang[cluster]
	c.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.nodes, err
}

func (c *cloud) set(err error, hang bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[demo], c.down[demo], c.hang[demo] = 0, err, hang
}

func (c *cloud) asked(cluster types.NamespacedName) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[cluster]
}

func node(name, uid string, edits ...func(*corev1.Node)) *corev1.Node {
	made := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{rkev1.MachineUIDLabel: uid}},
		Spec:       corev1.NodeSpec{ProviderID: "k3s://" + name},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.9"}},
		},
	}
	for _, edit := range edits {
		edit(made)
	}
	return made
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func age(d time.Duration) func(*corev1.Node) {
	made := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(-d))
	return func(n *corev1.Node) { n.CreationTimestamp = made }
}

func noProviderID(n *corev1.Node) { n.Spec.ProviderID = "" }

func TestChoose(t *testing.T) {
	cases := map[string]struct {
		nodes   []corev1.Node
		want    string
		wantErr error
	}{
		"no node":                  {},
		"a ready node":             {nodes: []corev1.Node{*node("a", "u")}, want: "a"},
		"a node that is not ready": {nodes: []corev1.Node{*node("a", "u", notReady)}},
		"a node without a Ready condition": {nodes: []corev1.Node{*node("a", "u", func(n *corev1.Node) {
			n.Status.Conditions = nil
		})}},
		"a node without a provider ID": {nodes: []corev1.Node{*node("a", "u", noProviderID)}},
		"a node that is gone, and the machine's own": {nodes: []corev1.Node{*node("old", "u", notReady),
			*node("new", "u")}, want: "new"},
		"a ready node, and a younger one that is not ready": {
			nodes:   []corev1.Node{*node("a", "u", age(time.Hour)), *node("b", "u", notReady, age(time.Minute))},
			wantErr: errYounger,
		},
		"a ready node, and an older one that is gone": {
			nodes: []corev1.Node{*node("a", "u", notReady, age(time.Hour)), *node("b", "u", age(time.Minute))},
			want:  "b",
		},
		"two ready nodes": {nodes: []corev1.Node{*node("a", "u"), *node("b", "u")}, wantErr: errAmbiguous},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := choose(c.nodes)
			if !errors.Is(err, c.wantErr) {
				t.Fatalf("error is %v, want %v", err, c.wantErr)
			}
			if gotName := nameOf(got); gotName != c.want {
				t.Errorf("node %q, want %q", gotName, c.want)
			}
		})
	}
}

func nameOf(n *corev1.Node) string {
	if n == nil {
		return ""
	}
	return n.Name
}

func TestWaitFor(t *testing.T) {
	cases := map[string]struct{ asked, age, want time.Duration }{
		"a young machine": {0, time.Minute, often},
		"a young machine whose cluster is being queried": {busyAgain, time.Minute, busyAgain},
		"a young machine whose cluster is down":          {rarely, time.Minute, rarely},
		"an old machine":                                 {0, time.Hour, rarely},
		"an old machine whose cluster is being queried":  {busyAgain, time.Hour, rarely},
		"a machine at the age limit":                     {0, oftenFor, rarely},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := waitFor(c.asked, c.age); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func quiet() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// TestLookout_OneRequestForAllMachines: machines that look at the same time cost at most one request each the first
// time, and then one for all.
func TestLookout_OneRequestForAllMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const machines = 50
		cloud := newCloud()
		for i := range machines {
			must(t, cloud.nodes.Tracker().Add(node(fmt.Sprintf("n%d", i), fmt.Sprintf("u%d", i))))
		}
		look := newLookout(cloud, time.Now, quiet())
		round := func() (found int) {
			for i := range machines {
				got, _, err := look.find(t.Context(), demo, types.UID(fmt.Sprintf("u%d", i)))
				must(t, err)
				if got != nil && got.Name == fmt.Sprintf("n%d", i) {
					found++
				}
			}
			return found
		}
		if found := round(); found != machines {
			t.Errorf("%d found in the first round", found)
		}
		before := cloud.asked(demo)
		time.Sleep(often)
		if found := round(); found != machines {
			t.Errorf("%d found in the second round", found)
		}
		if asked := cloud.asked(demo) - before; asked != 1 {
			t.Errorf("%d requests for %d machines, want one", asked, machines)
		}
	})
}

// TestLookout_SelectsOnlyWaitingMachines: the answer holds only the requested nodes, and a machine never gets another's
// node.
func TestLookout_SelectsOnlyWaitingMachines(t *testing.T) {
	cloud := newCloud(node("n1", "u1"), node("n2", "u2"))
	look := newLookout(cloud, time.Now, quiet())
	got, _, err := look.find(t.Context(), demo, "u1")
	must(t, err)
	if nameOf(got) != "n1" {
		t.Errorf("node is %q", nameOf(got))
	}
	var selectors []string
	for _, action := range cloud.nodes.Actions() {
		if list, ok := action.(clienttesting.ListAction); ok {
			selectors = append(selectors, list.GetListRestrictions().Labels.String())
		}
	}
	if want := rkev1.MachineUIDLabel + " in (u1)"; len(selectors) != 1 || selectors[0] != want {
		t.Errorf("the request selects %q, want %q", selectors, want)
	}
}

// TestLookout_ManyMachines: the URL stays short, and every machine gets its turn.
func TestLookout_ManyMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud()
		for i := range 250 {
			must(t, cloud.nodes.Tracker().Add(node(fmt.Sprintf("n%d", i), fmt.Sprintf("u%d", i))))
		}
		look := newLookout(cloud, time.Now, quiet())
		for range 2 {
			for i := range 250 {
				got, _, err := look.find(t.Context(), demo, types.UID(fmt.Sprintf("u%d", i)))
				must(t, err)
				if want := fmt.Sprintf("n%d", i); nameOf(got) != want {
					t.Fatalf("node is %q, want %q", nameOf(got), want)
				}
			}
			time.Sleep(often)
		}
		for _, action := range cloud.nodes.Actions() {
			list, ok := action.(clienttesting.ListAction)
			if !ok {
				continue
			}
			if n := strings.Count(list.GetListRestrictions().Labels.String(), ",") + 1; n > maxLooked {
				t.Fatalf("one request asks for %d machines", n)
			}
		}
	})
}

// TestLookout_ClusterThatIsDown: fifty waiting machines cause rare requests with growing pauses, and the cluster's
// return is soon noticed.
func TestLookout_ClusterThatIsDown(t *testing.T) {
	cases := map[string]struct {
		err  error
		hang bool
	}{
		"refuses": {err: errors.New("connection refused")},
		"hangs":   {hang: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newCloud(node("n1", "u1"))
				cloud.set(c.err, c.hang)
				look := newLookout(cloud, time.Now, quiet())
				start := time.Now()
				for time.Since(start) < 10*time.Minute {
					for i := range 50 {
						_, after, err := look.find(t.Context(), demo, types.UID(fmt.Sprintf("u%d", i)))
						if err == nil || after > rarely {
							t.Fatalf("error %v, retry after %s", err, after)
						}
					}
					time.Sleep(time.Second)
				}
				if asked := cloud.asked(demo); asked < 20 || asked > 50 {
					t.Errorf("%d requests in ten minutes", asked)
				}
				cloud.set(nil, false)
				time.Sleep(rarely)
				got, _, err := look.find(t.Context(), demo, "u1")
				if err != nil || nameOf(got) != "n1" {
					t.Errorf("node %q, error %v after the cluster answers again", nameOf(got), err)
				}
			})
		})
	}
}

// TestLookout_OneClusterBlocksOneWorker: while one worker waits for a cluster that hangs, others return at once, and
// other clusters are served.
func TestLookout_OneClusterBlocksOneWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(node("n9", "u9"))
		cloud.set(nil, true)
		look := newLookout(cloud, time.Now, quiet())
		done := make(chan error)
		go func() {
			_, _, err := look.find(t.Context(), demo, "u1")
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		if got, after, err := look.find(t.Context(), demo, "u2"); got != nil || err != nil || after != busyAgain {
			t.Errorf("node %v, retry after %s, error %v", got, after, err)
		}
		other := types.NamespacedName{Namespace: demo.Namespace, Name: "other"}
		if got, _, err := look.find(t.Context(), other, "u9"); err != nil || nameOf(got) != "n9" {
			t.Errorf("node %q of the other cluster, error %v", nameOf(got), err)
		}
		if held := time.Since(start); held > 0 {
			t.Errorf("the others waited %s", held)
		}
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > askTimeout {
			t.Errorf("error %v after %s", err, time.Since(start))
		}
	})
}

// TestLookout_NewKubeconfig: a cluster without a kubeconfig is queried as soon as it has one.
func TestLookout_NewKubeconfig(t *testing.T) {
	cloud := newCloud(node("n1", "u1"))
	cloud.set(fmt.Errorf("demo: %w", proxy.ErrNotAvailable), false)
	look := newLookout(cloud, time.Now, quiet())
	for range 3 {
		if got, after, err := look.find(t.Context(), demo, "u1"); got != nil || after != 0 ||
			!errors.Is(err, proxy.ErrNotAvailable) {
			t.Fatalf("node %v, retry after %s, error %v", got, after, err)
		}
	}
	cloud.set(nil, false)
	if got, _, err := look.find(t.Context(), demo, "u1"); err != nil || nameOf(got) != "n1" {
		t.Errorf("node %q, error %v", nameOf(got), err)
	}
}

func TestLookout_ForgetsClustersWithoutWaitingMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look := newLookout(newCloud(), time.Now, quiet())
		other := types.NamespacedName{Namespace: demo.Namespace, Name: "other"}
		for _, cluster := range []types.NamespacedName{demo, other} {
			_, _, err := look.find(t.Context(), cluster, "u1")
			must(t, err)
		}
		look.forget(demo, "u1")
		if len(look.clusters) != 1 || look.clusters[other] == nil {
			t.Errorf("%d clusters are stored after the only machine of one has its node", len(look.clusters))
		}
		time.Sleep(2 * stillLooking)
		look.forget(demo, "u1")
		if len(look.clusters) != 0 {
			t.Errorf("%d clusters are stored after a while", len(look.clusters))
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
