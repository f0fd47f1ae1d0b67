package distro

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// joinReply is what a joining worker gets: its own certificates, the authorities to trust, and where the API is.
type joinReply struct {
	Files   nodeFiles
	APIPort int
}

// supervisorHandler answers joining nodes. A node shows the cluster's token; what it gets opens its own node only.
func supervisorHandler(l Layout, config Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cacerts", func(w http.ResponseWriter, _ *http.Request) {
		data, err := os.ReadFile(l.tls("server-ca.crt"))
		if err != nil {
			http.Error(w, "no certificate authority yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(data)
	})
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "pong") })
	mux.HandleFunc("POST /v1-"+string(l.Runtime)+"/node", func(w http.ResponseWriter, r *http.Request) {
		_, token, _ := r.BasicAuth()
		if !knownToken(token, config) {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		reply, err := admitNode(l, r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply)
	})
	return mux
}

func knownToken(token string, config Config) bool {
	ok := false
	for _, known := range []string{config.Token, config.AgentToken} {
		ok = (known != "" && subtle.ConstantTimeCompare([]byte(token), []byte(known)) == 1) || ok
	}
	return ok
}

func admitNode(l Layout, query url.Values) (joinReply, error) {
	name, ip := query.Get("name"), net.ParseIP(query.Get("ip"))
	if name == "" || strings.ContainsAny(name, "/: ") || ip == nil {
		return joinReply{}, errors.New("name and ip are required")
	}
	files, err := issueNode(l, Node{Name: name, IP: ip})
	return joinReply{Files: files, APIPort: apiPort}, err
}

// join asks a server until it answers, and writes the node's certificates. It keeps asking: a server may be slow to come.
func join(ctx context.Context, l Layout, node Node, config Config, log io.Writer) (api string, err error) {
	server, err := url.Parse(config.Server)
	if err != nil || server.Host == "" {
		return "", fmt.Errorf("server %q: use https://HOST:PORT", config.Server)
	}
	last := ""
	for {
		reply, err := askToJoin(ctx, l, node, config, server)
		if err == nil {
			return fmt.Sprintf("https://%s:%d", server.Hostname(), reply.APIPort), reply.Files.write(l)
		}
		if text := err.Error(); text != last {
			fmt.Fprintf(log, "waiting for %s: %s\n", server.Host, text)
			last = text
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func askToJoin(ctx context.Context, l Layout, node Node, config Config, server *url.URL) (joinReply, error) {
	// The first call trusts whoever answers, as the distributions do with a token that carries no CA hash; the second does not.
	anyone := httpClient(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{supervisorProtocol, "http/1.1"}})
	ca, err := fetch(ctx, anyone, http.MethodGet, server.JoinPath("/cacerts"), "", "")
	if err != nil {
		return joinReply{}, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return joinReply{}, errors.New("the server's certificate authority is no certificate")
	}
	trusted := httpClient(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{supervisorProtocol, "http/1.1"}})
	target := server.JoinPath("/v1-"+string(l.Runtime), "node")
	target.RawQuery = url.Values{"name": {node.Name}, "ip": {node.IP.String()}}.Encode()
	body, err := fetch(ctx, trusted, http.MethodPost, target, "node", config.Token)
	if err != nil {
		return joinReply{}, err
	}
	var reply joinReply
	if err := json.Unmarshal(body, &reply); err != nil {
		return joinReply{}, fmt.Errorf("decode reply: %w", err)
	}
	if !slices.Equal(bytes.TrimSpace(reply.Files["server-ca.crt"]), bytes.TrimSpace(ca)) {
		return joinReply{}, errors.New("the server's certificate authority changed while joining")
	}
	return reply, nil
}

func httpClient(config *tls.Config) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

func fetch(ctx context.Context, client *http.Client, method string, target *url.URL, user, password string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	if user != "" {
		req.SetBasicAuth(user, password)
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
