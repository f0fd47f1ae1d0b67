package cmd

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
)

// pingInterval is the interval between requests to a server that does not answer.
const pingInterval = time.Second

// pingOptions are the flags of "drover ping".
type pingOptions struct {
	caCerts, connectTo string
	timeout            time.Duration
}

func newPingCommand() *cobra.Command {
	o := &pingOptions{}
	cmd := &cobra.Command{
		Use:   "ping URL",
		Short: "Check whether machines can use a Drover server",
		Long: `Check whether machines can use the server at an https address. The command sends the first requests
of a machine, and is as strict as a machine. The certificate must be valid for that address, and a
trusted authority must sign it.

The command repeats the requests until the server is ready, or until the timeout. If the
certificate is not trusted, the command ends at once.

Exit codes: 0 machines can use the server; 1 they cannot, or it was not ready in time.`,
		Example: `  drover ping https://drover.example.com --cacerts-file ca.crt`,
		Args:    takes("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			if err := o.ping(ctx, args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), args[0], "can be used by machines")
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.caCerts, "cacerts-file", "",
		"`file` with the authorities to trust; empty trusts those of this machine")
	f.StringVar(&o.connectTo, "connect-to", "",
		"`address` HOST:PORT to connect to instead of URL, for a server behind a load balancer; the certificate "+
			"must match URL")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "`time` after which the command gives up")
	return cmd
}

// ping returns when the server is ready for machines. At the deadline it returns the server's last answer. It returns
// at once if the certificate is not trusted.
func (o *pingOptions) ping(ctx context.Context, address string) error {
	target, err := url.Parse(address)
	if err != nil || target.Scheme != "https" || target.Host == "" || strings.Trim(target.Path, "/") != "" {
		return fmt.Errorf("%q is not an address of a server; use https://HOST or https://HOST:PORT", address)
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, pingInterval, true, func(ctx context.Context) (bool, error) {
		err := errors.Join(ask(ctx, client, target.JoinPath("/ping")), ask(ctx, client, target.JoinPath("/readyz")))
		if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
			return false, err
		}
		if err != nil && (ctx.Err() == nil || last == nil) {
			last = err
		}
		return err == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return cmp.Or(last, err)
	}
	return err
}

func (o *pingOptions) client() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.caCerts != "" {
		authorities, err := os.ReadFile(o.caCerts)
		if err != nil {
			return nil, fmt.Errorf("--cacerts-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("--cacerts-file: %s has no certificate", o.caCerts)
		}
	}
	transport := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if o.connectTo != "" {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, o.connectTo)
		}
	}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}, nil
}

func ask(ctx context.Context, client *http.Client, target *url.URL) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 512))
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", target, err)
	}
	return fmt.Errorf("%s answered %s: %s", target, response.Status, strings.TrimSpace(string(body)))
}
