package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/reach/clusteragent"
)

func TestTransport_RequestReachesTheAPIServerAsTheAgent(t *testing.T) {
	_, api, transport := connected(t)
	request := newRequest(t, http.MethodGet, "/small?labelSelector=a%3Db;c", nil)
	for name, value := range map[string]string{
		"Authorization": "Bearer of-the-caller", "Impersonate-Group": "devs", "Impersonate-Extra-Scopes": "view",
		"X-Remote-User":   "root",
		"X-Forwarded-For": "192.0.2.1", "Cookie": "session=secret", "Accept": "application/json",
	} {
		request.Header.Set(name, value)
	}
	before := request.Header.Clone()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if want := `{"kind":"Status","by":"one","query":"labelSelector=a%3Db;c"}`; string(body) != want {
		t.Errorf("answer is %s, want %s", body, want)
	}
	seen, _ := api.requests.Load("/small")
	got := seen.(http.Header)
	got.Del("Accept-Encoding")
	got.Del("User-Agent")
	want := http.Header{
		"Authorization": {"Bearer " + agentCredential}, "Impersonate-User": {"jane"}, "Impersonate-Group": {"devs"},
		"Impersonate-Extra-Scopes": {"view"}, "Accept": {"application/json"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers at the API server (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, request.Header); diff != "" {
		t.Errorf("the caller's request was changed:\n%s", diff)
	}
}

func TestTransport_WatchArrivesLineByLine(t *testing.T) {
	_, api, transport := connected(t)
	response, err := transport.RoundTrip(newRequest(t, http.MethodGet, "/watch", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	for i := range 20 {
		if got, want := readLine(t, reader), fmt.Sprintf(`{"type":"ADDED","object":{"i":%d}}`, i); got != want {
			t.Fatalf("line is %s, want %s", got, want)
		}
		api.goOn <- struct{}{}
	}
}

func TestTransport_BigBodiesArriveUnchanged(t *testing.T) {
	_, _, transport := connected(t)
	const size = 20 << 20
	response, err := transport.RoundTrip(newRequest(t, http.MethodGet, fmt.Sprintf("/big?size=%d", size), nil))
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if n != size || err != nil {
		t.Errorf("got %d bytes and error %v, want %d", n, err, size)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	response, err = transport.RoundTrip(newRequest(t, http.MethodPost, "/upload", bytes.NewReader(sent)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	sum := sha256.Sum256(sent)
	if got, want := readLine(t, bufio.NewReader(response.Body)),
		fmt.Sprint(size, " ", hex.EncodeToString(sum[:]), " <nil>"); got != want {
		t.Errorf("the API server got %s, want %s", got, want)
	}
}

func TestTransport_UpgradedConnectionsEchoBothWays(t *testing.T) {
	_, api, transport := connected(t)
	for _, protocol := range []string{"websocket", "SPDY/3.1"} {
		t.Run(protocol, func(t *testing.T) {
			conn := upgrade(t, transport, protocol)
			reader := bufio.NewReader(conn)
			for i := range 50 {
				line := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", i*1000))
				if _, err := io.WriteString(conn, line); err != nil {
					t.Fatal(err)
				}
				if got := readLine(t, reader); got != strings.TrimSpace(line) {
					t.Fatalf("line %d came back as %.20q…", i, got)
				}
			}
			conn.Close()
			select {
			case <-api.gaveUp:
			case <-time.After(patience):
				t.Error("the API server does not notice the closed connection")
			}
		})
	}
}

func upgrade(tb testing.TB, transport http.RoundTripper, protocol string) io.ReadWriteCloser {
	tb.Helper()
	request := newRequest(tb, http.MethodPost, "/exec", nil)
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", protocol)
	response, err := transport.RoundTrip(request) //nolint:bodyclose // it is what is returned
	if err != nil {
		tb.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != protocol {
		tb.Fatalf("answer is %s with %v", response.Status, response.Header)
	}
	conn, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		tb.Fatalf("body is %T, which cannot be written", response.Body)
	}
	return conn
}

func TestTransport_CancelledRequestEndsAtTheAPIServer(t *testing.T) {
	_, api, transport := connected(t)
	ctx, cancel := context.WithCancel(t.Context())
	response, err := transport.RoundTrip(newRequest(t, http.MethodGet, "/idle", nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	cancel()
	select {
	case <-api.gaveUp:
	case <-time.After(patience):
		t.Error("the API server does not notice the cancelled request")
	}
	if _, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("the next read fails with %v, want %v", err, context.Canceled)
	}
	if got := get(t, transport, "/small"); !strings.Contains(got, "one") {
		t.Errorf("the next request is answered with %s", got)
	}
}

func TestTransport_ManyRequestsShareOneConnection(t *testing.T) {
	d, _, transport := connected(t)
	for range 100 {
		response, err := transport.RoundTrip(newRequest(t, http.MethodGet, "/idle", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
	}
	s := d.table.best(clusterID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) != 1 {
		t.Errorf("%d connections carry 100 requests, want 1", len(s.streams))
	}
}

func TestTransport_WithoutSessionFailsAtOnce(t *testing.T) {
	d := newDrover(t, nil)
	if _, err := d.Transport(clusterID); !errors.Is(err, ErrNotConnected) {
		t.Errorf("error is %v, want %v", err, ErrNotConnected)
	}
	if d.Connected(clusterID) {
		t.Error("connected without a session")
	}
}

func TestTransport_RequestsNeverUseTheAgentsIdentity(t *testing.T) {
	d, api, transport := connected(t)
	request := newRequest(t, http.MethodGet, "/small", nil)
	request.Header.Del("Impersonate-User")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("answered with %s, want 403", response.Status)
	}
	// The agent checks this itself.
	response, err = d.table.best(clusterID).http.roundTrip(request, false)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("the agent answers with %s, want 403", response.Status)
	}
	if _, reached := api.requests.Load("/small"); reached {
		t.Error("the request reached the API server")
	}
}

func TestSessions_TheNewestServesAndAnOlderOneReplacesIt(t *testing.T) {
	d := newDrover(t, nil)
	startAgent(t, d, newAPIServer(t, "older"), nil)
	d.awaitConnected(t)
	stop := startAgent(t, d, newAPIServer(t, "newer"), nil)
	d.await(t, "two sessions", func() bool { return len(d.table.all()) == 2 })
	transport := d.transport(t)
	// A registered session serves a moment later.
	d.await(t, "the newer session serves", func() bool {
		return strings.Contains(get(t, transport, "/small"), "newer")
	})
	stop()
	if got := get(t, transport, "/small"); !strings.Contains(got, "older") {
		t.Errorf("after the end of the newer the answer is %s, want the answer of the older", got)
	}
}

func TestSessions_BrokenLinkIsDetectedAndReplaced(t *testing.T) {
	d, api := newDrover(t, nil), newAPIServer(t, "one")
	r := newRelay(t, func() string { return d.web.Listener.Addr().String() })
	startAgent(t, d, api, func(o *clusteragent.Options) { o.ServerURL = r.url() })
	d.awaitConnected(t)
	transport := d.transport(t)
	response, err := transport.RoundTrip(newRequest(t, http.MethodGet, "/idle", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	r.setCut(true)
	begun := time.Now()
	d.await(t, "not connected", func() bool { return !d.Connected(clusterID) })
	if took := time.Since(begun); took > 10*heartbeat {
		t.Errorf("the detection took %s, want at most 2.5 heartbeats of %s", took, heartbeat)
	}
	if _, err := io.ReadAll(response.Body); !errors.Is(err, ErrSessionEnded) || !errors.Is(err, ErrNotConnected) {
		t.Errorf("reads then fail with %v, want %v", err, ErrSessionEnded)
	}
	//nolint:bodyclose // there is none
	if _, err := transport.RoundTrip(newRequest(t, http.MethodGet, "/small", nil)); !errors.Is(err, ErrNotConnected) {
		t.Errorf("the next request fails with %v, want %v", err, ErrNotConnected)
	}
	r.setCut(false)
	d.awaitConnected(t)
	if got := get(t, transport, "/small"); !strings.Contains(got, "one") {
		t.Errorf("afterwards the answer is %s", got)
	}
}

func TestSessions_EndOfTheAgentEndsWaitingRequests(t *testing.T) {
	d, api := newDrover(t, nil), newAPIServer(t, "one")
	stop := startAgent(t, d, api, nil)
	d.awaitConnected(t)
	conn := upgrade(t, d.transport(t), "websocket")
	defer conn.Close()
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		failed <- err
	}()
	stop()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("reading succeeds")
		}
	case <-time.After(patience):
		t.Error("reading must end")
	}
}

func TestDrain_EndsSessionsAndRefusesNewOnes(t *testing.T) {
	d, api := newDrover(t, nil), newAPIServer(t, "one")
	startAgent(t, d, api, nil)
	d.awaitConnected(t)
	d.Drain()
	if d.Connected(clusterID) || len(d.Clusters()) != 0 {
		t.Error("connected after Drain")
	}
	response, err := d.web.Client().Get(d.web.URL + Paths()[0])
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("an unknown agent gets %s, want 401", response.Status)
	}
	request, err := http.NewRequest(http.MethodGet, d.web.URL+Paths()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-API-Tunnel-Token", registrationToken)
	request.Header.Set("X-Drover-Heartbeat", "1s")
	response, err = d.web.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("an agent gets %s with %v, want 503 with Retry-After", response.Status, response.Header)
	}
}
