package processkubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
	vkklog "github.com/virtual-kubelet/virtual-kubelet/log/klogv2"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// podWorkers is the number of pods that the pod controller handles in parallel. None of its calls takes long.
const podWorkers = 4

// kubelet is the node: the provider of the pod controller and the source of objects and tokens.
type kubelet struct {
	config Config
	client kubernetes.Interface
	node   nodeFacts
	// life is the context of the workers. It ends after the kubelet's own context, when the pods are to be left
	// running.
	life context.Context // outlives the call that started the worker

	mu      sync.Mutex
	workers map[types.UID]*worker
	notify  func(*corev1.Pod)
	// networks are the networks in use by pods.
	networks networks
	ready    atomic.Bool
	// unpacking serializes unpacking, because two pods may want the same image.
	unpacking sync.Mutex
}

// Main is the program process-kubelet.
func Main(args []string) int {
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	path := flags.String("config", "", "path of the configuration file")
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	vklog.L = vkklog.New(nil)
	config, err := LoadConfig(*path)
	if err == nil {
		err = Run(ctx, config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "process-kubelet:", err)
		return 1
	}
	return 0
}

// Run runs the node until ctx ends.
func Run(ctx context.Context, config Config) error {
	if os.Geteuid() != 0 {
		return errors.New("must run as root: each pod gets its own mounts and user")
	}
	lock, err := takeLock(config.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	life, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	k, err := newKubelet(life, config)
	if err != nil {
		return err
	}
	controllers, err := k.controllers()
	if err != nil {
		return err
	}
	stopServing, err := k.serve(ctx)
	if err != nil {
		return err
	}
	defer stopServing()
	err = k.runControllers(ctx, controllers)
	if config.EndPodsOnExit {
		k.endAll()
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func newKubelet(life context.Context, config Config) (*kubelet, error) {
	if err := os.MkdirAll(filepath.Join(config.Dir, "pods"), 0o700); err != nil {
		return nil, fmt.Errorf("make directory of pods: %w", err)
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	restConfig.UserAgent = "process-kubelet"
	restConfig.QPS, restConfig.Burst = 50, 100
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	api, err := url.Parse(restConfig.Host)
	if err != nil {
		return nil, fmt.Errorf("read address of API server: %w", err)
	}
	port := api.Port()
	if port == "" {
		port = "443"
	}
	return &kubelet{
		config: config, client: client, life: life, workers: map[types.UID]*worker{}, networks: networks{},
		node: nodeFacts{Name: config.NodeName, Address: config.Address, APIHost: api.Hostname(), APIPort: port},
	}, nil
}

// controllers are virtual-kubelet's controllers and their informers.
type controllers struct {
	node      *node.NodeController
	pods      *node.PodController
	informers informers.SharedInformerFactory
	events    record.EventBroadcaster
}

// controllers builds the controllers from low-level parts. The convenient constructor would watch every Secret of the
// cluster, which a node has no right and no need to do.
func (k *kubelet) controllers() (controllers, error) {
	var c controllers
	var err error
	c.node, err = node.NewNodeController(node.NewNaiveNodeProvider(), k.nodeObject(), k.client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(nodeutil.NodeLeaseV1Client(k.client), node.DefaultLeaseDuration))
	if err != nil {
		return c, fmt.Errorf("make node controller: %w", err)
	}
	c.informers = informers.NewSharedInformerFactoryWithOptions(k.client, 0,
		nodeutil.PodInformerFilter(k.config.NodeName))
	unused := informers.NewSharedInformerFactory(k.client, 0).Core().V1() // never started
	c.events = record.NewBroadcaster()
	c.pods, err = node.NewPodController(node.PodControllerConfig{
		PodClient: k.client.CoreV1(),
		EventRecorder: c.events.NewRecorder(scheme.Scheme,
			corev1.EventSource{Component: "process-kubelet", Host: k.config.NodeName}),
		Provider:                  k,
		PodInformer:               c.informers.Core().V1().Pods(),
		SecretInformer:            unused.Secrets(),
		ConfigMapInformer:         unused.ConfigMaps(),
		ServiceInformer:           unused.Services(),
		SkipDownwardAPIResolution: true,
	})
	if err != nil {
		return c, fmt.Errorf("make pod controller: %w", err)
	}
	return c, nil
}

// runControllers registers the node and runs until ctx ends or a controller fails.
func (k *kubelet) runControllers(ctx context.Context, c controllers) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.client.CoreV1().Events("")})
	defer c.events.Shutdown()
	c.informers.Start(ctx.Done())

	go func() { _ = c.pods.Run(ctx, podWorkers) }() // Err returns its error below
	select {
	case <-c.pods.Ready():
	case <-c.pods.Done():
		return fmt.Errorf("run pods: %w", c.pods.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
	go func() { _ = c.node.Run(ctx) }() // Err returns its error below
	select {
	case <-c.node.Ready():
		k.ready.Store(true)
		klog.InfoS("Node is ready", "node", k.config.NodeName)
	case <-c.node.Done():
		return fmt.Errorf("register node: %w", c.node.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
	var err error
	select {
	case <-c.node.Done():
		err = c.node.Err()
	case <-c.pods.Done():
		err = c.pods.Err()
	case <-ctx.Done():
	}
	k.ready.Store(false)
	cancel()
	<-c.pods.Done()
	return err
}

// sources reads objects directly from the API server. A node may read only the objects that its pods refer to.
func (k *kubelet) sources(ctx context.Context) sources { return apiSources{ctx: ctx, client: k.client} }

type apiSources struct {
	ctx    context.Context // lives for one pass over one pod
	client kubernetes.Interface
}

func (s apiSources) Secret(namespace, name string) (*corev1.Secret, error) {
	return s.client.CoreV1().Secrets(namespace).Get(s.ctx, name, metav1.GetOptions{})
}

func (s apiSources) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	return s.client.CoreV1().ConfigMaps(namespace).Get(s.ctx, name, metav1.GetOptions{})
}

// Token requests a token of the pod's service account. The token is valid only while the pod exists.
func (k *kubelet) Token(ctx context.Context, pod *corev1.Pod, projection *corev1.ServiceAccountTokenProjection) ([]byte,
	error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: projection.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
			UID: pod.UID},
	}}
	if projection.Audience != "" {
		request.Spec.Audiences = []string{projection.Audience}
	}
	answer, err := k.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName,
		request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request token of service account %s: %w", pod.Spec.ServiceAccountName, err)
	}
	return []byte(answer.Status.Token), nil
}

// fromLayout reads the image of a table entry with a layout.
func (k *kubelet) fromLayout(entry Image) (Image, error) {
	k.unpacking.Lock()
	defer k.unpacking.Unlock()
	return fromLayout(entry, filepath.Join(k.config.Dir, "images"))
}

// serve serves logs, exec and port forwarding to the API server, and health checks to this machine.
func (k *kubelet) serve(ctx context.Context) (func(), error) {
	authority, err := os.ReadFile(k.config.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("read authority of clients: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	certificate, err := tls.LoadX509KeyPair(k.config.TLSCertFile, k.config.TLSKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read serving certificate: %w", err)
	}
	listen := new(net.ListenConfig)
	secure, err := listen.Listen(ctx, "tcp", net.JoinHostPort(k.config.Address, strconv.Itoa(k.config.Port)))
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	server := &http.Server{
		Handler: k.onlyAllowed(k.podHandler()), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: pool, Certificates: []tls.Certificate{certificate}},
	}
	go func() { _ = server.ServeTLS(secure, "", "") }() // ends with Close
	if k.config.HealthAddress == "" {
		return func() { _ = server.Close() }, nil
	}
	plain, err := listen.Listen(ctx, "tcp", k.config.HealthAddress)
	if err != nil {
		_ = server.Close()
		return nil, fmt.Errorf("serve health: %w", err)
	}
	health := &http.Server{Handler: k.healthHandler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = health.Serve(plain) }() // ends with Close
	return func() { _, _ = server.Close(), health.Close() }, nil
}

func takeLock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("another process kubelet uses %s", dir)
	}
	return lock, nil
}
