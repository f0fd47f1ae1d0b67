// Package sshserver is a real SSH server in the process of a test. It runs a few commands of its own.
package sshserver

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Server listens on the loopback until the test ends. Its shell is cat. A command that is a number ends with that exit
// code. The other commands:
//
//	cat     copies its input
//	both    writes to both outputs
//	sleep   writes begun, and ends with a signal
//	cut     ends the connection
//	killed  ends by SIGKILL
type Server struct {
	t *testing.T
	// Address is where it listens, and User the user that it accepts.
	Address *net.TCPAddr
	User    string
	// Key is the private key that it accepts, as PEM.
	Key []byte
	// Hosts are its host keys.
	Hosts []ssh.Signer
	// Resized gets the new size of a terminal.
	Resized chan string

	mu sync.Mutex
	// seen are the requests of sessions.
	seen []string
}

// New starts a server that has these kinds of host keys: rsa, ecdsa, ed25519.
func New(t *testing.T, kinds ...string) *Server {
	t.Helper()
	s := &Server{t: t, User: "ubuntu", Resized: make(chan string, 1)}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	check(t, err)
	s.Key = pem.EncodeToMemory(block)
	mine, err := ssh.NewSignerFromKey(private)
	check(t, err)
	config := &ssh.ServerConfig{PublicKeyCallback: func(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions,
		error) {
		if conn.User() != s.User || !bytes.Equal(key.Marshal(), mine.PublicKey().Marshal()) {
			return nil, fmt.Errorf("unknown user %s", conn.User())
		}
		return nil, nil
	}}
	for _, kind := range kinds {
		signer := HostKey(t, kind)
		s.Hosts = append(s.Hosts, signer)
		config.AddHostKey(signer)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	s.Address = listener.Addr().(*net.TCPAddr)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go s.serve(conn, config)
		}
	}()
	return s
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// HostKey makes a key of a kind.
func HostKey(t *testing.T, kind string) ssh.Signer {
	t.Helper()
	var private any
	var err error
	switch kind {
	case "rsa":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ecdsa":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	}
	check(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	check(t, err)
	return signer
}

// Lines are public keys as a node agent reports them.
func Lines(signers ...ssh.Signer) []byte {
	var out []byte
	for _, signer := range signers {
		out = append(out, ssh.MarshalAuthorizedKey(signer.PublicKey())...)
	}
	return out
}

func (s *Server) serve(conn net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for channel := range channels {
		session, requests, err := channel.Accept()
		if err != nil {
			return
		}
		go s.session(conn, session, requests)
	}
}

func (s *Server) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, text)
}

// Requests are the requests of sessions so far.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

func (s *Server) session(conn net.Conn, session ssh.Channel, requests <-chan *ssh.Request) {
	interrupted := make(chan struct{}, 1)
	for request := range requests {
		var text struct{ Text string }
		var start func() // after the reply, which a short command would overtake
		switch request.Type {
		case "pty-req":
			var pty struct {
				Term                  string
				Columns, Rows, Px, Py uint32
				Modes                 string
			}
			check(s.t, ssh.Unmarshal(request.Payload, &pty))
			s.note(fmt.Sprintf("terminal %s %dx%d", pty.Term, pty.Columns, pty.Rows))
		case "window-change":
			var size struct{ Columns, Rows, Px, Py uint32 }
			check(s.t, ssh.Unmarshal(request.Payload, &size))
			s.Resized <- fmt.Sprintf("%dx%d", size.Columns, size.Rows)
		case "exec":
			check(s.t, ssh.Unmarshal(request.Payload, &text))
			s.note("exec " + text.Text)
			start = func() { s.run(conn, session, text.Text, interrupted) }
		case "shell":
			s.note("shell")
			start = func() { s.run(conn, session, "cat", interrupted) }
		case "signal":
			check(s.t, ssh.Unmarshal(request.Payload, &text))
			s.note("signal " + text.Text)
			interrupted <- struct{}{}
		}
		if request.WantReply {
			check(s.t, request.Reply(true, nil))
		}
		if start != nil {
			go start()
		}
	}
}

func (s *Server) run(conn net.Conn, session ssh.Channel, command string, interrupted <-chan struct{}) {
	code := uint32(0)
	switch command {
	case "cat":
		_, _ = io.Copy(session, session)
	case "both":
		fmt.Fprint(session, "out")
		fmt.Fprint(session.Stderr(), "err")
	case "sleep":
		fmt.Fprint(session, "begun")
		<-interrupted
		code = 130
	case "cut":
		_ = conn.Close()
		return
	case "killed":
		_, _ = session.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal    string
			Core      bool
			Err, Lang string
		}{Signal: "KILL"}))
		_ = session.Close()
		return
	default:
		if n, err := strconv.ParseUint(command, 10, 8); err == nil {
			code = uint32(n)
		}
	}
	_, _ = session.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
	_ = session.Close()
}
