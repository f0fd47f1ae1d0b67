package rig

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-io/drover/pkg/local/managementplane/pki"
	"github.com/drover-io/drover/pkg/local/managementplane/supervise"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// s3Program is the S3 server. Its buckets are folders.
const s3Program = "versitygw"

// s3Port is the port of S3 on the lab's gateway.
const s3Port = "9000"

// S3 is an S3 server in the lab's network, with TLS and an authority of its own.
type S3 struct {
	// Endpoint is its host and port.
	Endpoint string
	// Region, AccessKey and SecretKey are what clients need.
	Region, AccessKey, SecretKey string
	// CA is its authority in PEM.
	CA []byte
	// Folder has a folder for each bucket, and in it a file for each object.
	Folder string

	socket   string
	listener net.Listener
	// left is how many bytes clients can still transfer, negative for any number.
	left  atomic.Int64
	mu    sync.Mutex
	conns map[net.Conn]bool
}

// ServeS3 starts an S3 server. The rig's Stop ends it.
func (r *Rig) ServeS3(ctx context.Context) (*S3, error) {
	dir := filepath.Join(r.Dir, "s3")
	secret, err := keepSecret(filepath.Join(dir, "secret"))
	if err != nil {
		return nil, err
	}
	ca, err := pki.OpenAuthority(filepath.Join(dir, "pki"), "s3-ca", time.Now)
	if err != nil {
		return nil, err
	}
	pair, err := ca.Serving("s3", lab.Gateway.String())
	if err != nil {
		return nil, err
	}
	s := &S3{
		Endpoint: net.JoinHostPort(lab.Gateway.String(), s3Port), Region: "lab-1", AccessKey: "lab", SecretKey: secret,
		CA: ca.CertPEM, Folder: filepath.Join(dir, "buckets"), socket: filepath.Join(dir, "s3.sock"),
		conns: map[net.Conn]bool{},
	}
	s.left.Store(-1)
	sidecar := filepath.Join(dir, "attributes") // not every file system has attributes of its own
	for _, folder := range []string{s.Folder, sidecar} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("make folder of S3: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := r.supervisor.Start(ctx, supervise.Child{
		Name: "s3", Path: filepath.Join(r.Bin, s3Program),
		Args: []string{"--port", s.socket, "--cert", pair.CertFile, "--key", pair.KeyFile, "--region", s.Region,
			"--quiet", "posix", "--sidecar", sidecar, s.Folder},
		Env:   []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey},
		Ready: s.answers, Grace: time.Second,
	}); err != nil {
		return nil, fmt.Errorf("start S3: %w", err)
	}
	if s.listener, err = lab.ListenIn(r.Lab.Namespace(), s.Endpoint); err != nil {
		return nil, fmt.Errorf("serve S3: %w", err)
	}
	r.s3 = s
	go s.serve()
	return s, nil
}

// answers returns nil when the server accepts TLS.
func (s *S3) answers(ctx context.Context) error {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(ctx, "unix", s.socket)
	if err != nil {
		return err
	}
	return conn.Close()
}

// MakeBucket creates a bucket and returns its folder.
func (s *S3) MakeBucket(name string) (string, error) {
	folder := filepath.Join(s.Folder, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", fmt.Errorf("make bucket: %w", err)
	}
	return folder, nil
}

// Limit cuts each connection once clients have transferred that many more bytes in all. Zero closes all connections, so
// that the server looks away. A negative number ends the limit.
func (s *S3) Limit(bytes int64) {
	if s.left.Store(bytes); bytes != 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

// serve forwards connections from the lab's network to the server until the listener is closed.
func (s *S3) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.forward(conn)
	}
}

func (s *S3) forward(conn net.Conn) {
	defer conn.Close()
	if s.left.Load() == 0 {
		return
	}
	server, err := net.Dial("unix", s.socket) //nolint:noctx // a local socket answers at once
	if err != nil {
		return
	}
	defer server.Close()
	s.mu.Lock()
	s.conns[conn] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	}()
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{server, conn}, {conn, server}} {
		go func() {
			_, _ = io.Copy(pair[0], &limited{s, pair[1]})
			ended <- struct{}{}
		}()
	}
	<-ended
}

// limited reads from a connection as long as the limit permits.
type limited struct {
	s    *S3
	from net.Conn
}

var errCut = errors.New("the transfer is cut")

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	if !l.s.spend(int64(n)) {
		return 0, errCut
	}
	return n, err
}

// spend takes bytes from the limit, and reports whether they are within it.
func (s *S3) spend(bytes int64) bool {
	for {
		left := s.left.Load()
		if left < 0 {
			return true
		}
		if s.left.CompareAndSwap(left, max(0, left-bytes)) {
			return left > bytes
		}
	}
}

// close ends the server's place in the lab's network.
func (s *S3) close() {
	_ = s.listener.Close()
	s.Limit(0)
}

// EncodedCA is the authority in the form that an ETCDSnapshot may have.
func (s *S3) EncodedCA() string { return base64.StdEncoding.EncodeToString(s.CA) }
