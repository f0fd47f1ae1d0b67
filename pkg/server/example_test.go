package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	lassocontroller "github.com/rancher/lasso/pkg/controller"
	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/kube/capi"
	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// managementCluster is an API server in this process, with Cluster API installed.
func managementCluster() *rest.Config {
	definitions, err := capi.Definitions()
	if err != nil {
		panic(err)
	}
	scheme, err := server.NewScheme()
	if err != nil {
		panic(err)
	}
	return memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions}).Config("example")
}

// options returns the options that all examples share.
func options() server.Options {
	log := logrus.New()
	log.SetLevel(logrus.ErrorLevel)
	return server.Options{
		RESTConfig: managementCluster(), InstanceID: "example",
		Settings: server.Settings{ServerURL: "https://host.example.com"}, Registerer: prometheus.NewRegistry(),
		Log: log,
	}
}

// A host serves its own pages and Drover's endpoints at one address. Drover leads when the host holds its lease.
func Example() {
	elected := make(chan struct{})
	opts := options()
	opts.Elected = elected
	drover, err := server.New(opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the host's own page") })
	for _, path := range server.Paths() {
		mux.Handle(path, drover.Handler())
	}

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- drover.Start(ctx) }()

	for _, path := range []string{"/", "/ping"} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(answer.Body)
	}
	close(elected) // the host holds its lease
	await(drover.Leading)
	fmt.Println("leads")
	stop() // a signal, or a lost lease
	fmt.Println("ended:", <-ended, drover.Leading())

	// Output:
	// the host's own page
	// pong
	// leads
	// ended: <nil> false
}

// A host that continues without its lease leads for one term after another. The endpoints serve all the time.
func ExampleServer_Lead() {
	drover, err := server.New(options())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := drover.Serve(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for term := range 2 {
		lease, lose := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- drover.Lead(lease) }()
		await(drover.Leading)
		lose()
		err := <-ended // release the lease only now
		fmt.Println("term", term+1, "ended:", err, "serves:", drover.Ready() == nil)
	}

	// Output:
	// term 1 ended: <nil> serves: true
	// term 2 ended: <nil> serves: true
}

// New reports all mistakes together.
func ExampleNew_mistakes() {
	_, err := server.New(server.Options{RESTConfig: &rest.Config{}, Settings: server.Settings{
		ServerURL: "host.example.com", SystemDefaultRegistry: "https://registry.example.com",
	}})
	fmt.Println(err)

	// Output:
	// configure drover: InstanceID: is required; use the same text for all replicas and over restarts
	// Settings.SystemDefaultRegistry: "https://registry.example.com" must be a host, optionally with a port and a path, and without a scheme such as https:// or a user, for example registry.example.com:5000
	// Settings.ServerURL: "host.example.com" is not an address that machines can reach; use https://HOST or https://HOST:PORT
}

// A host with its own lasso controllers lends Drover its factory, and both use the same caches.
func ExampleNewScheme() {
	opts := options()
	scheme, err := server.NewScheme()
	if err != nil {
		fmt.Println(err)
		return
	}
	opts.ControllerFactory, err = lassocontroller.NewSharedControllerFactoryFromConfig(opts.RESTConfig, scheme)
	if err != nil {
		fmt.Println(err)
		return
	}
	opts.CRDs = server.CRDsHost
	_, err = server.New(opts)
	fmt.Println(err)

	// Output:
	// <nil>
}

// await returns once the condition is true.
func await(condition func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		<-tick.C
	}
}
