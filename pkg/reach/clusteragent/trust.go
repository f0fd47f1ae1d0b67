package clusteragent

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	// settingCA is the path where the server publishes its authorities (docs/wire/endpoints.md#authorities).
	settingCA = "/v3/settings/cacerts"
	// maxCA limits its answer, in bytes.
	maxCA = 1 << 20
	// fetchTimeout limits the time of that request.
	fetchTimeout = 10 * time.Second
)

// trust decides which certificates of the server are trusted.
type trust struct {
	server         *url.URL
	file, checksum string
	proxy          func(*http.Request) (*url.URL, error)

	// pinned are the fetched authorities. The checksum fixes them.
	pinned *x509.CertPool
}

// config returns the TLS configuration for the server. It rereads the file each time.
func (t *trust) config(ctx context.Context) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	switch {
	case t.file != "":
		content, err := os.ReadFile(t.file)
		if err != nil {
			return nil, fmt.Errorf("authorities of the server: %w", err)
		}
		if t.checksum != "" {
			if err := verify(content, t.checksum); err != nil {
				return nil, fmt.Errorf("authorities of the server in %s: %w", t.file, err)
			}
		}
		config.RootCAs, err = pool(content)
		if err != nil {
			return nil, fmt.Errorf("authorities of the server in %s: %w", t.file, err)
		}
	case t.checksum != "":
		if t.pinned == nil {
			fetched, err := t.fetch(ctx)
			if err != nil {
				return nil, fmt.Errorf("authorities of the server by their checksum: %w", err)
			}
			t.pinned = fetched
		}
		config.RootCAs = t.pinned
	}
	return config, nil
}

// fetch requests the server's authorities. The server's certificate cannot be verified yet. The checksum verifies the
// answer, and the request reveals nothing.
func (t *trust) fetch(ctx context.Context) (*x509.CertPool, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.server.JoinPath(settingCA).String(), nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: t.proxy, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // the answer is checked by its checksum
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", request.URL, response.Status)
	}
	var setting struct {
		Value string `json:"value"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxCA)).Decode(&setting); err != nil {
		return nil, fmt.Errorf("%s must answer JSON with the field value", request.URL)
	}
	if setting.Value == "" {
		return nil, fmt.Errorf("%s has no authorities: the server's certificate is from a public authority; remove "+
			"the checksum", request.URL)
	}
	if err := verify([]byte(setting.Value), t.checksum); err != nil {
		return nil, fmt.Errorf("%s: %w", request.URL, err)
	}
	return pool([]byte(setting.Value))
}

func verify(authorities []byte, checksum string) error {
	if got := naming.CAChecksum(string(authorities)); subtle.ConstantTimeCompare([]byte(got),
		[]byte(strings.ToLower(checksum))) != 1 {
		return fmt.Errorf("checksum is %s and must be %s", got, strings.ToLower(checksum))
	}
	return nil
}

func pool(authorities []byte) (*x509.CertPool, error) {
	out := x509.NewCertPool()
	if !out.AppendCertsFromPEM(authorities) {
		return nil, errors.New("must be PEM with at least one certificate")
	}
	return out, nil
}
