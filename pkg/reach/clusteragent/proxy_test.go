package clusteragent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// answering is the agent's handler without a tunnel: its address, and transports that send requests as the server does.
func answering(tb testing.TB, o Options) (address string, transports map[string]*http.Transport) {
	tb.Helper()
	if err := o.complete(); err != nil {
		tb.Fatal(err)
	}
	p, err := newProxy(o)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := p.server()
	go func() { _ = server.Serve(listener) }()
	one, two := new(http.Protocols), new(http.Protocols)
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true)
	transports = map[string]*http.Transport{
		"HTTP/1.1": {Protocols: one, DisableCompression: true}, "HTTP/2": {Protocols: two, DisableCompression: true},
	}
	tb.Cleanup(func() {
		for _, each := range transports {
			each.CloseIdleConnections()
		}
		_ = server.Close()
		p.close()
	})
	return "http://" + listener.Addr().String(), transports
}

func newRequest(tb testing.TB, method, address string, header http.Header) *http.Request {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), method, address, nil)
	if err != nil {
		tb.Fatal(err)
	}
	request.Header = http.Header{impersonateUser: {"jane"}}
	maps.Copy(request.Header, header)
	return request
}

// upgraded switches protocols.
func upgraded(tb testing.TB, transport http.RoundTripper, address, protocol string) io.ReadWriteCloser {
	tb.Helper()
	request := newRequest(tb, http.MethodPost, address, http.Header{"Connection": {"Upgrade"}, "Upgrade": {protocol}})
	response, err := transport.RoundTrip(request) //nolint:bodyclose // it is what is returned
	if err != nil {
		tb.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != protocol {
		tb.Fatalf("answer is %s with %v", response.Status, response.Header)
	}
	return response.Body.(io.ReadWriteCloser)
}

func TestProxy_RequestsGetTheAgentsCredential(t *testing.T) {
	api := newAPIServer(t)
	address, transports := answering(t, options(t, "https://drover.example.com", "", api))
	sent := http.Header{
		// The caller's credentials for the server must not reach the API server.
		"Authorization": {"Bearer token-of-the-caller", "Basic token-of-another"},
		"Cookie":        {"session=token-of-a-browser"}, "Proxy-Authorization": {"Basic x"},
		// An API server trusts these headers from clients with the right certificate.
		"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Extra-Scopes": {"all"},
		"X-Remote-Uid":    {"0"},
		"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"evil.example"},
		"Forwarded":        {"for=192.0.2.1"},
		"X-Drover-Replica": {"a"}, "X-Api-Tunnel-Token": {"token-of-a-tunnel"},
		// Headers of the request itself.
		"Impersonate-Group": {"devs", "ops"}, "Impersonate-Extra-Scopes": {"view"}, "Impersonate-Uid": {"7"},
		"Accept": {"application/json;as=Table"}, "Accept-Encoding": {"gzip"},
		"Content-Type": {"application/apply-patch+yaml"}, "User-Agent": {"kubectl"},
	}
	want := http.Header{
		"Authorization": {"Bearer " + account}, impersonateUser: {"jane"},
		"Impersonate-Group": {"devs", "ops"}, "Impersonate-Extra-Scopes": {"view"}, "Impersonate-Uid": {"7"},
		"Accept": {"application/json;as=Table"}, "Accept-Encoding": {"gzip"},
		"Content-Type": {"application/apply-patch+yaml"}, "User-Agent": {"kubectl"},
	}
	for protocol, transport := range transports {
		t.Run(protocol, func(t *testing.T) {
			request := newRequest(t, http.MethodGet, address+"/small?labelSelector=a%3Db;c&x=%2F", sent)
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			got := api.last(t)
			if diff := cmp.Diff(want, got.Header); diff != "" {
				t.Errorf("headers at the API server (-want +got):\n%s", diff)
			}
			if query := "labelSelector=a%3Db;c&x=%2F"; got.URL.RawQuery != query {
				t.Errorf("query is %q, want %q", got.URL.RawQuery, query)
			}
			if host := strings.TrimPrefix(api.URL, "https://"); got.Host != host {
				t.Errorf("host is %q, want %q", got.Host, host)
			}
			if got.ProtoMajor != 2 {
				t.Errorf("the request uses %s, want HTTP/2", got.Proto)
			}
		})
	}
}

// Headers are dropped in every spelling.
func TestProxy_HeadersAreDroppedInAnySpelling(t *testing.T) {
	api := newAPIServer(t)
	address, _ := answering(t, options(t, "https://drover.example.com", "", api))
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn,
		"GET /small HTTP/1.1\r\nHost: x\r\nimpersonate-user: jane\r\naUTHORIZATION: Bearer "+
			"token-of-the-caller\r\nx-REMOTE-user: root\r\n"+
			"Connection: close, Authorization, Impersonate-Group\r\nimpersonate-GROUP: devs\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	// Connection lists hop-by-hop headers, which the agent drops, except for the impersonation headers.
	want := http.Header{"Authorization": {"Bearer " + account}, impersonateUser: {"jane"},
		"Impersonate-Group": {"devs"}}
	if diff := cmp.Diff(want, api.last(t).Header); diff != "" {
		t.Errorf("headers at the API server (-want +got):\n%s", diff)
	}
}

func TestProxy_RequestsNeverUseTheAgentsIdentity(t *testing.T) {
	for name, header := range map[string]http.Header{
		"no user":                          {impersonateUser: nil},
		"an empty user":                    {impersonateUser: {""}},
		"groups without a user":            {impersonateUser: nil, "Impersonate-Group": {"system:masters"}},
		"an empty user before another":     {impersonateUser: {"", "system:admin"}},
		"an upgrade without a user":        {impersonateUser: nil, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}},
		"a user with the agent's own name": {impersonateUser: nil, "X-Remote-User": {"jane"}},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPIServer(t)
			address, transports := answering(t, options(t, "https://drover.example.com", "", api))
			response, err := transports["HTTP/1.1"].RoundTrip(newRequest(t, http.MethodGet, address+"/small", header))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			var status struct{ Kind, Status, Reason, Message string }
			if err := json.NewDecoder(response.Body).Decode(&status); err != nil ||
				response.StatusCode != http.StatusForbidden {
				t.Fatalf("answer is %s, %v, want 403 with JSON", response.Status, err)
			}
			want := struct {
				Kind, Status, Reason, Message string
			}{"Status", "Failure", "Forbidden", "the request has no user: set header Impersonate-User"}
			if diff := cmp.Diff(want, status); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			api.mu.Lock()
			defer api.mu.Unlock()
			if len(api.seen) > 0 {
				t.Errorf("the request reached the API server with %v", api.seen[0].Header)
			}
		})
	}
}

// Impersonation headers remain even if Connection lists them, because the request would otherwise use the agent's own
// identity.
func TestProxy_ImpersonationHeadersAreNotHopByHop(t *testing.T) {
	api := newAPIServer(t)
	address, transports := answering(t, options(t, "https://drover.example.com", "", api))
	for name, test := range map[string]struct {
		path   string
		header http.Header
	}{
		"the user":               {"/small", http.Header{"Connection": {impersonateUser}}},
		"in another spelling":    {"/small", http.Header{"Connection": {"x, impersonate-USER"}}},
		"in a header of its own": {"/small", http.Header{"Connection": {"x", impersonateUser}}},
		"with all other headers": {"/small",
			http.Header{
				"Connection": {"Impersonate-User, Impersonate-Group, Impersonate-Uid, Impersonate-Extra-Scopes"}}},
		"with an upgrade": {
			"/exec", http.Header{
				"Connection": {
					"Upgrade, Impersonate-User, Impersonate-Group, Impersonate-Uid, Impersonate-Extra-Scopes"},
				"Upgrade": {"websocket"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := http.Header{impersonateUser: {"jane"}, "Impersonate-Group": {"a", "b"}, "Impersonate-Uid": {"7"},
				"Impersonate-Extra-Scopes": {"view"}}
			maps.Copy(test.header, want)
			response, err := transports["HTTP/1.1"].RoundTrip(newRequest(t, http.MethodGet, address+test.path,
				test.header))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			got := api.last(t).Header
			for name := range got {
				if !strings.HasPrefix(name, impersonate) {
					delete(got, name)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("impersonation headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProxy_AnswersForTheAPIServer(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*Options)
		code    int
		message string
	}{
		"no credential": {
			func(o *Options) {
				o.APIServerTokenFile = filepath.Join(t.TempDir(),
					"none")
			}, http.StatusServiceUnavailable, "cannot read its credential",
		},
		"no API server": {
			func(o *Options) {
				o.APIServer = "https://127.0.0.1:1"
			}, http.StatusBadGateway, "cannot reach the cluster's API server",
		},
		"an API server with another authority": {
			func(o *Options) {
				other := newAuthority(t, "other")
				writeFile(t, o.APIServerCAFile, other.pem)
			}, http.StatusBadGateway, "cannot reach the cluster's API server",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, "https://drover.example.com", "", newAPIServer(t))
			test.change(&o)
			address, transports := answering(t, o)
			code, body := ask(t, &http.Client{Transport: transports["HTTP/2"]}, address+"/small")
			if code != test.code || !strings.Contains(body, test.message) ||
				!strings.Contains(body, `"kind":"Status"`) {
				t.Errorf("answer is %d %s, want %d with %q", code, body, test.code, test.message)
			}
		})
	}
}

// A client that is refused while it sends its request in HTTP/2 stops sending, and must see the end of the answer.
func TestProxy_RefusalsReachClientsThatStillSend(t *testing.T) {
	api := newAPIServer(t)
	api.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		http.Error(rw, "you may not create it", http.StatusForbidden)
	})
	address, transports := answering(t, options(t, "https://127.0.0.1:1", "", api))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	sent, more := io.Pipe()
	t.Cleanup(func() { _ = more.Close() })
	request := newRequest(t, http.MethodPost, address+"/api/v1/pods", nil).WithContext(ctx)
	request.Body, request.ContentLength = sent, 1000
	response, err := transports["HTTP/2"].RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "you may not create it\n" {
		t.Errorf("%s: %q, error %v", response.Status, body, err)
	}
}

func TestProxy_AnswersAreStreamed(t *testing.T) {
	api := newAPIServer(t)
	address, transports := answering(t, options(t, "https://drover.example.com", "", api))
	for what, path := range map[string]string{"a watch": "/watch",
		"a long answer of known length": "/watch?length=65536"} {
		for protocol, transport := range transports {
			t.Run(what+" by "+protocol, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				response, err := transport.RoundTrip(newRequest(t, http.MethodGet, address+path, nil).WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				lines := bufio.NewScanner(response.Body)
				for i := range 10 {
					// The next event is sent only after this one was read.
					if want := fmt.Sprintf("event %d", i); !lines.Scan() || lines.Text() != want {
						t.Fatalf("read %q and error %v, want %q", lines.Text(), lines.Err(), want)
					}
					api.goOn <- struct{}{}
				}
				cancel()
				select {
				case <-api.gaveUp:
				case <-time.After(patience):
					t.Error("the API server does not notice the end of the watch")
				}
			})
		}
	}
}

// The agent drops interim answers.
func TestProxy_InterimAnswersAreDropped(t *testing.T) {
	api := newAPIServer(t)
	address, transports := answering(t, options(t, "https://drover.example.com", "", api))
	for protocol, transport := range transports {
		t.Run(protocol, func(t *testing.T) {
			var interim []int
			ctx := httptrace.WithClientTrace(t.Context(),
				&httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
					interim = append(interim, code)
					return nil
				}})
			response, err := transport.RoundTrip(newRequest(t, http.MethodGet, address+"/early", nil).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if body, err := io.ReadAll(response.Body); err != nil || string(body) != "late" || len(interim) > 0 {
				t.Errorf("%q, error %v, interim answers %v", body, err, interim)
			}
		})
	}
}

// The end of a request ends join, even if the request's body neither ends nor fails.
func TestJoin_EndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		body, _ := io.Pipe()
		backend, other := net.Pipe()
		defer other.Close()
		r := httptest.NewRequest(http.MethodPost, "/exec", body).WithContext(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = join(httptest.NewRecorder(), r, backend)
		}()
		synctest.Wait()
		cancel()
		select {
		case <-done:
		case <-time.After(2 * linger):
			_ = body.Close()
			t.Error("the interim answer is awaited")
		}
	})
}

func TestProxy_UpgradedConnectionsAreNotBuffered(t *testing.T) {
	api := newAPIServer(t)
	address, transports := answering(t, options(t, "https://drover.example.com", "", api))
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		t.Run(protocol, func(t *testing.T) {
			conn := upgraded(t, transports["HTTP/1.1"], address+"/exec", protocol)
			reader := bufio.NewReader(conn)
			for i := range 20 {
				line := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", i*5000))
				if _, err := io.WriteString(conn, line); err != nil {
					t.Fatal(err)
				}
				if got, err := reader.ReadString('\n'); got != line || err != nil {
					t.Fatalf("line %d came back as %.20q… and error %v", i, got, err)
				}
			}
			got := api.last(t)
			if got.ProtoMajor != 1 || got.Header.Get("Upgrade") != protocol ||
				got.Header.Get("Authorization") != "Bearer "+account {
				t.Errorf("the request uses %s and %v", got.Proto, got.Header)
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

func TestCredential_IsRereadWhenItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		c := &credential{path: path}
		is := func(want string) {
			t.Helper()
			if got, err := c.get(); got != want || err != nil {
				t.Errorf("credential is %q and error %v, want %q", got, err, want)
			}
		}
		if got, err := c.get(); err == nil || got != "" {
			t.Errorf("without a file it is %q", got)
		}
		writeFile(t, path, "first-token\n")
		is("first-token") // immediately, because there was no token before
		writeFile(t, path, "second-token\n")
		time.Sleep(tokenAge - 1)
		is("first-token")
		time.Sleep(time.Nanosecond)
		is("second-token")
		for _, spoiled := range []string{"", " \n", "two tokens", "line\nbreak"} {
			writeFile(t, path, spoiled)
			time.Sleep(tokenAge)
			is("second-token") // the file is being replaced
		}
		writeFile(t, path, "third-token")
		is("third-token") // a failed read is retried immediately
	})
}

func TestReadToken(t *testing.T) {
	for name, test := range map[string]struct{ content, want, problem string }{
		"a plain token":      {"abc.def-_~", "abc.def-_~", ""},
		"a final newline":    {"abc\n", "abc", ""},
		"surrounding spaces": {" \tabc\r\n\n", "abc", ""},
		"nothing":            {"", "", "contains no token"},
		"only spaces":        {"\n \n", "", "contains no token"},
		"two tokens":         {"token-of-one\ntoken-of-two", "", "one token of printable ASCII"},
		"an appended header": {"token-of-one\r\nImpersonate-User: root", "", "one token of printable ASCII"},
		"a null byte":        {"token-of-one\x00", "", "one token of printable ASCII"},
		"non-ASCII letters":  {"token-of-öne", "", "one token of printable ASCII"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, filepath.Join(t.TempDir(), "file"), test.content)
			got, err := readToken(path)
			if got != test.want {
				t.Errorf("token is %q, want %q", got, test.want)
			}
			switch {
			case test.problem == "":
				if err != nil {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), test.problem) || !strings.Contains(err.Error(), path):
				t.Errorf("error is %v, want it to contain %q and the name of the file", err, test.problem)
			case strings.Contains(err.Error(), "token-of"):
				t.Errorf("the error contains the token: %v", err)
			}
		})
	}
}

// upgradedStream switches protocols as the server does, with an HTTP/2 stream in both directions.
func upgradedStream(tb testing.TB, transport http.RoundTripper, address string, header http.Header) (io.WriteCloser,
	*http.Response) {
	tb.Helper()
	reader, writer := io.Pipe()
	request := newRequest(tb, http.MethodPost, address, header)
	request.Body, request.ContentLength = reader, -1
	response, err := transport.RoundTrip(request)
	if err != nil {
		tb.Fatal(err)
	}
	return writer, response
}

func TestProxy_UpgradesAreStreams(t *testing.T) {
	api := newAPIServer(t)
	address, transports := answering(t, options(t, "https://drover.example.com", "", api))
	to, response := upgradedStream(t, transports["HTTP/2"], address+"/exec?command=a", http.Header{
		wire.HeaderUpgrade: {"websocket"}, wire.HeaderMethod: {http.MethodGet}, "Sec-Websocket-Version": {"13"},
		"X-Remote-User": {"root"}, "User-Agent": {"kubectl"},
	})
	if response.StatusCode != http.StatusOK || response.Header.Get(wire.HeaderUpgraded) != "websocket" {
		t.Fatalf("answer is %s with %v", response.Status, response.Header)
	}
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	for i := range 20 {
		line := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", i*5000))
		if _, err := io.WriteString(to, line); err != nil {
			t.Fatal(err)
		}
		if got, err := reader.ReadString('\n'); got != line || err != nil {
			t.Fatalf("line %d came back as %.20q… and error %v", i, got, err)
		}
	}
	got := api.last(t)
	want := http.Header{
		"Authorization": {"Bearer " + account}, impersonateUser: {"jane"}, "Connection": {"Upgrade"},
		"Upgrade":               {"websocket"},
		"Sec-Websocket-Version": {"13"}, "User-Agent": {"kubectl"},
	}
	if diff := cmp.Diff(want, got.Header); diff != "" || got.Method != http.MethodGet || got.ProtoMajor != 1 ||
		got.URL.RawQuery != "command=a" {
		t.Errorf("the request is %s %s %s; headers (-want +got):\n%s", got.Method, got.URL, got.Proto, diff)
	}
	_ = to.Close() // one direction; the API server ends the other
	if rest, err := io.ReadAll(reader); len(rest) > 0 || err != nil {
		t.Errorf("at the end %d bytes arrive, and error %v", len(rest), err)
	}
	poll(t, "no connection to the API server remains", func() bool { return api.connections.Load() == 0 })
}
