package fakeagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// cluster is the API that the machines of one cluster serve. Like etcd's data, the handler outlives single servers.
type cluster struct {
	api      http.Handler
	identity Identity
	client   kubernetes.Interface
	// serving counts the machines that serve the API. The World's mutex guards it.
	serving int
	// stopAgent stops the agent inside the cluster. It is nil while no agent runs. The World's mutex guards it.
	stopAgent func()
	// apart is true when the agent inside the cluster may not run. The World's mutex guards it.
	apart bool
	// lost is true while etcd has no quorum: the API answers, but only with errors.
	lost atomic.Bool
}

// ServeHTTP answers as the API of the cluster.
func (c *cluster) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if c.lost.Load() {
		http.Error(rw, "etcdserver: request timed out", http.StatusInternalServerError)
		return
	}
	c.api.ServeHTTP(rw, r)
}

// Unwrap returns the handler that Options.API made. It does not lose its quorum.
func (c *cluster) Unwrap() http.Handler { return c.api }

// Disconnect stops the agent inside a cluster for good, as a firewall in front of the server does. It returns
// false, and does nothing, while no agent runs.
func (w *World) Disconnect(namespace, name string) bool {
	w.mutex.Lock()
	var stop func()
	if c := w.clusters[types.NamespacedName{Namespace: namespace, Name: name}]; c != nil && c.stopAgent != nil {
		c.apart = true
		stop, c.stopAgent = c.stopAgent, nil
	}
	w.mutex.Unlock()
	if stop == nil {
		return false
	}
	stop()
	return true
}

// LoseQuorum makes etcd of a cluster lose its quorum: the API answers with errors and no server is healthy. It returns
// false, and does nothing, while no machine serves the API.
func (w *World) LoseQuorum(namespace, name string) bool {
	w.mutex.Lock()
	var members []types.NamespacedName
	c := w.clusters[types.NamespacedName{Namespace: namespace, Name: name}]
	if c == nil || c.serving == 0 {
		w.mutex.Unlock()
		return false
	}
	c.lost.Store(true)
	for key := range w.machines {
		if key.Namespace == namespace {
			members = append(members, key)
		}
	}
	w.mutex.Unlock()
	for _, member := range members {
		if secret, found := w.planSecretOf(member); found {
			w.plans.Add(secret)
		}
	}
	return true
}

// clusterFor returns the cluster with that name and creates it at first use.
func (w *World) clusterFor(key types.NamespacedName) (*cluster, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if c := w.clusters[key]; c != nil {
		return c, nil
	}
	identity, err := newIdentity(key.Name)
	if err != nil {
		return nil, err
	}
	api := w.opts.API()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://" + key.Name, Transport: inProcess{api}, QPS: -1,
		UserAgent: Agent})
	if err != nil {
		return nil, fmt.Errorf("make client of cluster %s: %w", key, err)
	}
	c := &cluster{api: api, identity: identity, client: client}
	w.clusters[key] = c
	return c, nil
}

// Downstream returns a client of a cluster's API, which works even while no machine serves the API. It returns nil
// until a machine of the cluster has a plan.
func (w *World) Downstream(namespace, name string) kubernetes.Interface {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if c := w.clusters[types.NamespacedName{Namespace: namespace, Name: name}]; c != nil {
		return c.client
	}
	return nil
}

// serve starts the API on a machine once.
func (w *World) serve(m *machine, c *cluster) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if m.stopAPI != nil || m.silent || w.machines[m.owner] != m {
		return nil
	}
	stop, err := w.opts.Serve(m.address, c, c.identity)
	if err != nil {
		return fmt.Errorf("serve the API on %s: %w", m.address, err)
	}
	c.serving++
	m.stopAPI = func() {
		stop()
		if stopAgent := w.served(c); stopAgent != nil {
			stopAgent()
		}
	}
	w.opts.Log("fakeagent: %s serves its cluster's API at %s", m.owner.Name, m.address)
	return nil
}

// served records that a machine stopped serving the API. It returns the function that stops the agent inside the
// cluster if this was the last server.
func (w *World) served(c *cluster) (stopAgent func()) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	c.serving--
	if c.serving == 0 {
		stopAgent, c.stopAgent = c.stopAgent, nil
	}
	return stopAgent
}

func (w *World) isServing(c *cluster) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return c.serving > 0
}

func (w *World) stopClusters() {
	w.mutex.Lock()
	var stops []func()
	for _, m := range w.machines {
		if m.stopAPI != nil {
			stops = append(stops, m.stopAPI)
			m.stopAPI = nil
		}
	}
	w.mutex.Unlock()
	for _, stop := range stops {
		stop()
	}
}

func serveTLS(address string, api http.Handler, identity Identity) (func(), error) {
	config, err := identity.ServerTLS(address)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, port)) //nolint:noctx // ended by the function that is returned
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: api, TLSConfig: config, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(listener, "", "") // always ends with ErrServerClosed
	}()
	return func() {
		_ = server.Close() // cuts watches, as a host that disappears does
		<-done
	}, nil
}

// register creates or updates the machine's Node in its cluster.
func (c *cluster) register(ctx context.Context, node *corev1.Node) error {
	nodes := c.client.CoreV1().Nodes()
	made, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if made, err = nodes.Get(ctx, node.Name, metav1.GetOptions{}); err == nil {
			made.Labels, made.Spec.ProviderID, made.Spec.Taints = node.Labels, node.Spec.ProviderID, node.Spec.Taints
			made, err = nodes.Update(ctx, made, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	made.Status = node.Status
	if _, err := nodes.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("report node status: %w", err)
	}
	return nil
}

// upgrade lets the machine's Node report another version. The rest of the Node stays.
func (c *cluster) upgrade(ctx context.Context, node *corev1.Node) error {
	nodes := c.client.CoreV1().Nodes()
	made, err := nodes.Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node: %w", err)
	}
	made.Status.NodeInfo = node.Status.NodeInfo
	if _, err := nodes.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("report node version: %w", err)
	}
	return nil
}

// inProcess passes requests to a handler without a connection. It cannot serve watches, because it reads the whole
// answer first.
type inProcess struct{ handler http.Handler }

// RoundTrip answers a request.
func (t inProcess) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "true" {
		return nil, errors.New("fakeagent: this client cannot watch")
	}
	request = request.Clone(request.Context())
	if request.Body == nil {
		request.Body = http.NoBody
	}
	recorder := httptest.NewRecorder()
	t.handler.ServeHTTP(recorder, request)
	return recorder.Result(), nil
}
