// Package attack attacks a server as hostile nodes and greedy tenants would. Tests and benchmarks use it to show that
// others are not affected.
package attack

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// Server is the attacked endpoint for machines.
type Server struct {
	// Address is HOST:PORT.
	Address string
	client  *http.Client
}

// NewServer returns the server at an address. Its certificate is not verified.
func NewServer(address string) *Server {
	return &Server{Address: address, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig:     trusting(),
		MaxIdleConnsPerHost: 100,
	}}}
}

func trusting() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// Close closes the connections.
func (s *Server) Close() { s.client.CloseIdleConnections() }

// Codes counts answers by status code. 0 counts requests without an answer.
type Codes struct {
	mu    sync.Mutex
	count map[int]int
}

func (c *Codes) add(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[int]int{}
	}
	c.count[code]++
}

// Of returns the number of answers with a status code.
func (c *Codes) Of(code int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[code]
}

// String lists the codes with their counts.
func (c *Codes) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.count)
}

// Node is a host with a plan token.
type Node struct {
	*Server
	// Namespace and Secret name the plan Secret.
	Namespace, Secret string
	// Token is the plan token.
	Token string
}

// Report adds data to the plan Secret. It returns the status code of the update, or of the read if that failed.
func (n *Node) Report(ctx context.Context, data map[string][]byte) (int, error) {
	url := fmt.Sprintf("https://%s/api/v1/namespaces/%s/secrets/%s", n.Address, n.Namespace, n.Secret)
	secret := &corev1.Secret{}
	if code, err := n.do(ctx, http.MethodGet, url, nil, secret); err != nil || code != http.StatusOK {
		return code, err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	maps.Copy(secret.Data, data)
	return n.do(ctx, http.MethodPut, url, secret, nil)
}

func (n *Node) do(ctx context.Context, method, url string, body, into any) (int, error) {
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+n.Token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := n.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if into != nil && answer.StatusCode == http.StatusOK {
		return answer.StatusCode, json.NewDecoder(answer.Body).Decode(into)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// Flood sends reports of that size until ctx ends, at a rate, without regard to the answers.
func (n *Node) Flood(ctx context.Context, perSecond, size int, codes *Codes) {
	var sending sync.WaitGroup
	defer sending.Wait()
	value := bytes.Repeat([]byte("x"), size)
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for turn := byte(0); ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed := append([]byte{turn}, value...)
		sending.Go(func() {
			code, err := n.Report(ctx, map[string][]byte{nodeplan.KeyAppliedOutput: changed})
			if err != nil {
				code = 0
			}
			if ctx.Err() == nil {
				codes.add(code)
			}
		})
	}
}

// Bomb returns reports that are small and decode to 48 MiB.
func Bomb() map[string][]byte {
	bomb := map[string][]byte{}
	for _, key := range []string{nodeplan.KeyAppliedOutput, nodeplan.KeyFailedOutput,
		nodeplan.KeyAppliedPeriodicOutput} {
		var packed bytes.Buffer
		writer := gzip.NewWriter(&packed)
		_, _ = fmt.Fprintf(writer, `{"a":"%s"}`, strings.Repeat("A", 16<<20-16)) // a Buffer never fails
		_ = writer.Close()
		bomb[key] = packed.Bytes()
	}
	return bomb
}

// Invent registers hosts that do not exist, all at once, with a registration token. It returns the plan tokens that
// the server gave out.
func (s *Server) Invent(ctx context.Context, token string, hosts int, codes *Codes) []*Node {
	var mu sync.Mutex
	var nodes []*Node
	var asking sync.WaitGroup
	for i := range hosts {
		asking.Go(func() {
			node, code := s.register(ctx, token, fmt.Sprintf("invented-%04d", i))
			if ctx.Err() == nil {
				codes.add(code)
			}
			if node != nil {
				mu.Lock()
				defer mu.Unlock()
				nodes = append(nodes, node)
			}
		})
	}
	asking.Wait()
	return nodes
}

func (s *Server) register(ctx context.Context, token, id string) (*Node, int) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Address+"/v3/connect/agent",
		http.NoBody)
	if err != nil {
		return nil, 0
	}
	for name, value := range map[string]string{"Id": id, "Node-Name": id, "Role-Worker": "true"} {
		request.Header.Set("X-Cattle-"+name, value)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, 0
	}
	defer answer.Body.Close()
	return s.nodeOf(answer), answer.StatusCode
}

// Hold opens connections that send the same request and read no answer. release closes them. It returns how many the
// server accepted.
func (s *Server) Hold(ctx context.Context, connections int, head string) (opened int, release func()) {
	var mu sync.Mutex
	var held []net.Conn
	var opening sync.WaitGroup
	dialer := &tls.Dialer{Config: trusting()}
	for range connections {
		opening.Go(func() {
			conn, err := dialer.DialContext(ctx, "tcp", s.Address)
			if err != nil {
				return
			}
			writer := bufio.NewWriter(conn)
			_, _ = writer.WriteString(head)
			_ = writer.Flush() // a refused connection is an answer, too
			mu.Lock()
			defer mu.Unlock()
			held = append(held, conn)
		})
	}
	opening.Wait()
	return len(held), func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}
}

// UnreadWatch is the head of a request for a watch of the node's own plan Secret, for Hold.
func (n *Node) UnreadWatch() string {
	return fmt.Sprintf("GET /api/v1/namespaces/%s/secrets?watch=true&fieldSelector=metadata.name%%3D%s HTTP/1.1\r\n"+
		"Host: %s\r\nAuthorization: Bearer %s\r\n\r\n", n.Namespace, n.Secret, n.Address, n.Token)
}

// Occupy keeps requests for a path in progress until ctx ends, as a user with that token. After an answer it repeats
// the request.
func (s *Server) Occupy(ctx context.Context, token, path string, requests int, codes *Codes) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for range requests {
		asking.Go(func() {
			for ctx.Err() == nil {
				code := s.get(ctx, token, path)
				if ctx.Err() == nil {
					codes.add(code)
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
}

func (s *Server) get(ctx context.Context, token, path string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Address+path, http.NoBody)
	if err != nil {
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := s.client.Do(request)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // the code counts
	return answer.StatusCode
}
