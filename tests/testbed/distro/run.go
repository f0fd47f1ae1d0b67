package distro

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// stopTimeout is the time that a component has to end before it is killed.
const stopTimeout = 15 * time.Second

// Options come from the command line and the installation.
type Options struct {
	// Runtime is the distribution to stand in for.
	Runtime Runtime
	// Version is the Kubernetes version that the node reports. It is the installer image's version.
	Version string
	// Kube is the path of drover-kube.
	Kube string
	// Log receives the stand-in's own messages. Components log to files in the data directory.
	Log io.Writer
	// Ready is called once the node serves.
	Ready func()
	// Flags are the flags of the server command.
	Flags ServerFlags
}

// run holds the shared state of one run.
type run struct {
	Options
	layout Layout
	node   Node
	config Config
	// encryption is nil where Secrets are not encrypted.
	encryption *secretsEncryption
	// leave removes the member of a node from etcd.
	leave func(ctx context.Context, node, member string) error
}

func newRun(options Options) (*run, error) {
	config, err := LoadConfig("/etc/rancher/" + string(options.Runtime))
	if err != nil {
		return nil, err
	}
	node, err := NewNode(config)
	if err != nil {
		return nil, err
	}
	layout := NewLayout(options.Runtime, config.DataDir)
	r := &run{
		Options: options, layout: layout, node: node, config: config, leave: localMembers(layout).remove,
	}
	return r, r.linkTools()
}

// nodeAgent is the path at which the install script puts the node agent.
const nodeAgent = "/usr/local/bin/rancher-system-agent"

// linkTools links kubectl to the path that plans use. It links drover under its own name, which selects a different
// program than the node agent's name.
func (r *run) linkTools() error {
	for name, program := range map[string]string{"kubectl": r.Kube, "drover": nodeAgent} {
		link := r.layout.bin(name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return fmt.Errorf("make bin folder: %w", err)
		}
		if err := os.Symlink(program, link+".new"); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("link %s: %w", name, err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	return nil
}

// RunAgent runs a worker until ctx or one of its components ends. It reaches the API through its own local port, which
// leads to any server that answers. The worker therefore survives the loss of the server that it joined.
func RunAgent(ctx context.Context, options Options) error {
	r, err := newRun(options)
	if err != nil {
		return err
	}
	j := joiner{r.layout, r.node, r.config, r.Log}
	known, err := readList(r.layout.apiServers())
	if err != nil {
		return err
	}
	servers, err := j.asWorker(ctx, known)
	if err != nil {
		return err
	}
	if err := keepList(r.layout.apiServers(), servers); err != nil {
		return err
	}
	api := &balancer{}
	api.set(append(servers, j.joined()...))
	listener, err := listenOwn(ctx, r.layout.serverAPIPort())
	if err != nil {
		return err
	}
	return together(ctx, []task{
		func(ctx context.Context) error { return api.serve(ctx, listener) },
		func(ctx context.Context) error { return j.followServers(ctx, api) },
		r.kubelet(fmt.Sprintf("https://127.0.0.1:%d", r.layout.serverAPIPort())), r.serveCalico, r.reportWorker,
	})
}

// task runs as long as the node does.
type task func(ctx context.Context) error

// together runs all tasks. The first error ends the others: systemd restarts the node, which is better than a node with
// half its components.
func together(ctx context.Context, tasks []task) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, t := range tasks {
		wg.Go(func() {
			if err := t(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// upon runs tasks that need a base task until they end. For example, an API server does not stop when its etcd is gone.
// The base may be nil.
func upon(ctx context.Context, base task, tasks []task) error {
	if base == nil {
		return together(ctx, tasks)
	}
	above, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	under, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := base(under); err != nil {
			cancel(err)
		}
	}()
	err := together(above, tasks)
	end()
	<-ended
	return err
}

// program runs one component with its output in a log file.
func (r *run) program(c component) task {
	return func(ctx context.Context) error {
		path := r.layout.log(c.program)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("make log folder: %w", err)
		}
		log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("open log of %s: %w", c.program, err)
		}
		defer log.Close()
		cmd := exec.CommandContext(ctx, r.Kube, append([]string{c.program}, c.args...)...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = stopTimeout
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		// This program reports the readiness of the unit.
		cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool {
			return strings.HasPrefix(pair, "NOTIFY_SOCKET=")
		})
		if err := cmd.Run(); ctx.Err() == nil {
			return fmt.Errorf("%s ended: %w (see %s)", c.program, errors.Join(err), path)
		}
		return nil
	}
}

// supervise serves the supervisor port. For K3s it also forwards connections to the API server.
func (r *run) supervise(ctx context.Context, snapshots *snapshotter) error {
	var listenConfig net.ListenConfig
	listener, err := listenConfig.Listen(ctx, "tcp", fmt.Sprintf(":%d", r.Runtime.SupervisorPort()))
	if err != nil {
		return fmt.Errorf("listen for joining nodes: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(r.layout.tls("dynamic-cert.crt"), r.layout.tls("dynamic-cert.key"))
	if err != nil {
		return fmt.Errorf("read serving certificate: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}}
	server := &http.Server{Handler: supervisor{r.layout, r.config, localMembers(r.layout), r.encryption}.handler(),
		TLSConfig: config, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	server.Handler = snapshots.before(server.Handler)
	incoming := listener
	if r.Runtime == K3s && !r.config.DisableAPIServer {
		shared := newQueue(listener.Addr())
		incoming = shared
		go func() { _ = demux(ctx, listener, shared, fmt.Sprintf("127.0.0.1:%d", innerAPIPort)) }()
	}
	if err := server.Serve(tls.NewListener(incoming, config)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve joining nodes: %w", err)
	}
	return nil
}

// serveCalico answers the health check of RKE2's network plugin.
func (r *run) serveCalico(ctx context.Context) error {
	if r.Runtime != RKE2 {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /liveness", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", calicoHealth), Handler: mux,
		ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve network plugin's health: %w", err)
	}
	return nil
}

// onceServed delays a task until the API server is ready, because some components exit if they find none.
func onceServed(client kubernetes.Interface, t task) task {
	return func(ctx context.Context) error {
		if !poll(ctx, func() bool {
			return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
		}) {
			return nil // the node is stopping
		}
		return t(ctx)
	}
}

// uninitialized is the taint that a node has until the cloud controller has initialized it.
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// onceUntainted delays a task until a node is initialized. The real distributions start the scheduler then, so that it
// finds a node for its first pods.
func onceUntainted(client kubernetes.Interface, t task) task {
	isTaint := func(taint corev1.Taint) bool { return taint.Key == uninitialized }
	return func(ctx context.Context) error {
		if !poll(ctx, func() bool {
			nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return err == nil && slices.ContainsFunc(nodes.Items, func(node corev1.Node) bool {
				return !slices.ContainsFunc(node.Spec.Taints, isTaint)
			})
		}) {
			return nil // the node is stopping
		}
		return t(ctx)
	}
}

// reportWorker reports readiness when the kubelet answers.
func (r *run) reportWorker(ctx context.Context) error {
	if poll(ctx, func() bool { return answers(ctx, fmt.Sprintf("http://127.0.0.1:%d/healthz", kubeletHealth)) }) {
		r.Ready()
	}
	return nil
}

func (r *run) adminClient() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", r.layout.cred("admin.kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("read admin kubeconfig: %w", err)
	}
	return kubernetes.NewForConfig(rest.AddUserAgent(config, string(r.Runtime)))
}

func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// poll calls done until it returns true. It returns false if ctx ends first.
func poll(ctx context.Context, done func() bool) bool {
	condition := func(context.Context) (bool, error) { return done(), nil }
	return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, condition) == nil
}
