package distro

import (
	"io"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBalancer_Targets(t *testing.T) {
	b := &balancer{}
	steps := []struct {
		what string
		do   func()
		want []string
	}{
		{"in order, without duplicates", func() { b.set([]string{"c:1", "a:1", "b:1", "a:1"}) },
			[]string{"a:1", "b:1", "c:1"}},
		{"a failed server is last", func() { b.failed("a:1") }, []string{"b:1", "c:1", "a:1"}},
		{"an unknown server fails", func() { b.failed("x:1") }, []string{"b:1", "c:1", "a:1"}},
		{"the server in use stays first", func() { b.set([]string{"a:1", "b:1", "d:1"}) },
			[]string{"b:1", "a:1", "d:1"}},
		{"without known servers", func() { b.set(nil) }, []string{"b:1", "a:1", "d:1"}},
		{"the server in use is removed", func() { b.set([]string{"d:1", "a:1"}) }, []string{"a:1", "d:1"}},
	}
	for _, step := range steps {
		step.do()
		if diff := cmp.Diff(step.want, b.all()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestBalancer_UsesAServerThatAnswers: with one of two servers gone, a connection reaches the other server, and its
// answer comes back.
func TestBalancer_UsesAServerThatAnswers(t *testing.T) {
	gone := listenLocal(t)
	must(t, gone.Close())
	alive := listenLocal(t)
	go func() {
		conn, err := alive.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		said, _ := io.ReadAll(conn)
		_, _ = conn.Write(append([]byte("heard "), said...))
	}()
	b := &balancer{targets: []string{gone.Addr().String(), alive.Addr().String()}}
	port := listenLocal(t)
	go func() { _ = b.serve(t.Context(), port) }()

	conn, err := net.Dial("tcp", port.Addr().String())
	must(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("hello"))
	must(t, err)
	must(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "heard hello" {
		t.Errorf("answer %q, error %v", answer, err)
	}
	if first := b.all()[0]; first != alive.Addr().String() {
		t.Errorf("the next connection would start with %s", first)
	}
}
