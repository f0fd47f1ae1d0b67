package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"pgregory.net/rapid"
)

func TestPipe_CarriesBytesInAnyPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := bytes.Repeat([]byte("0123456789abcdef"), rapid.IntRange(0, 3*PipeBuffer/16).Draw(t, "sixteens"))
		writes, reads := rapid.IntRange(1, 2*PipeBuffer).Draw(t, "bytes per write"),
			rapid.IntRange(1, 2*PipeBuffer).Draw(t, "bytes per read")
		if min(writes, reads) < 64 {
			sent = sent[:min(len(sent), 16<<10)]
		}
		one, other := Pipe()
		go func() {
			_, _ = io.CopyBuffer(struct {
				io.Writer
			}{other}, struct{ io.Reader }{bytes.NewReader(sent)}, make([]byte, writes))
			other.Close()
		}()
		var got bytes.Buffer
		if _, err := io.CopyBuffer(struct {
			io.Writer
		}{&got}, struct{ io.Reader }{one}, make([]byte, reads)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sent, got.Bytes()) {
			t.Errorf("%d bytes were written, and %d bytes were read", len(sent), got.Len())
		}
	})
}

func TestPipe_EndsAndDeadlines(t *testing.T) {
	read := func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err }
	write := func(c net.Conn) error { _, err := c.Write(make([]byte, PipeBuffer+1)); return err }
	for name, test := range map[string]struct {
		before func(one, other net.Conn)
		call   func(net.Conn) error
		want   error
		after  time.Duration
	}{
		"reading after the peer closed": {func(_, other net.Conn) { other.Close() }, read, io.EOF, 0},
		"reading a closed end":          {func(one, _ net.Conn) { one.Close() }, read, io.ErrClosedPipe, 0},
		"writing after the peer closed": {func(_, other net.Conn) { other.Close() }, write, io.ErrClosedPipe,
			0},
		"reading while the peer closes": {func(_, other net.Conn) {
			time.AfterFunc(time.Second, func() { other.Close() })
		}, read, io.EOF, time.Second},
		"writing while the peer closes": {func(_, other net.Conn) {
			time.AfterFunc(time.Second, func() { other.Close() })
		}, write, io.ErrClosedPipe, time.Second},
		"reading until the deadline": {func(one, _ net.Conn) {
			_ = one.SetReadDeadline(time.Now().Add(time.Second))
		}, read, os.ErrDeadlineExceeded, time.Second},
		"writing until the deadline": {func(one, _ net.Conn) {
			_ = one.SetWriteDeadline(time.Now().Add(time.Second))
		}, write, os.ErrDeadlineExceeded, time.Second},
		"reading until the common deadline": {func(one, _ net.Conn) {
			_ = one.SetDeadline(time.Now().Add(time.Second))
		}, read, os.ErrDeadlineExceeded, time.Second},
		"a deadline in the past": {func(one, _ net.Conn) { _ = one.SetDeadline(time.Now()) }, read,
			os.ErrDeadlineExceeded, 0},
		"a deadline that is set during the wait": {func(one, _ net.Conn) {
			time.AfterFunc(time.Second, func() { _ = one.SetDeadline(time.Now()) })
		}, read, os.ErrDeadlineExceeded, time.Second},
		"a deadline that was moved": {func(one, _ net.Conn) {
			_ = one.SetDeadline(time.Now().Add(time.Second))
			_ = one.SetDeadline(time.Now().Add(time.Minute))
		}, read, os.ErrDeadlineExceeded, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, other := Pipe()
				test.before(one, other)
				begun := time.Now()
				if err := test.call(one); !errors.Is(err, test.want) {
					t.Errorf("error is %v, want %v", err, test.want)
				}
				if took := time.Since(begun); took != test.after {
					t.Errorf("it took %s, want %s", took, test.after)
				}
			})
		})
	}
}

func TestPipe_BytesBeforeTheEndAreRead(t *testing.T) {
	one, other := Pipe()
	say(t, other, "the last words")
	other.Close()
	hear(t, one, "the last words")
	hearEnd(t, one)
	if one.Closed() {
		t.Error("closed, although only the peer's end was closed")
	}
	_ = one.Close()
	if !one.Closed() {
		t.Error("not closed")
	}
}

// Addresses have a host and a port, which servers and proxies split.
func TestPipe_AddressesHaveAPort(t *testing.T) {
	one, other := Pipe()
	for _, address := range []net.Addr{one.LocalAddr(), one.RemoteAddr(), other.LocalAddr(), other.RemoteAddr()} {
		if _, _, err := net.SplitHostPort(address.String()); err != nil {
			t.Error(err)
		}
	}
}

// gate is a session's connection that accepts one write when it is opened.
type gate struct {
	entered, open, ending chan struct{}
	writing               atomic.Bool
}

func (g *gate) Write(p []byte) (int, error) {
	g.writing.Store(true)
	defer g.writing.Store(false)
	close(g.entered)
	<-g.open
	<-time.After(time.Second) // The network is slow.
	return len(p), nil
}

func (g *gate) Read([]byte) (int, error) {
	<-g.ending
	return 0, io.EOF
}

func (g *gate) OnResume() {
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// Stop returns only after the last write to the session's connection, which has no lock between writers and its end.
func TestDialed_StopReturnsWithoutAWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := Pipe()
		session := &gate{entered: make(chan struct{}), open: make(chan struct{}), ending: make(chan struct{})}
		copied, read := make(chan int64, 1), make(chan error, 1)
		go func() {
			n, _ := io.Copy(session, one)
			copied <- n
		}()
		go func() {
			_, err := io.Copy(one, session)
			read <- err
		}()
		say(t, other, "told to pause")
		<-session.entered
		synctest.Wait()
		one.Stop() // It unblocks the paused writer.
		if session.writing.Load() {
			t.Error("a goroutine still writes to the session")
		}
		if n := <-copied; n != 13 {
			t.Errorf("%d bytes were copied, want 13", n)
		}
		close(session.ending)
		if err := <-read; err != nil {
			t.Errorf("copying the other way ends with %v", err)
		}
	})
}

func TestTend_PingsAreAnsweredAndSignsOfLifeGiven(t *testing.T) {
	client, server := webSockets(t)
	heard := make(chan string, 100)
	ours := Tending{Heartbeat: 20 * time.Millisecond, Heard: func(carried string) { heard <- carried }}
	theirs := Tending{Pong: func() string { return "3" }}
	Tend(t.Context(), client, ours)
	Tend(t.Context(), server, theirs)
	for _, side := range []*websocket.Conn{client, server} {
		go func() {
			for {
				if _, _, err := side.NextReader(); err != nil {
					return
				}
			}
		}()
	}
	for range 3 {
		select {
		case carried := <-heard:
			if diff := cmp.Diff("3", carried); diff != "" {
				t.Errorf("pong content (-want +got):\n%s", diff)
			}
		case <-time.After(patience):
			t.Fatal("no pong arrives")
		}
	}
}

func TestTend_BoundsMessages(t *testing.T) {
	client, server := webSockets(t)
	Tend(t.Context(), server, Tending{})
	over := make(chan error, 1)
	go func() {
		_, reader, err := server.NextReader()
		if err == nil {
			_, err = io.Copy(io.Discard, reader)
		}
		over <- err
	}()
	go func() { _ = client.WriteMessage(2, []byte(strings.Repeat("x", MaxMessage+1))) }()
	select {
	case err := <-over:
		if err == nil || !strings.Contains(err.Error(), "read limit") {
			t.Errorf("a message above the limit ends with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the reader waits for a message above the limit")
	}
}
