package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/drover-io/drover/tests/testbed/distro"
)

var managementResource = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: "clusters"}

const (
	// cutLasts is longer than the time after which connections, agents and clients retry only rarely.
	cutLasts = 30 * time.Second
	// noticedWithin is the limit until conditions report that an agent is gone that sent no goodbye.
	noticedWithin = 5 * time.Second
	// backWithin is the limit until everything works again after a cut. It covers an agent's longest pause without a
	// server and the retransmission of a lost handshake.
	backWithin = 10 * time.Second
	// probeDeadline is the time-out of a client for an answer that takes milliseconds.
	probeDeadline = 10 * time.Second
	// atOnce is more than an immediate answer takes on a busy machine.
	atOnce = 2 * time.Second
)

// TestTunnelCut checks what clients see of a cluster that is reachable only through its agent. The test cuts the
// network between agent and server, and kills the server. No request exceeds its time-out, conditions follow, and
// everything recovers without help.
func TestTunnelCut(t *testing.T) {
	w := newWorld(t, "tunnelcut", "v1.36.3+k3s1")
	must(t, w.Apply(t.Context(), cluster("tunnelcut", "v1.36.3+k3s1")))
	w.closed()
	w.awaitReady("tunnelcut")
	s := &severed{world: w, id: w.idOf("tunnelcut"), machine: w.Lab.List()[0].Name}
	w.awaitLink(s.id, "True", readyTimeout)
	s.config = w.downstreamConfig("tunnelcut")
	if !strings.HasSuffix(s.config.Host, "/k8s/clusters/"+s.id) {
		t.Fatalf("the kubeconfig has the server %s, not the agent", s.config.Host)
	}
	s.watch = w.watchConfigMaps(s.config)
	s.probes = w.probe(s.config)
	s.create("in-the-beginning")
	s.watch.await("in-the-beginning", atOnce)

	s.cutLink()
	s.killServer()
}

// severed is a disconnected cluster, with a client that keeps reading and watching it.
type severed struct {
	*world
	id, machine string
	config      *rest.Config
	watch       *watching
	probes      *prober
}

// cutLink disconnects the machine's network, so that packets are lost without an error.
func (s *severed) cutLink() {
	s.t.Helper()
	must(s.t, s.Lab.Partition(s.t.Context(), s.machine, true))
	cut := time.Now()
	s.awaitLink(s.id, "False", noticedWithin)
	noticed := time.Now()
	s.makeThere("made-while-cut")
	pause(s.t.Context(), time.Until(cut.Add(cutLasts)))
	s.expectLink("False")
	up := time.Now()
	must(s.t, s.Lab.Partition(s.t.Context(), s.machine, false))
	s.awaitLink(s.id, "True", backWithin)
	back := s.probes.awaitSuccess(up, backWithin)
	s.t.Logf("link cut: conditions changed after %s; after the link was up again, an answer came after %s",
		noticed.Sub(cut).Round(time.Millisecond), back.Sub(up).Round(time.Millisecond))
	s.watch.await("made-while-cut", backWithin)
	s.create("made-after-the-cut")
	s.watch.await("made-after-the-cut", atOnce)

	s.probes.expect("until the cut is detected", cut, noticed, noticedWithin+time.Second, 0,
		http.StatusServiceUnavailable)
	s.probes.expect("during the cut", noticed, up, atOnce, http.StatusServiceUnavailable)
	s.probes.expect("afterwards", back, time.Now(), atOnce, http.StatusOK)
}

// killServer kills the server, which is then restarted.
func (s *severed) killServer() {
	s.t.Helper()
	before, killed := s.ServerPID(), time.Now()
	must(s.t, syscall.Kill(before, syscall.SIGKILL))
	s.makeThere("made-while-there-was-no-server")
	s.eventually("a new server process", func() (bool, error) {
		pid := s.ServerPID()
		return pid != 0 && pid != before, nil
	})
	s.eventually("a server that answers", func() (bool, error) {
		err := s.Answers(s.t.Context())
		return err == nil, err
	})
	started := time.Now()
	back := s.probes.awaitSuccess(killed.Add(atOnce), backWithin)
	s.awaitLink(s.id, "True", backWithin)
	s.t.Logf("server killed: it answered after %s; an answer of the cluster came after %s",
		started.Sub(killed).Round(time.Millisecond), back.Sub(killed).Round(time.Millisecond))
	s.watch.await("made-while-there-was-no-server", backWithin)
	s.create("made-after-the-server")
	s.watch.await("made-after-the-server", atOnce)

	s.probes.expect("without a server", killed, back, probeDeadline, 0, http.StatusServiceUnavailable, http.StatusOK)
	s.probes.expect("afterwards", back, time.Now(), atOnce, http.StatusOK)
}

// create creates an object through the tunnel.
func (s *severed) create(name string) {
	s.t.Helper()
	client, err := kubernetes.NewForConfig(s.config)
	must(s.t, err)
	_, err = client.CoreV1().ConfigMaps("default").Create(s.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(s.t, err)
}

// makeThere creates an object directly on the cluster's own server.
func (s *severed) makeThere(name string) {
	s.t.Helper()
	s.command(s.machine, kubectlOf(distro.K3s)+"-n default create configmap "+name)
}

// linkConditions are the conditions that report whether an agent is connected.
var linkConditions = []string{"Connected", "Ready"}

// idOf returns the name of the cluster's management Cluster.
func (w *world) idOf(cluster string) string {
	w.t.Helper()
	found, err := w.objects.Resource(clustersResource).Namespace(namespace).Get(w.t.Context(), cluster,
		metav1.GetOptions{})
	must(w.t, err)
	id, _, _ := unstructured.NestedString(found.Object, "status", "clusterName")
	return id
}

// identified applies a cluster and returns the name of its management Cluster.
func (w *world) identified(cluster, spec string) string {
	w.t.Helper()
	must(w.t, w.Apply(w.t.Context(), []byte("{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: "+
		cluster+", namespace: fleet-default}, spec: "+spec+"}")))
	id := ""
	w.within(time.Minute, "the cluster has its identifier", func() error {
		if id = w.idOf(cluster); id == "" {
			return errors.New("status.clusterName is empty")
		}
		return nil
	})
	return id
}

// linkIs checks that the conditions of a management Cluster have a status.
func (w *world) linkIs(id, status string) error {
	found, err := w.objects.Resource(managementResource).Get(w.t.Context(), id, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
	for _, kind := range linkConditions {
		if !slices.ContainsFunc(conditions, func(each any) bool {
			condition, ok := each.(map[string]any)
			return ok && condition["type"] == kind && condition["status"] == status
		}) {
			return fmt.Errorf("%s is not %s: %v", kind, status, conditions)
		}
	}
	return nil
}

func (s *severed) expectLink(status string) {
	s.t.Helper()
	if err := s.linkIs(s.id, status); err != nil {
		s.t.Error(err)
	}
}

func (w *world) awaitLink(id, status string, within time.Duration) {
	w.t.Helper()
	w.within(within, "conditions of the link", func() error { return w.linkIs(id, status) })
}

// within waits until a problem is gone.
func (w *world) within(length time.Duration, what string, problem func() error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), length)
	defer cancel()
	for {
		err := problem()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			w.t.Fatalf("%s, within %s: %v", what, length, err)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// watching is a watch that resumes from its last position whenever it ends, like a controller's.
type watching struct {
	*world
	mu   sync.Mutex
	seen []string
}

func (w *world) watchConfigMaps(config *rest.Config) *watching {
	w.t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(w.t, err)
	list, err := client.CoreV1().ConfigMaps("default").List(w.t.Context(), metav1.ListOptions{})
	must(w.t, err)
	watch := &watching{world: w}
	w.inBackground(func(ctx context.Context, _ *background) {
		from := cache.ToWatcherWithContext(cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps",
			"default", fields.Everything()))
		events, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, from)
		if err != nil {
			w.t.Error(err)
			return
		}
		for event := range events.ResultChan() {
			watch.saw(event.Object)
		}
		if ctx.Err() == nil {
			w.t.Error("the watch has ended for good")
		}
	})
	return watch
}

func (w *watching) saw(object any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seen, ok := object.(*corev1.ConfigMap); ok {
		w.seen = append(w.seen, seen.Name)
		return
	}
	w.t.Errorf("the watch shows %v", object)
}

func (w *watching) await(name string, length time.Duration) {
	w.t.Helper()
	w.within(length, "the watch shows "+name, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.Contains(w.seen, name) {
			return fmt.Errorf("it has shown %v", w.seen)
		}
		return nil
	})
}

// prober reads a small object continuously, without waiting for earlier answers.
type prober struct {
	*world
	mu   sync.Mutex
	done []probed
}

// probed is the result of a request. code is the status code of the answer, or 0 without an answer.
type probed struct {
	begun time.Time
	took  time.Duration
	code  int
	err   error
}

func (w *world) probe(config *rest.Config) *prober {
	w.t.Helper()
	client, err := rest.HTTPClientFor(config)
	must(w.t, err)
	p := &prober{world: w}
	w.inBackground(func(ctx context.Context, b *background) {
		for ; ctx.Err() == nil; pause(ctx, 200*time.Millisecond) {
			b.done.Go(func() {
				one := ask(ctx, client, config.Host+"/api/v1/namespaces/default")
				p.mu.Lock()
				defer p.mu.Unlock()
				p.done = append(p.done, one)
			})
		}
	})
	return p
}

func ask(ctx context.Context, client *http.Client, address string) probed {
	one := probed{begun: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, probeDeadline)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		one.err = err
		return one
	}
	answer, err := client.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		err = errors.Join(err, answer.Body.Close())
		one.code = answer.StatusCode
	}
	if err != nil {
		one.code, one.err = 0, err
	}
	one.took = time.Since(one.begun)
	return one
}

// awaitSuccess waits for the first successful request after a moment, and returns its start.
func (p *prober) awaitSuccess(after time.Time, length time.Duration) (at time.Time) {
	p.t.Helper()
	p.within(length, "an answer of the cluster", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, one := range p.done {
			if one.begun.After(after) && one.code == http.StatusOK {
				at = one.begun
				return nil
			}
		}
		if len(p.done) == 0 {
			return errors.New("no request was sent")
		}
		return fmt.Errorf("the last request: %v", p.done[len(p.done)-1])
	})
	return at
}

// expect checks all requests that started between two moments. Their duration and status codes must be within the
// limits.
func (p *prober) expect(when string, from, to time.Time, longest time.Duration, codes ...int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	found, slowest := map[int]int{}, time.Duration(0)
	for _, one := range p.done {
		if one.begun.Before(from) || !one.begun.Before(to) {
			continue
		}
		found[one.code]++
		slowest = max(slowest, one.took)
		if !slices.Contains(codes, one.code) || one.took > longest {
			p.t.Errorf("%s: a request ended after %s with %d (%v), want %s and %v", when, one.took, one.code, one.err,
				longest, codes)
		}
	}
	p.t.Logf("%s: %v answers by status code within %s, the slowest took %s", when, found,
		to.Sub(from).Round(time.Millisecond), slowest.Round(time.Millisecond))
	if len(found) == 0 {
		p.t.Errorf("%s: no request was sent", when)
	}
}
