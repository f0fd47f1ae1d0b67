// Package hostile shows that a hostile node does not affect others. It attacks the program with the memory limit of the
// chart.
package hostile

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/attack"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

const (
	// memoryLimit is the memory limit of the chart, in bytes. goMemoryLimit is what the program derives from it.
	memoryLimit   = 2 << 30
	goMemoryLimit = "1843MiB"
	// growth is the limit for the growth of etcd during the attacks, in bytes. Most of it is the honest cluster's.
	growth = 96 << 20
	// invented is the number of hosts that the attacker registers.
	invented = 400
)

// world is a server with a hostile node and a honest tenant.
type world struct {
	*testing.T
	st     *stage.Stage
	server *replica.Replica
	target *attack.Server
	core   kubernetes.Interface
	evil   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("GOMEMLIMIT", goMemoryLimit) // the program inherits it
	w := &world{T: t, server: replica.New(t, "attacked", stage.AccountKubeconfig(t))}
	w.target = attack.NewServer(w.server.Address)
	t.Cleanup(w.target.Close)
	w.st = stage.Start(t, stage.Settings{
		Machines: func(o *fakeagent.Options) { o.Dial = replica.Dial(w.server) },
		Drover:   func(*testing.T) { w.server.Start(); w.server.AwaitReady() },
	})
	core, err := kubernetes.NewForConfig(plane.Config(t, "contract-tests"))
	w.must(err)
	w.core, w.evil = core, plane.Namespace(t)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// node makes a cluster whose only machine is hostile: its agent is silent, and the attacker has its plan token.
func (w *world) node() *attack.Node {
	w.Helper()
	w.st.Cluster(w.evil, "evil", stage.K3s, stage.Pool("server", "ecw", 1))
	plane.Until(w.T, 5*time.Minute, func() string { return w.st.WaitingFor(w.evil, "evil") })
	for machine := range w.st.World.Machines(w.evil) {
		w.st.World.Silence(w.evil, machine)
	}
	secret, token := w.st.PlanToken(w.evil)
	return &attack.Node{Server: w.target, Namespace: w.evil, Secret: secret, Token: token}
}

// registration makes a cluster of registered hosts. It returns the token for hosts, and the namespace of their
// requests.
func (w *world) registration() (token, namespace string) {
	w.Helper()
	w.must(w.st.Client.Create(w.Context(), &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.evil, Name: "edge"},
		Spec:       provv1.ClusterSpec{KubernetesVersion: stage.K3s, RKEConfig: &provv1.RKEConfig{}},
	}))
	plane.Until(w.T, time.Minute, func() string {
		cluster := &provv1.Cluster{}
		if err := w.st.Client.Get(w.Context(), client.ObjectKey{Namespace: w.evil, Name: "edge"}, cluster); err != nil {
			return err.Error()
		}
		var secrets corev1.SecretList
		namespace = cluster.Status.ClusterName
		if err := w.st.Client.List(w.Context(), &secrets, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
		for i := range secrets.Items {
			secret := &secrets.Items[i]
			if name, ok := registration.IsSecretName(secret.Name); ok && name == "default-token" {
				token = string(secret.Data[registration.KeyToken])
			}
		}
		if namespace == "" || token == "" {
			return "the cluster of registered hosts has no token"
		}
		return ""
	})
	return token, namespace
}

// storage is the size of etcd's database in bytes.
func (w *world) storage() float64 {
	w.Helper()
	text, err := w.core.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(w.Context())
	w.must(err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	w.must(err)
	family := families["apiserver_storage_size_bytes"]
	if family == nil {
		w.Fatal("the API server has no metric apiserver_storage_size_bytes")
	}
	return family.GetMetric()[0].GetGauge().GetValue()
}

// mostMemory is the largest resident memory that the server had, in bytes.
func (w *world) mostMemory() int64 {
	w.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.server.PID()))
	w.must(err)
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			number, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			w.must(err)
			return number << 10
		}
	}
	w.Fatal("/proc has no VmHWM")
	return 0
}

// requests counts the requests of registering hosts.
func (w *world) requests(namespace string) int {
	w.Helper()
	secrets, err := w.core.CoreV1().Secrets(namespace).List(w.Context(), metav1.ListOptions{
		FieldSelector: "type=" + string(rkev1.SecretTypeMachineRequest)})
	w.must(err)
	return len(secrets.Items)
}

// TestHostileNode: a node floods its plan Secret, sends reports that grow when they are decoded, invents hosts and
// holds connections whose answers it never reads. The server stays alive within its memory limit, etcd's growth is
// bounded, and another tenant's cluster becomes ready.
func TestHostileNode(t *testing.T) {
	w := newWorld(t)
	node := w.node()
	token, requests := w.registration()
	before, pid := w.storage(), w.server.PID()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var attacks sync.WaitGroup
	var floods, hosts attack.Codes
	attacks.Go(func() { node.Flood(ctx, 10, 400<<10, &floods) })
	opened, release := w.target.Hold(ctx, 500, node.UnreadWatch())
	defer release()
	idle, releaseIdle := w.target.Hold(ctx, 500, "GET /ping HTTP/1.1\r\n")
	defer releaseIdle()
	var nodes []*attack.Node
	invention := make(chan struct{})
	attacks.Go(func() {
		defer close(invention)
		nodes = w.target.Invent(ctx, token, invented, &hosts)
	})

	clusters := w.st.Apply(plane.Namespace(t), 3, map[string]string{"honest": stage.RKE2})
	clusters.AwaitReady()
	waiting := w.requests(requests)
	<-invention
	w.bomb(append(nodes, node))
	again := w.st.Apply(plane.Namespace(t), 2, map[string]string{"later": stage.K3s})
	again.AwaitReady()
	stop()
	attacks.Wait()

	grown := w.storage() - before
	t.Logf("flood: %s; %d watches and %d idle connections were opened; %d hosts: %s; %d requests wait", &floods, opened,
		idle, invented, &hosts, waiting)
	t.Logf("etcd grew by %.1f MiB; the server had at most %d MiB", grown/(1<<20), w.mostMemory()>>20)
	if !w.server.Runs() || w.server.PID() != pid {
		t.Error("the server has ended")
	}
	if most := w.mostMemory(); most > memoryLimit {
		t.Errorf("the server had %d MiB, and the chart's limit is %d MiB", most>>20, memoryLimit>>20)
	}
	if grown > growth {
		t.Errorf("etcd grew by %.1f MiB, want at most %d", grown/(1<<20), growth>>20)
	}
	if floods.Of(http.StatusTooManyRequests) == 0 || hosts.Of(http.StatusTooManyRequests) == 0 {
		t.Errorf("no 429 limits the flood or the invented hosts")
	}
	// A host waits for its Machine only for a while, so few requests exist at a time.
	if waiting > 100 {
		t.Errorf("%d requests of invented hosts wait at the same time", waiting)
	}
}

// bomb sends reports that are small and decode to 48 MiB: through the server, which refuses them, and past it.
func (w *world) bomb(nodes []*attack.Node) {
	w.Helper()
	bomb := attack.Bomb()
	refused := 0
	for _, node := range nodes {
		code, err := node.Report(w.Context(), bomb)
		w.must(err)
		if code != http.StatusRequestEntityTooLarge && code != http.StatusTooManyRequests {
			w.Errorf("the server answers %d to a report that decodes to 48 MiB", code)
		}
		refused++
		secrets := w.core.CoreV1().Secrets(node.Namespace)
		plan, err := secrets.Get(w.Context(), node.Secret, metav1.GetOptions{})
		w.must(err)
		if plan.Data == nil {
			plan.Data = map[string][]byte{}
		}
		maps.Copy(plan.Data, bomb)
		// A conflict means that Drover or the flood wrote meanwhile: the next node's bomb counts as well.
		_, _ = secrets.Update(w.Context(), plan, metav1.UpdateOptions{})
	}
	w.Logf("%d bombs were refused, and written past the server", refused)
}
