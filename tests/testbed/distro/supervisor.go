package distro

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// joinReply is the answer to a joining worker: its certificates, the authorities to trust, and the API servers.
type joinReply struct {
	Files nodeFiles
	// Servers are the currently known API servers as HOST:PORT.
	Servers []string
}

// serverReply is the answer to a joining server: the keys of the cluster, which make it equal to other servers.
type serverReply struct {
	Files bootstrap
	// Etcd are the client URLs of the voting members.
	Etcd []string
}

// supervisor answers joining nodes. Workers may use either token of the cluster, and their credentials work only for
// their own node. Servers need the servers' token.
type supervisor struct {
	layout Layout
	config Config
	// members is the client of the cluster's etcd.
	members members
	// encryption is nil where Secrets are not encrypted.
	encryption *secretsEncryption
}

func (s supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	base := "/v1-" + string(s.layout.Runtime)
	mux.HandleFunc("GET /cacerts", func(w http.ResponseWriter, _ *http.Request) {
		data, err := os.ReadFile(s.layout.tls("server-ca.crt"))
		if err != nil {
			http.Error(w, "no certificate authority yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(data)
	})
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "pong") })
	mux.HandleFunc("GET /db/info", s.databaseInfo)
	mux.HandleFunc("POST "+base+"/node", s.with([]string{s.config.Token, s.config.AgentToken}, s.admitNode))
	mux.HandleFunc("GET "+base+"/apiservers", s.with([]string{s.config.Token, s.config.AgentToken},
		func(ctx context.Context, _ url.Values) (any, error) {
			return s.members.apiServers(ctx)
		}))
	mux.HandleFunc("GET "+base+"/server", s.with([]string{s.config.Token}, s.admitServer))
	mux.HandleFunc("GET "+base+"/encrypt/status", s.with([]string{s.config.Token}, s.encryption.answerStatus))
	mux.HandleFunc("PUT "+base+"/encrypt/config", s.with([]string{s.config.Token}, s.encryption.answerCommand))
	return mux
}

// errBadRequest is an error of the joining node.
var errBadRequest = errors.New("name and ip are required")

// with returns a handler that checks the token and returns the answer as JSON.
func (s supervisor) with(tokens []string, answer func(context.Context, url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, token, _ := r.BasicAuth(); !knownToken(token, tokens) {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		reply, err := answer(r.Context(), r.URL.Query())
		switch {
		case errors.Is(err, errBadRequest):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(reply)
		}
	}
}

func knownToken(token string, tokens []string) bool {
	ok := false
	for _, known := range tokens {
		ok = (known != "" && subtle.ConstantTimeCompare([]byte(token), []byte(known)) == 1) || ok
	}
	return ok
}

func (s supervisor) admitNode(ctx context.Context, query url.Values) (any, error) {
	name, ip := query.Get("name"), net.ParseIP(query.Get("ip"))
	if name == "" || strings.ContainsAny(name, "/: ") || ip == nil {
		return nil, errBadRequest
	}
	servers, err := s.members.apiServers(ctx)
	if err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return nil, errors.New("no API server yet")
	}
	files, err := issueNode(s.layout, Node{Name: name, IP: ip})
	return joinReply{Files: files, Servers: servers}, err
}

func (s supervisor) admitServer(ctx context.Context, _ url.Values) (any, error) {
	files, err := readBootstrap(s.layout)
	if err != nil {
		return nil, err
	}
	voters, err := s.members.voters(ctx)
	if err != nil {
		return nil, err
	}
	return serverReply{Files: files, Etcd: voters}, nil
}

// databaseInfo returns the members of etcd to programs of this host (docs/wire/planner.md#saved-output).
func (s supervisor) databaseInfo(w http.ResponseWriter, r *http.Request) {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !net.ParseIP(host).IsLoopback() {
		http.Error(w, "not for other hosts", http.StatusForbidden)
		return
	}
	list, err := s.members.list(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	type member struct {
		Name       string   `json:"name"`
		ClientURLs []string `json:"clientURLs"`
	}
	info := struct {
		Members []member `json:"members"`
	}{}
	for _, m := range list {
		info.Members = append(info.Members, member{Name: m.Name, ClientURLs: m.ClientURLs})
	}
	_ = json.NewEncoder(w).Encode(info)
}

// askTimeout limits one request to etcd.
const askTimeout = 5 * time.Second
