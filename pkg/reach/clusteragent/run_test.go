package clusteragent

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

func TestRun_AnswersRequestsOfTheServer(t *testing.T) {
	d, api := newDrover(t, "a"), newAPIServer(t)
	start(t, options(t, d.URL+"/a/path/that/means/nothing", d.authorities, api))
	code, body := ask(t, d.await(t).client(t), "http://cluster/small")
	if code != http.StatusOK || body != "small" {
		t.Errorf("answer is %d %q", code, body)
	}
	got := d.requests(wire.PathRegister)[0].Header
	want := map[string]string{wire.HeaderToken: registration, wire.HeaderHeartbeat: heartbeat.String(),
		"User-Agent": "drover-cluster-agent/v0.0.0-test"}
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("header %s is %q, want %q", name, got.Get(name), value)
		}
	}
	for name, values := range got {
		if strings.Contains(strings.Join(values, " "), account) {
			t.Errorf("the credential of the service account leaves the cluster in header %s", name)
		}
	}
}

// A session and its connections end at the same time, from both sides.
func TestRun_SessionsEndWhileRequestsAreAnswered(t *testing.T) {
	d, api := newDrover(t, "a"), newAPIServer(t)
	for range 15 {
		stop := start(t, options(t, d.URL, d.authorities, api))
		o := d.await(t)
		client := o.client(t)
		for range 3 {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://cluster/watch", nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set(impersonateUser, "jane")
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
		}
		stop()
		<-o.over
	}
}

func TestRun_KeepsASessionToEveryReplica(t *testing.T) {
	d := newDrover(t, "a", "b", "c")
	api := newAPIServer(t)
	start(t, options(t, d.URL, d.authorities, api))
	are := func(want ...string) func() bool {
		return func() bool { return cmp.Equal(want, d.open()) }
	}
	poll(t, "a session to each of three", are("a", "b", "c"))
	// The first replica that answers is a duplicate, and the second is the new one.
	d.change(func() { d.replicas, d.turn = append(d.replicas, "d"), 1 })
	poll(t, "a session to the fourth, which a ping announces", are("a", "b", "c", "d"))
	before := 0
	d.change(func() {
		d.turn, before = 0, len(d.sessions)
		for _, each := range d.sessions {
			if each.replica == "b" {
				_ = each.ws.Close()
			}
		}
	})
	poll(t, "the lost session is replaced", func() bool {
		d.mu.Lock()
		more := len(d.sessions) > before
		d.mu.Unlock()
		return more && are("a", "b", "c", "d")()
	})
	if got := len(d.requests(wire.PathRegister)); got != 1 {
		t.Errorf("registered %d times, want once", got)
	}
}

func TestRun_TokenIsRereadAfterARefusal(t *testing.T) {
	d, api := newDrover(t, "a"), newAPIServer(t)
	o := options(t, d.URL, d.authorities, api)
	var written *log
	o.Log, written = newLog(t)
	const second = "second-token-of-the-cluster"
	d.refuse = func(r *http.Request) (int, string) {
		if r.Header.Get(wire.HeaderToken) != second {
			return http.StatusBadRequest, "cluster not found"
		}
		return 0, ""
	}
	start(t, o)
	poll(t, "refused", func() bool { return strings.Contains(written.String(), "cluster not found") })
	writeFile(t, o.TokenFile, second)
	d.await(t)
	if got := len(d.requests(wire.PathConnect)); got != 0 {
		t.Errorf("connected %d times as a registered agent, want never", got)
	}
	for _, want := range []string{fingerprint(registration), "400 Bad Request", "again-in"} {
		if !strings.Contains(written.String(), want) {
			t.Errorf("the log does not contain %q", want)
		}
	}
}

func TestRun_ReportsWhyThereIsNoSession(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*drover, *Options)
		want   []string
	}{
		"the server refuses": {
			func(d *drover, _ *Options) {
				d.refuse = func(*http.Request) (int, string) { return http.StatusUnauthorized, "failed authentication" }
			}, []string{"401 Unauthorized", "failed authentication"},
		},
		"the server drains": {
			func(d *drover, _ *Options) {
				d.refuse = func(*http.Request) (int, string) {
					return http.StatusServiceUnavailable, "the replica is ending"
				}
			}, []string{"503 Service Unavailable", "the replica is ending"},
		},
		"the page of a proxy is truncated": {
			func(d *drover, _ *Options) {
				d.refuse = func(*http.Request) (int, string) {
					return http.StatusBadGateway, strings.Repeat("x", 256) + "THE REST"
				}
			}, []string{"502 Bad Gateway", "xxx"},
		},
		"an answer cannot forge a line of the log": {
			func(d *drover, _ *Options) {
				d.refuse = func(*http.Request) (int, string) {
					return http.StatusBadRequest, "no\nlevel=error msg=forged"
				}
			}, []string{`no\\nlevel=error`},
		},
		"not Drover": {
			func(d *drover, _ *Options) { d.replicas = []string{""} }, []string{"no header " + wire.HeaderReplica},
		},
		"no answer": {
			func(_ *drover, o *Options) { o.ServerURL = "https://127.0.0.1:1" }, []string{"connection refused"},
		},
		"no token": {
			func(_ *drover, o *Options) { o.TokenFile = filepath.Join(t.TempDir(), "none") }, []string{
				"registration token", "no such file"},
		},
		"no authorities": {
			func(_ *drover, o *Options) { o.CAFile = filepath.Join(t.TempDir(), "none") }, []string{
				"authorities of the server", "no such file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, api := newDrover(t, "a"), newAPIServer(t)
			o := options(t, d.URL, d.authorities, api)
			test.change(d, &o)
			var written *log
			o.Log, written = newLog(t)
			start(t, o)
			poll(t, "tried twice", func() bool { return strings.Count(written.String(), "Cannot connect") >= 2 })
			for _, want := range test.want {
				if !strings.Contains(written.String(), want) {
					t.Errorf("the log does not contain %q:\n%s", want, written)
				}
			}
			if strings.Contains(written.String(), "THE REST") {
				t.Error("the log contains more of the answer than the limit")
			}
		})
	}
}

func TestRun_RefusesOtherAddresses(t *testing.T) {
	d, api := newDrover(t, "a"), newAPIServer(t)
	start(t, options(t, d.URL, d.authorities, api))
	o := d.await(t)
	for name, address := range map[string][2]string{
		"the API server itself":     {"tcp", strings.TrimPrefix(api.URL, "https://")},
		"another port of the agent": {"tcp", wire.AgentHost + ":22"},
		"another protocol":          {"udp", wire.AgentAddress},
		"a socket of the machine":   {"unix", "/var/run/docker.sock"},
		"an address with a suffix":  {"tcp", wire.AgentAddress + "/x"},
	} {
		t.Run(name, func(t *testing.T) {
			// Repeat it, because a refused connection ends on both sides at once.
			for range 20 {
				conn, err := o.session.Dial(t.Context(), address[0], address[1])
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Read(make([]byte, 1)); err == nil ||
					!strings.Contains(err.Error(), "may not be dialed") {
					t.Fatalf("reading fails with %v, want a refused address", err)
				}
			}
		})
	}
	if code, _ := ask(t, o.client(t), "http://cluster/small"); code != http.StatusOK {
		t.Errorf("afterwards the answer is %d: the session must continue", code)
	}
}

func TestRun_HealthFollowsTheSessions(t *testing.T) {
	d, api := newDrover(t, "a"), newAPIServer(t)
	o := options(t, d.URL, d.authorities, api)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.HealthAddress = listener.Addr().String()
	listener.Close()
	refused := true
	d.refuse = func(*http.Request) (int, string) {
		if refused {
			return http.StatusServiceUnavailable, "not yet"
		}
		return 0, ""
	}
	stop := start(t, o)
	answers := func(path string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+o.HealthAddress+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	defer http.DefaultClient.CloseIdleConnections()
	poll(t, "alive", func() bool { return answers("/healthz") == http.StatusOK })
	if got := answers("/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("without a session /readyz answers %d, want 503", got)
	}
	d.change(func() { refused = false })
	o1 := d.await(t)
	poll(t, "ready", func() bool { return answers("/readyz") == http.StatusOK })
	d.change(func() { refused = true })
	_ = o1.ws.Close()
	poll(t, "no longer ready", func() bool { return answers("/readyz") == http.StatusServiceUnavailable })
	if got := answers("/healthz"); got != http.StatusOK {
		t.Errorf("without a session /healthz answers %d, want 200", got)
	}
	if got := answers("/metrics"); got != http.StatusNotFound {
		t.Errorf("another path answers %d, want 404", got)
	}
	stop()
	if got := answers("/healthz"); got != 0 {
		t.Errorf("after the end /healthz answers %d", got)
	}
}

func TestRun_FailsWhenItCannotStart(t *testing.T) {
	d, api := newDrover(t, "a"), newAPIServer(t)
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"a wrong option":                   {func(o *Options) { o.ServerURL = "http://x" }, "ServerURL"},
		"no authorities of the API server": {func(o *Options) { o.APIServerCAFile += "-none" }, "APIServerCAFile"},
		"invalid authorities": {func(o *Options) { o.APIServerCAFile = o.TokenFile },
			"must be PEM with at least one certificate"},
		"an unavailable health address": {func(o *Options) { o.HealthAddress = "192.0.2.1:8080" },
			"serve health at 192.0.2.1:8080"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, d.URL, d.authorities, api)
			test.change(&o)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := Run(ctx, o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want it to contain %q", err, test.want)
			}
		})
	}
}

// ours are the stacks of goroutines that run code of the agent or of the session.
func ours() []string {
	buffer := make([]byte, 4<<20)
	var out []string
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		for _, part := range []string{"clusteragent.(*", "clusteragent.Run", "clusteragent.serveHealth", "wire.(*",
			"wire.Tending", "remotedialer."} {
			if strings.Contains(stack, part) && !strings.Contains(stack, "_test.go") {
				out = append(out, stack)
				break
			}
		}
	}
	return out
}

func TestRun_LeavesNoGoroutine(t *testing.T) {
	d, api := newDrover(t, "a", "b"), newAPIServer(t)
	o := options(t, d.URL, d.authorities, api)
	o.HealthAddress = "127.0.0.1:0"
	poll(t, "goroutines of other tests have ended", func() bool { return len(ours()) == 0 })
	stop := start(t, o)
	sessions := []*opening{d.await(t), d.await(t)}
	if code, _ := ask(t, sessions[1].client(t), "http://cluster/small"); code != http.StatusOK {
		t.Errorf("answer is %d", code)
	}
	exec := upgraded(t, sessions[0].client(t).Transport, "http://cluster/exec", "SPDY/3.1")
	if _, err := exec.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if len(ours()) == 0 {
		t.Fatal("no goroutine is found while the agent runs: the test is broken")
	}
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
	for _, stack := range ours() {
		if strings.Contains(stack, "clusteragent.(*agent).serve(") {
			t.Errorf("Run returned while a session is served:\n%s", stack)
		}
	}
	for _, each := range sessions {
		<-each.over
	}
	select {
	case <-api.gaveUp:
	case <-time.After(patience):
		t.Error("the API server does not notice the end of the connection")
	}
	exec.Close()
	poll(t, "no goroutine remains", func() bool { return len(ours()) == 0 })
	poll(t, "no connection to the API server remains", func() bool { return api.connections.Load() == 0 })
}
