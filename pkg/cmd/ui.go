package cmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/pkg/ui"
)

// uiOptions are the flags of drover ui.
type uiOptions struct {
	inspectOptions
	address   string
	noBrowser bool
	// browse opens a file; it defaults to openBrowser.
	browse func(ctx context.Context, file string) error
}

func newUICommand(environ []string, o *uiOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show clusters in a browser, with your permissions",
		Long: `Show clusters in a browser, with your permissions. The command serves the web UI on this computer
only, and reads and writes the management cluster with your kubeconfig. The server needs no web UI.

The command prints the URL of the UI and opens it in a browser, by way of a private temporary file.
The URL contains a random token. Who has the token has your permissions until the command ends, so
do not share the URL.

Exit codes: 0 a user ended the command; 1 an error.`,
		Example: `  # open the web UI
  drover ui

  # print the URL only, at a port that you choose
  drover ui --address 127.0.0.1:8080 --no-browser`,
		Args:    takes(),
		PreRunE: func(cmd *cobra.Command, _ []string) error { return fillFromEnvironment(cmd.Flags(), environ) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	addManagement(cmd, environ, &o.kubeconfig, &o.context, fromKubeconfig)
	f := cmd.Flags()
	f.StringVar(&o.releaseData, "release-data", "",
		"`file or URL` with facts about Kubernetes versions, as for the server")
	f.StringVar(&o.address, "address", "127.0.0.1:0", "loopback `address` to listen at; port 0 chooses a free port")
	f.BoolVar(&o.noBrowser, "no-browser", false, "print the URL and open no browser")
	return cmd
}

func (o *uiOptions) run(cmd *cobra.Command) error {
	if err := checkLoopback(o.address); err != nil {
		return err
	}
	options, err := o.forReader(cmd.Context())
	if err != nil {
		return err
	}
	file, err := absolute("--kubeconfig", o.kubeconfig)
	if err != nil {
		return err
	}
	log := logrus.New()
	log.SetOutput(cmd.ErrOrStderr())
	secret := rand.Text()
	pages, err := ui.New(ui.Options{Config: options.Config, LocalToken: secret, Kubeconfig: file, Context: o.context,
		Version: Version, Releases: options.Releases, Ending: cmd.Context().Done(), Log: log})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", o.address)
	if err != nil {
		return fmt.Errorf("listen for the browser: %w; --address sets the address", err)
	}
	url := "http://" + listener.Addr().String() + ui.Prefix + "#token=" + secret
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), url); err != nil {
		return err
	}
	if !o.noBrowser {
		file, err := o.open(cmd.Context(), url)
		if err != nil {
			cmd.PrintErrf("Cannot open a browser, so open the URL yourself: %v\n", err)
		}
		defer func() { _ = os.Remove(file) }()
	}
	pages = pagesOnly(pages)
	return serve(cmd.Context(), server.Harden(&http.Server{Handler: pages}), listener, func() {})
}

// open opens a URL in a browser. It returns a file to remove at the end, which may not exist.
func (o *uiOptions) open(ctx context.Context, url string) (file string, err error) {
	if file, err = writeRedirect(url); err != nil {
		return "", err
	}
	if o.browse != nil {
		return file, o.browse(ctx, file)
	}
	return file, openBrowser(ctx, file)
}

// pagesOnly sends a browser at another path to the UI.
func pagesOnly(pages http.Handler) http.HandlerFunc {
	mux := http.NewServeMux()
	mux.Handle(ui.Prefix, pages)
	mux.Handle("GET /{$}", http.RedirectHandler(ui.Prefix, http.StatusFound))
	return mux.ServeHTTP
}

// checkLoopback refuses addresses that other computers reach: the UI has no TLS, and all rights of the user.
func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--address: %q is not HOST:PORT", address)
	}
	if found, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !found.IsLoopback()) {
		return fmt.Errorf("--address: %q is not a loopback address; use 127.0.0.1:PORT, and an SSH tunnel to reach it "+
			"from another computer", address)
	}
	return nil
}

// writeRedirect writes a page that only the user can read, and that leads a browser to a URL. All users of the computer
// can read the arguments of a browser, so its arguments must not contain the token of the URL.
func writeRedirect(url string) (file string, err error) {
	out, err := os.CreateTemp("", "drover-ui-*.html") // with mode 0600
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(out, `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=%[1]s"><title>Drover</title><a href="%[1]s">Open Drover</a>
`, html.EscapeString(url))
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(out.Name())
		return "", err
	}
	return out.Name(), nil
}

// openBrowser opens a page in the user's browser.
func openBrowser(ctx context.Context, file string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("there is no program %s", program)
	}
	if err != nil {
		return err
	}
	opener := exec.CommandContext(ctx, path, "file://"+filepath.ToSlash(file))
	if err := opener.Start(); err != nil {
		return err
	}
	go func() { _ = opener.Wait() }() // it says nothing about the browser
	return nil
}
