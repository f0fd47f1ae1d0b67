package credentialcheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/drover-io/drover/pkg/decide/credentialjob"
	"github.com/drover-io/drover/pkg/decide/redact"
)

const (
	// attempts and pause bound the repetition of a request that had no answer. timeout bounds each request.
	attempts = 3
	pause    = 2 * time.Second
	timeout  = 20 * time.Second
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 256 << 10
)

// errNoAnswer means that the cloud says nothing about the credential now, and may do so later.
type errNoAnswer struct{ error }

// Check asks the cloud.
func Check(ctx context.Context, q credentialjob.Question) credentialjob.Result {
	ask, err := checkOf(q)
	if err != nil {
		return credentialjob.Unchecked(err.Error())
	}
	for left := attempts - 1; ; left-- {
		result, err := ask(ctx)
		if err == nil {
			return result
		}
		if again := (errNoAnswer{}); left == 0 || !errors.As(err, &again) {
			return credentialjob.Unchecked(err.Error())
		}
		select {
		case <-ctx.Done():
			return credentialjob.Unchecked(err.Error())
		case <-time.After(pause):
		}
	}
}

func checkOf(q credentialjob.Question) (func(context.Context) (credentialjob.Result, error), error) {
	switch q.Driver {
	case credentialjob.Amazon:
		client, err := newClient(q.Authorities, false)
		return (&amazon{client: client, fields: q.Fields, now: time.Now}).check, err
	case credentialjob.VSphere:
		client, err := newClient("", true) // the driver does not verify certificates either
		return (&vsphere{client: client, fields: q.Fields}).check, err
	}
	return nil, fmt.Errorf("there is no check for driver %q", q.Driver)
}

func newClient(authorities string, insecure bool) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure} //nolint:gosec // see checkOf
	if authorities != "" {
		roots, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's authorities: %w", err)
		}
		if !roots.AppendCertsFromPEM([]byte(authorities)) {
			return nil, errors.New("the authorities of the server must be certificates in PEM")
		}
		config.RootCAs = roots
	}
	return &http.Client{
		Timeout:   timeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config},
		// A signature and a password are for one address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// answer is what a cloud answers.
type answer struct {
	code    int
	status  string
	cookies []*http.Cookie
	body    []byte
}

// send sends a request and returns the answer.
func send(client *http.Client, request *http.Request) (answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return answer{}, errNoAnswer{fmt.Errorf("%s does not answer: %w", redact.URL(request.URL),
			redact.WithoutURL(err))}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer{}, errNoAnswer{fmt.Errorf("%s does not answer: %w", redact.URL(request.URL),
			redact.WithoutURL(err))}
	}
	return answer{response.StatusCode, response.Status, response.Cookies(), body}, nil
}
