package distro

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// joiner sends the requests of a joining node to a server.
type joiner struct {
	layout Layout
	node   Node
	config Config
	log    io.Writer
}

// asWorker asks the configured server and the known API servers until one answers, and writes the node's certificates.
// The node gets new ones at every start. asWorker keeps asking, because servers may start slowly.
func (j joiner) asWorker(ctx context.Context, known []string) (servers []string, err error) {
	var reply joinReply
	query := url.Values{"name": {j.node.Name}, "ip": {j.node.IP.String()}}
	ca, err := j.insist(ctx, known, http.MethodPost, "node", query, &reply)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(bytes.TrimSpace(reply.Files["server-ca.crt"]), bytes.TrimSpace(ca)) {
		return nil, errors.New("the server's certificate authority changed while joining")
	}
	return reply.Servers, reply.Files.write(j.layout)
}

// asServer asks until a server answers, and writes the files that servers share.
func (j joiner) asServer(ctx context.Context) (etcd []string, err error) {
	var reply serverReply
	if _, err := j.insist(ctx, nil, http.MethodGet, "server", nil, &reply); err != nil {
		return nil, err
	}
	return reply.Etcd, reply.Files.writeMissing(j.layout)
}

// insist repeats a request until it succeeds or ctx ends, and logs each new error. It tries the configured server first
// and then the known servers. It returns the authority of the server that answered.
func (j joiner) insist(ctx context.Context, known []string, method, path string, query url.Values, reply any) ([]byte,
	error) {
	server, err := url.Parse(j.config.Server)
	if err != nil || server.Host == "" {
		return nil, fmt.Errorf("server %q: use https://HOST:PORT", j.config.Server)
	}
	servers := []*url.URL{server}
	for _, target := range known {
		if other, err := j.supervisorOf(target); err == nil && other.Host != server.Host {
			servers = append(servers, other)
		}
	}
	said := map[string]string{}
	for {
		for _, server := range servers {
			ca, err := j.ask(ctx, server, method, path, query, reply)
			if err == nil {
				return ca, nil
			}
			if text := err.Error(); text != said[server.Host] {
				fmt.Fprintf(j.log, "waiting for %s: %s\n", server.Host, text)
				said[server.Host] = text
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// ask sends the request once. A first call accepts any certificate, as the distributions do with a token without a CA
// hash. The second call trusts only the authority from the first call.
func (j joiner) ask(ctx context.Context, server *url.URL, method, path string, query url.Values, reply any) ([]byte,
	error) {
	anyone := httpClient(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{supervisorProtocol, "http/1.1"}})
	ca, err := fetch(ctx, anyone, http.MethodGet, server.JoinPath("/cacerts"), "")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the server's certificate authority is no certificate")
	}
	trusted := httpClient(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12,
		NextProtos: []string{supervisorProtocol, "http/1.1"}})
	target := server.JoinPath("/v1-"+string(j.layout.Runtime), path)
	target.RawQuery = query.Encode()
	body, err := fetch(ctx, trusted, method, target, j.config.Token)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, reply); err != nil {
		return nil, fmt.Errorf("decode reply: %w", err)
	}
	return ca, nil
}

// supervisorOf returns the supervisor's URL of a server whose API is at HOST:PORT.
func (j joiner) supervisorOf(api string) (*url.URL, error) {
	host, _, err := net.SplitHostPort(api)
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(j.layout.Runtime.SupervisorPort()))}, nil
}

// joined returns the API address of the configured server.
func (j joiner) joined() []string {
	server, err := url.Parse(j.config.Server)
	if err != nil || server.Hostname() == "" {
		return nil
	}
	return []string{net.JoinHostPort(server.Hostname(), strconv.Itoa(apiPort))}
}

// followServers keeps a balancer's targets, and the list for the next start, equal to the current API servers. It asks
// the supervisors of the servers that it knows.
func (j joiner) followServers(ctx context.Context, b *balancer) error {
	return every(ctx, 5*time.Second, func() error {
		for _, target := range b.all() {
			supervisor, err := j.supervisorOf(target)
			if err != nil {
				continue
			}
			var servers []string
			if _, err := j.ask(ctx, supervisor, http.MethodGet, "apiservers", nil, &servers); err == nil &&
				len(servers) > 0 {
				b.set(servers)
				return keepChanged(j.layout.apiServers(), servers)
			}
		}
		return nil
	})
}

func httpClient(config *tls.Config) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config,
		DisableKeepAlives: true}}
}

// fetch returns a server's answer. It sends the token unless it is empty.
func fetch(ctx context.Context, client *http.Client, method string, target *url.URL, token string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.SetBasicAuth("node", token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s: %s", target.Path, resp.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}
