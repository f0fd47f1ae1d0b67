package tunnel

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// open opens a session with the headers of Drover's agent.
func (d *drover) open(tb testing.TB) *websocket.Conn {
	tb.Helper()
	dialer := &websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	ws, response, err := dialer.Dial("wss"+strings.TrimPrefix(d.web.URL, "https")+wire.PathConnect, http.Header{
		wire.HeaderToken: {registrationToken}, wire.HeaderHeartbeat: {heartbeat.String()},
	})
	if err != nil {
		tb.Fatal(err)
	}
	response.Body.Close()
	tb.Cleanup(func() { _ = ws.Close() })
	return ws
}

// waiting is the number of sessions that are not used yet.
func (d *drover) waiting() int {
	d.table.mu.Lock()
	defer d.table.mu.Unlock()
	return len(d.table.waiting[clusterID])
}

func (d *drover) poll(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
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

// Sessions that an agent opens while it searches for another replica, and does not keep, are never used.
func TestSessions_AreUsedAfterTheFirstPing(t *testing.T) {
	d, _, transport := connected(t)
	kept := d.table.best(clusterID)
	ws := d.open(t)
	d.poll(t, "the second session has started", func() bool { return d.waiting() == 1 })
	if d.table.best(clusterID) != kept {
		t.Error("requests go through a session that the agent may not keep")
	}
	if got := get(t, transport, "/small"); !strings.Contains(got, "one") {
		t.Errorf("answer is %s", got)
	}
	if err := ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	d.poll(t, "the second session is used", func() bool { return d.table.best(clusterID) != kept })
	_ = ws.Close()
	d.poll(t, "the first session is used again", func() bool { return d.table.best(clusterID) == kept })
}

func TestSessions_AbandonedSessionIsNoConnection(t *testing.T) {
	d := newDrover(t, func(o *Options) { o.MaxSessions = 2 })
	for range 4 {
		d.open(t)
	}
	d.poll(t, "the maximum number of sessions waits", func() bool { return d.waiting() == 2 && d.number.Load() == 4 })
	if d.Connected(clusterID) || len(d.Clusters()) > 0 {
		t.Error("connected by sessions without a ping")
	}
	d.Drain()
	if got := d.waiting(); got != 0 {
		t.Errorf("%d sessions wait after Drain", got)
	}
}

// When its connection is closed, the session ends, so that the agent never closes the connection while it writes to it.
func TestSessions_EndWithTheirConnection(t *testing.T) {
	d, _, transport := connected(t)
	get(t, transport, "/small")
	first := d.table.best(clusterID)
	conn := upgrade(t, transport, "SPDY/3.1")
	defer conn.Close()
	first.mu.Lock()
	shared := first.streams[1]
	first.mu.Unlock()
	if err := shared.Close(); err != nil {
		t.Fatal(err)
	}
	if !first.ended() {
		t.Error("the session continues without its connection")
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a stream of the ended session is readable")
	}
	d.await(t, "another session", func() bool { best := d.table.best(clusterID); return best != nil && best != first })
	if got := get(t, transport, "/small"); !strings.Contains(got, "one") {
		t.Errorf("afterwards the answer is %s", got)
	}
}
