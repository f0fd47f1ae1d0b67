package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/releases"
)

// Prefix is the path below which New's handler answers.
const Prefix = "/ui/"

const (
	apiPrefix = Prefix + "api/"
	v1Prefix  = apiPrefix + "v1/"
)

// Options configure the UI.
type Options struct {
	// Config reaches the management cluster. Required. In server mode the UI uses only its address and authority, and
	// adds the token of the caller. In local mode the UI uses all of it.
	Config *rest.Config
	// LocalToken selects local mode: a request with this token acts as the user of Config. Empty selects server mode.
	LocalToken string
	// Kubeconfig and Context name what Config was read from, in local mode. Kubeconfigs for clusters repeat them.
	Kubeconfig, Context string
	// Key returns the key that seals sessions, of KeySize bytes. Required in server mode; local mode makes its own.
	Key func(context.Context) ([]byte, error)
	// Version is the version of the program.
	Version string
	// Releases describes Kubernetes versions, like the server's table.
	Releases releases.Table
	// Ending is closed when the process begins to shut down. Streams end then, and browsers reconnect elsewhere.
	Ending <-chan struct{}
	// Log receives messages; the standard logger when it is nil.
	Log logrus.FieldLogger
}

// ui is the handler.
type ui struct {
	opts     Options
	sessions *sessions
	callers  *callers
	limits   *limits
	attempts *attempts
	hubs     *hubs
	files    *files
	kinds    *clients.Typed
	api      http.Handler
	document []byte
}

// New returns the handler for all paths below Prefix. It makes no API call.
func New(opts Options) (http.Handler, error) {
	if opts.Config == nil {
		return nil, errors.New("configure the UI: Config is required")
	}
	if opts.Log == nil {
		opts.Log = logrus.StandardLogger()
	}
	if opts.LocalToken == "" && opts.Key == nil {
		return nil, errors.New("configure the UI: Key is required in server mode")
	}
	if opts.LocalToken != "" {
		key := randomKey()
		opts.Key = func(context.Context) ([]byte, error) { return key, nil }
	}
	u := &ui{opts: opts, limits: newLimits(time.Now), attempts: newAttempts()}
	u.sessions = newSessions(opts)
	var err error
	if u.kinds, err = clients.NewTyped(); err != nil {
		return nil, fmt.Errorf("configure the UI: %w", err)
	}
	if u.callers, err = newCallers(opts); err != nil {
		return nil, fmt.Errorf("configure the UI: %w", err)
	}
	u.hubs = newHubs(opts, u.kinds, func(ctx context.Context, c *caller) error {
		_, err := u.callers.review(ctx, c.config)
		return err
	})
	if u.files, err = newFiles(); err != nil {
		return nil, fmt.Errorf("configure the UI: %w", err)
	}
	if u.document, err = openAPI(opts.Version); err != nil {
		return nil, fmt.Errorf("configure the UI: %w", err)
	}
	u.api = u.route()
	return u, nil
}

func (u *ui) isLocal() bool { return u.opts.LocalToken != "" }

// ServeHTTP implements http.Handler.
func (u *ui) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u.isLocal() && !isLoopbackHost(r.Host) {
		// A page of another site can give its own name the address 127.0.0.1.
		writeFailure(w, failure{http.StatusMisdirectedRequest, reasonInvalid,
			"the Host header must be localhost or a loopback address", 0})
		return
	}
	if isAPI(r.URL.Path) {
		confine(w.Header())
		u.api.ServeHTTP(w, r)
		return
	}
	u.files.ServeHTTP(w, r)
}
