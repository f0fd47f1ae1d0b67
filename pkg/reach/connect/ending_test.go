package connect

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// streamEvents makes the API server answer watches with one event and keep them open.
func (w *world) streamEvents() {
	api := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "first event\n")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}))
	w.t.Cleanup(api.Close)
	w.options.Upstream.Host, w.options.Upstream.CAData = api.URL, pemOf(api)
}

// openWatch opens a watch as the machine and returns its stream after the first event.
func (w *world) openWatch(server *httptest.Server, client *http.Client) io.Reader {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, server.URL+ownSecrets+"?"+ownFilter+
		"&watch=true", http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+planJWT)
	response, err := client.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { response.Body.Close() })
	events := bufio.NewReader(response.Body)
	if line, err := events.ReadString('\n'); err != nil || line != "first event\n" {
		w.t.Fatalf("event %q, error %v", line, err)
	}
	return events
}

// A replica that shuts down ends agents' watches as the API server does after their timeout, without cutting
// connections.
func TestPassthrough_WatchesEndWithTheReplica(t *testing.T) {
	w := newWorld(t)
	w.streamEvents()
	ending := make(chan struct{})
	w.options.Ending = ending
	events := w.openWatch(w.serve())
	close(ending)
	if rest, err := io.ReadAll(events); err != nil || len(rest) > 0 {
		t.Errorf("the watch ended with %v after %q", err, rest)
	}
}

// Every machine has a watch, so its buffer is small. Complete answers use the standard library's.
func TestPassthrough_WatchesHoldSmallBuffers(t *testing.T) {
	for name, tc := range map[string]struct {
		query string
		small bool
	}{"watch": {"&watch=true", true}, "list": {"", false}} {
		w := newWorld(t)
		handler, err := New(w.options)
		if err != nil {
			t.Fatal(err)
		}
		p := handler.(*server).api.(*passthrough)
		largest := 0
		answer := roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: measured{&largest}, Request: r}, nil
		})
		p.proxy.Transport, p.watches.Transport = answer, answer
		request := httptest.NewRequest(http.MethodGet, ownSecrets+"?"+ownFilter+tc.query, http.NoBody)
		request.Header.Set("Authorization", "Bearer "+planJWT)
		handler.ServeHTTP(httptest.NewRecorder(), request)
		if largest == 0 || (largest <= 4<<10) != tc.small {
			t.Errorf("%s: its buffer has %d bytes, want a small buffer: %t", name, largest, tc.small)
		}
	}
}

// measured is an empty body that notes the largest buffer of its reader.
type measured struct{ largest *int }

func (m measured) Read(p []byte) (int, error) {
	*m.largest = max(*m.largest, len(p))
	return 0, io.EOF
}

func (measured) Close() error { return nil }

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The watch of a revoked token ends in the same way.
func TestPassthrough_WatchEndsAfterItsTokenIsRevoked(t *testing.T) {
	w := newWorld(t)
	w.streamEvents()
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	handler.(*server).api.(*passthrough).recheck = time.Millisecond
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	events := w.openWatch(server, server.Client())
	change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) { a.UID = "new" })
	if rest, err := io.ReadAll(events); err != nil || len(rest) > 0 {
		t.Errorf("the watch ended with %v after %q", err, rest)
	}
}

func TestPassthrough_OldestWatchEndsBeyondTheLimit(t *testing.T) {
	w := newWorld(t)
	w.streamEvents()
	server, client := w.serve()
	first := w.openWatch(server, client)
	for range maxWatches {
		w.openWatch(server, client)
	}
	if rest, err := io.ReadAll(first); err != nil || len(rest) > 0 {
		t.Errorf("the watch ended with %v after %q", err, rest)
	}
}

// A machine that waits for its connection gets an answer that makes it retry.
func TestConnectAgent_IsAnsweredDuringShutdown(t *testing.T) {
	w := newWorld(t)
	w.expectIntroduction()
	change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) {
		a.OwnerReferences[0].UID = "bootstrap of a former machine"
	})
	ending := make(chan struct{})
	w.options.Ending, w.options.Wait = ending, time.Hour
	server, client := w.serve()
	time.AfterFunc(100*time.Millisecond, func() { close(ending) })
	got, body := ask(t, server, client, http.MethodGet, agentPath, hello())
	if got.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "shutting down") ||
		got.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, %q", got.StatusCode, body)
	}
}

// The request waits until the cache shows a controller's recent write to the machine, so the machine need not retry.
func TestConnectAgent_WaitsForTheControllers(t *testing.T) {
	w := newWorld(t)
	w.options.Wait = time.Minute
	w.machineClient.EXPECT().Patch("ns", "m", types.MergePatchType, gomock.Any()).DoAndReturn(
		func(string, string, types.PatchType, []byte, ...string) (*clusterv1.Machine, error) {
			time.AfterFunc(150*time.Millisecond, func() {
				changed := &clusterv1.Machine{ObjectMeta: meta("m", "machine-uid")}
				changed.ResourceVersion = "8"
				_ = w.machines.Update(changed)
			})
			return nil, apierrors.NewConflict(schema.GroupResource{}, "m", nil)
		})
	w.machineClient.EXPECT().Patch("ns", "m", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"rke.cattle.io/machine-id":"`+someID+`"},"resourceVersion":"8"}}`)).Return(
		&clusterv1.Machine{}, nil)
	w.expectUse()
	server, client := w.serve()
	if got, body := ask(t, server, client, http.MethodGet, agentPath, hello()); got.StatusCode != http.StatusOK {
		t.Errorf("status %d, %q", got.StatusCode, body)
	}
}

// closings counts how often a stream is closed.
type closings struct {
	io.Reader
	n int
}

func (c *closings) Close() error {
	c.n++
	return nil
}

func TestEndWith_ClosesTheStreamOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending, counted := make(chan struct{}), &closings{}
		stream := endWith(ending, counted)
		close(ending)
		synctest.Wait()
		_, _ = stream.Close(), stream.Close()
		if counted.n != 1 {
			t.Errorf("closed %d times, want once", counted.n)
		}
	})
}
