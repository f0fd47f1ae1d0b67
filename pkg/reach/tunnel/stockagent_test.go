package tunnel

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rancher/remotedialer"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
	"github.com/drover-io/drover/pkg/reach/unread"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// startStockAgent runs an agent as rancher/rancher has it until the test ends. Its library, remotedialer 0.6.1, writes
// errors without a lock, so the test runs only without the race detector.
func startStockAgent(t *testing.T, d *drover, api *apiServer) {
	t.Helper()
	crashpoints.SkipRaced(t)
	params := fmt.Sprintf(`{"cluster":{"address":%q,"token":%q,"caCert":%q}}`,
		strings.TrimPrefix(api.URL, "https://"), agentCredential,
		base64.StdEncoding.EncodeToString(authority(api.Server)))
	headers := http.Header{wire.HeaderToken: {registrationToken},
		wire.HeaderParams: {base64.StdEncoding.EncodeToString([]byte(params))}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = remotedialer.ConnectToProxy(ctx, "wss"+strings.TrimPrefix(d.web.URL, "https")+wire.PathConnect, headers,
			func(string, string) bool { return true },
			&websocket.Dialer{TLSClientConfig: d.web.Client().Transport.(*http.Transport).TLSClientConfig}, nil)
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	d.awaitConnected(t)
}

// allowAll authenticates and authorizes all requests.
type allowAll struct{}

func (allowAll) Authenticate(*http.Request) (user.Info, bool, error) {
	return &user.DefaultInfo{Name: "jane"}, true, nil
}

func (allowAll) CanAccessCluster(context.Context, user.Info, string, string) (bool, error) {
	return true, nil
}

func (allowAll) CanImpersonate(context.Context, user.Info, user.Info) (bool, error) {
	return false, nil
}

// newProxy serves requests of users to the cluster, with a limit for unread streams. It returns a channel with the
// reasons for which streams end.
func newProxy(tb testing.TB, d *drover, limit int64) (*httptest.Server, <-chan string) {
	tb.Helper()
	ended := make(chan string, 1000)
	proxy, err := clusterproxy.New(clusterproxy.Options{
		Transport: d.Transport, NotConnected: ErrNotConnected,
		Lookup:        func(string) (string, string, bool) { return "team", "one", true },
		Authenticator: allowAll{}, Authorizer: allowAll{}, Audit: func(clusterproxy.Record) {},
		Unread: unread.New(unread.Options{TenantBytes: limit, Timeout: time.Hour,
			Ended: func(reason string) { ended <- reason }}),
		Log: quiet(tb), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewTLSServer(proxy)
	tb.Cleanup(server.Close)
	return server, ended
}

// unreadExec starts an exec and reads nothing of its output.
func unreadExec(tb testing.TB, server *httptest.Server, path string) {
	tb.Helper()
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	conn, err := (&tls.Dialer{Config: config}).DialContext(tb.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "POST /k8s/clusters/"+clusterID+path+" HTTP/1.1\r\nHost: drover\r\n"+
		"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"); err != nil {
		tb.Fatal(err)
	}
}

// A stock agent sends megabytes of each unread exec. Drover ends some of the execs, and not the session of all users.
// How much a stock agent sends before it pauses depends on the load of the machine, so the execs have an end.
func TestStockAgent_UnreadExecsEndNoSession(t *testing.T) {
	const execs, output, limit = 20, 5 << 20, 32 << 20
	d, api := newDrover(t, nil), switching(t, "/api/v1/namespaces/n/pods/p/exec",
		func(conn io.ReadWriteCloser, _ <-chan struct{}) {
			if _, err := io.Copy(conn, &pattern{size: output}); err == nil {
				_, _ = io.Copy(io.Discard, conn) // until the exec is ended
			}
		})
	startStockAgent(t, d, api)
	session := d.table.best(clusterID)
	server, ended := newProxy(t, d, limit)
	for i := range execs {
		unreadExec(t, server, "/api/v1/namespaces/n/pods/p/exec")
		if i < limit/ownConnection {
			continue
		}
		select {
		case reason := <-ended:
			if reason != unread.ReasonBudget {
				t.Errorf("a stream ends because of %q", reason)
			}
		case <-time.After(patience):
			t.Fatal("the streams hold more than the limit")
		}
	}
	if got := get(t, d.transport(t), "/small"); !strings.Contains(got, "one") || session.ended() {
		t.Errorf("another request is answered with %s; the session ended: %v", got, session.link.Reason())
	}
}

func TestStockAgent_BytesPassBothWays(t *testing.T) {
	d, api := newDrover(t, nil), newAPIServer(t, "one")
	startStockAgent(t, d, api)
	const size = 3 << 20
	conn := upgradeAt(t, t.Context(), d.transport(t), "/exec")
	defer conn.Close()
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		if _, err := io.Copy(conn, &pattern{size: size}); err != nil {
			t.Errorf("write: %v", err)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Errorf("close one direction: %v", err)
		}
	})
	if err := (&pattern{size: size}).is(conn); err != nil {
		t.Errorf("read: %v", err)
	}
}
