package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
)

const patience = 60 * time.Second

// webSockets returns the two ends of a WebSocket.
func webSockets(tb testing.TB) (client, server *websocket.Conn) {
	tb.Helper()
	taken := make(chan *websocket.Conn, 1)
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{}).Upgrade(rw, r, nil)
		if err != nil {
			tb.Error(err)
		}
		taken <- ws
	}))
	tb.Cleanup(web.Close)
	client, response, err := (&websocket.Dialer{}).DialContext(tb.Context(), "ws"+strings.TrimPrefix(web.URL, "http"),
		nil)
	if err != nil {
		tb.Fatal(err)
	}
	response.Body.Close()
	server = <-taken
	tb.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return client, server
}

// through returns both ends of a connection through sessions as the tunnel uses them: the dialed end, and the answering
// end.
func through(tb testing.TB) (dialed, answering net.Conn) {
	tb.Helper()
	ours, theirs := webSockets(tb)
	accepted := make(chan net.Conn, 1)
	agent := remotedialer.NewClientSessionWithDialer(func(string, string) bool { return true }, ours,
		func(context.Context, string, string) (net.Conn, error) {
			inner, outer := Pipe()
			accepted <- outer
			return inner, nil
		})
	server := remotedialer.NewClientSession(nil, theirs)
	silent, cancel := context.WithCancel(tb.Context())
	cancel()
	for _, session := range []*remotedialer.Session{agent, server} {
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = session.Serve(silent)
		}()
		tb.Cleanup(func() {
			_ = ours.Close()
			_ = theirs.Close()
			<-over
		})
	}
	dialed, err := server.Dial(context.Background(), AgentNetwork, AgentAddress)
	if err != nil {
		tb.Fatal(err)
	}
	return dialed, <-accepted
}

// paused reads from a connection of a session as Dialed does.
type paused struct {
	net.Conn
	flow Flow
}

func (p *paused) Read(b []byte) (int, error) { return p.flow.Read(p.Conn, b) }

// counted counts the bytes read from a reader.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// When both sides send until one pauses the other, and only then read, both still finish.
func TestFlow_BothSidesSendMoreThanIsBuffered(t *testing.T) {
	const size = 12 << 20
	dialed, answering := through(t)
	sides := []io.ReadWriter{&paused{Conn: dialed}, answering}
	payload := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(payload)
	want := sha256.Sum256(payload)

	var sent [2]atomic.Int64
	done := make(chan error, 4)
	for i, side := range sides {
		go func() {
			_, err := io.CopyBuffer(struct {
				io.Writer
			}{side}, counted{bytes.NewReader(payload), &sent[i]}, make([]byte, 32<<10))
			done <- err
		}()
	}
	// A side that pauses the other may be paused itself, so one side may have sent less.
	poll(t, "more bytes were sent than the pause limit", func() bool {
		return max(sent[0].Load(), sent[1].Load()) > remotedialer.MaxBuffer+2*PipeBuffer
	})
	for _, side := range sides {
		go func() {
			sum := sha256.New()
			_, err := io.CopyN(sum, side, size)
			if err == nil && !bytes.Equal(want[:], sum.Sum(nil)) {
				err = errors.New("the received bytes differ")
			}
			done <- err
		}()
	}
	timeout := time.After(patience)
	for range cap(done) {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-timeout:
			t.Fatalf("not done within %s; sent are %d and %d of %d bytes", patience, sent[0].Load(), sent[1].Load(),
				size)
		}
	}
	answering.Close()
	if n, err := dialed.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end %d bytes are read, and error %v", n, err)
	}
}

// poll waits for a condition that has no notification.
func poll(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(patience)
	for !condition() {
		select {
		case <-ticker.C:
		case <-timeout:
			tb.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// pausing returns as many bytes as are available, and then waits.
type pausing struct {
	available         chan int
	resumed, onResume atomic.Int64
}

func (p *pausing) Read(b []byte) (int, error) {
	n, more := <-p.available
	if !more {
		return 0, io.EOF
	}
	return min(n, len(b)), nil
}

func (p *pausing) Resume()   { p.resumed.Add(1) }
func (p *pausing) OnResume() { p.onResume.Add(1) }

func TestFlow_Resume(t *testing.T) {
	const part = 64 << 10
	parts := func(n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = part
		}
		return out
	}
	for name, test := range map[string]struct {
		come []int
		wait time.Duration // before the last part
		want int64
	}{
		"few bytes arrived":                             {append(parts(resumeEvery/part-1), 5), time.Second, 0},
		"many bytes arrived, and all are read":          {append(parts(resumeEvery/part), 5), 0, 1},
		"many bytes arrived, and more wait":             {parts(resumeEvery/part + 5), 0, 0},
		"many bytes arrived, and then none for a while": {parts(resumeEvery/part + 1), resumeAfter + 1, 1},
		"many bytes arrived, and then more soon":        {parts(resumeEvery/part + 1), resumeAfter - 1, 0},
		"the count restarts afterwards": {append(append(parts(resumeEvery/part), 5),
			append(parts(2), 5)...), time.Second, 1},
		"the next resume is due": {append(append(parts(resumeEvery/part), 5), append(parts(resumeEvery/part), 5)...), 0,
			2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := &pausing{available: make(chan int)}
				go func() {
					for i, n := range test.come {
						if i == len(test.come)-1 && test.wait > 0 {
							<-time.After(test.wait)
						}
						from.available <- n
					}
					close(from.available)
				}()
				var flow Flow
				buffer := make([]byte, part)
				for _, want := range test.come {
					if n, err := flow.Read(from, buffer); n != want || err != nil {
						t.Fatalf("read %d bytes and error %v, want %d", n, err, want)
					}
				}
				got := []int64{from.resumed.Load(), from.onResume.Load()}
				if diff := cmp.Diff([]int64{test.want, test.want}, got); diff != "" {
					t.Errorf("resumes sent and received (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The other side may have paused this side, and not see later that it may send itself. It says nothing then.
func TestFlow_ResumesAfterManyBytesWereWritten(t *testing.T) {
	for name, test := range map[string]struct {
		writes []int
		end    bool
		want   int64
	}{
		"few bytes":                  {[]int{resumeEvery - 1}, false, 0},
		"many bytes":                 {[]int{resumeEvery / 2, resumeEvery / 2}, false, resumesAfterWrites},
		"many bytes, and few later":  {[]int{resumeEvery, 5}, false, resumesAfterWrites},
		"many bytes, and many later": {[]int{resumeEvery, resumeEvery}, false, 2 * resumesAfterWrites},
		"the connection has ended":   {[]int{resumeEvery}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := struct {
					io.Writer
					*pausing
				}{io.Discard, &pausing{}}
				var flow Flow
				for _, n := range test.writes {
					flow.Wrote(to, n)
					if test.end {
						flow.End()
					}
					<-time.After(time.Hour)
				}
				got := []int64{to.resumed.Load(), to.onResume.Load()}
				if diff := cmp.Diff([]int64{test.want, test.want}, got); diff != "" {
					t.Errorf("resumes sent and received (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestFlow_ReadsFromOtherReadersUnchanged(t *testing.T) {
	sent := strings.Repeat("0123456789abcdef", resumeEvery/4)
	var flow Flow
	from := strings.NewReader(sent)
	got, err := io.ReadAll(readerFunc(func(p []byte) (int, error) { return flow.Read(from, p) }))
	if err != nil || string(got) != sent {
		t.Errorf("read %d bytes and error %v, want %d", len(got), err, len(sent))
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
