// Command embed is a server that has Drover in it: its own flags, signals, certificate and HTTP routes, and Drover's
// controllers and endpoints for machines. README.md says how to run it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	flag "github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/pkg/server"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file that reaches the management cluster; empty inside a cluster")
	url := flag.String("server-url", "", "https address under which machines reach this program")
	listen := flag.String("listen", ":8443", "address to serve at")
	dir := flag.String("data-dir", "data", "folder with tls.crt, tls.key and ca.crt")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	exitOn(err)
	authorities, err := os.ReadFile(*dir + "/ca.crt")
	exitOn(err)

	elected := make(chan struct{})
	drover, err := server.New(server.Options{
		RESTConfig: config, InstanceID: "example", Elected: elected,
		CAPI:     server.CAPIEmbedded, // leave it out where Cluster API runs already
		Settings: server.Settings{ServerURL: *url, CACerts: string(authorities), BootstrapTokenTTL: 30 * time.Minute},
	})
	exitOn(err)
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "the host's own page") })
	for _, path := range server.Paths() {
		mux.Handle(path, drover.Handler())
	}
	web := server.Harden(&http.Server{Addr: *listen, Handler: mux})
	close(elected) // with several replicas: when this one holds the host's lease; it has to end when it loses that

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return drover.Start(ctx) })
	group.Go(func() error { return web.ListenAndServeTLS(*dir+"/tls.crt", *dir+"/tls.key") })
	context.AfterFunc(ctx, func() { _ = web.Close() })
	if err := group.Wait(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

// exitOn ends the program with an error, if there is one.
func exitOn(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
