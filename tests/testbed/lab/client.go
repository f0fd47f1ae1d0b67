package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Client calls the lab's API over HTTPS.
type Client struct {
	url   string
	token string
	http  *http.Client
}

// NewClient returns a client of the lab at an https URL. ca (PEM) signed the server's certificate.
func NewClient(address, token string, ca []byte) (*Client, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "https" {
		return nil, fmt.Errorf("%w: lab address %q: use https://HOST:PORT", ErrInvalid, address)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%w: lab CA: no certificate in PEM form", ErrInvalid)
	}
	return &Client{url: address, token: token, http: &http.Client{
		Timeout:   2 * time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}}, nil
}

// Create creates a machine, or returns the existing one with that name. The tag may be empty.
func (c *Client) Create(ctx context.Context, name, authorizedKey, tag string) (Machine, error) {
	var m Machine
	return m, c.call(ctx, http.MethodPost, "/v1/machines", createRequest{Name: name, AuthorizedKey: authorizedKey,
		Tag: tag}, &m)
}

// Get returns a machine, or an error that is ErrNotFound.
func (c *Client) Get(ctx context.Context, name string) (Machine, error) {
	var m Machine
	return m, c.call(ctx, http.MethodGet, "/v1/machines/"+url.PathEscape(name), nil, &m)
}

// Delete deletes a machine. A missing machine is no error.
func (c *Client) Delete(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/v1/machines/"+url.PathEscape(name), nil, nil)
}

// SetPower turns a machine on or off.
func (c *Client) SetPower(ctx context.Context, name string, power Power, atOnce bool) error {
	return c.call(ctx, http.MethodPost, "/v1/machines/"+url.PathEscape(name)+"/power",
		powerRequest{Power: power, AtOnce: atOnce}, nil)
}

// NextFault returns the fault that the driver must show at this action, or one without a mode.
func (c *Client) NextFault(ctx context.Context, action, name string) (Fault, error) {
	var fault Fault
	return fault, c.call(ctx, http.MethodPost, "/v1/machines/"+url.PathEscape(name)+"/faults",
		faultRequest{Action: action}, &fault)
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, &body)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("call lab: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var f failure
		_ = json.NewDecoder(resp.Body).Decode(&f)
		if resp.StatusCode == http.StatusNotFound {
			return fmt.Errorf("%w: %s", ErrNotFound, f.Message)
		}
		return fmt.Errorf("lab answered %s: %s", resp.Status, f.Message)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}
