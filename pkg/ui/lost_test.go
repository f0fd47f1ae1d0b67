package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-io/drover/pkg/operate/apply"
	"github.com/drover-io/drover/pkg/testkit/build"
)

func TestFailureOf_LostConnections(t *testing.T) {
	get := func(err error) error { return &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/apis", Err: err} }
	unread := fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w",
		io.ErrUnexpectedEOF)
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6443},
		Err: syscall.ECONNREFUSED}
	unparsed := &url.Error{Op: "parse", URL: "::", Err: errors.New("missing protocol scheme")}
	for name, tc := range map[string]struct {
		err     error
		status  int
		reason  string
		message string
	}{
		"a cut connection": {get(io.EOF), http.StatusBadGateway, reasonInternal,
			"read it: the management cluster did not answer: the connection was lost"},
		"a cut answer": {unread, http.StatusBadGateway, reasonInternal,
			"read it: the management cluster did not answer: the connection was lost"},
		"no server": {get(refused), http.StatusBadGateway, reasonInternal,
			"read it: the management cluster did not answer: connection refused"},
		"no route": {refused, http.StatusBadGateway, reasonInternal,
			"read it: the management cluster did not answer: connection refused"},
		"an unknown cause": {get(errors.New("x509: 10.0.0.1")), http.StatusBadGateway, reasonInternal,
			"read it: the management cluster did not answer"},
		"no time": {get(context.DeadlineExceeded), http.StatusGatewayTimeout, reasonTimeout,
			"read it: the management cluster did not answer in time"},
		"a lost write": {fmt.Errorf("%w: %w", apply.ErrUnknown, get(io.EOF)), http.StatusBadGateway, reasonUnknown,
			"read it: it may have taken effect, so look before you try again: the management cluster did not answer: " +
				"the connection was lost"},
		"a text that is no URL": {unparsed, http.StatusInternalServerError, reasonInternal,
			`read it: parse "::": missing protocol scheme`},
		"a broken snapshot": {io.ErrUnexpectedEOF, http.StatusInternalServerError, reasonInternal,
			"read it: unexpected EOF"},
	} {
		err := fmt.Errorf("read it: %w", tc.err)
		got := failureOf(err)
		if got.status != tc.status || got.reason != tc.reason || got.message != tc.message {
			t.Errorf("%s: %+v", name, got)
		}
		if isStatement(err) != (tc.status == http.StatusInternalServerError) {
			t.Errorf("%s: a statement: %v", name, isStatement(err))
		}
	}
}

// A cut connection is no mistake of the user. The answer has no address of the management cluster.
func TestLostConnections_AreNoStatements(t *testing.T) {
	f := newFakeAPI(t, append(snapshotted(), cluster("team-a", "demo"))...)
	p := signedIn(t, f)
	for name, tc := range map[string]struct {
		method, path, body string
		// part of the path of the reads that are cut, behind the first ones.
		part  string
		after int
	}{
		"a preview":       {http.MethodPost, demoPath + "/preview", demoText, "/rkecontrolplanes/", 0},
		"a live object":   {http.MethodPost, demoPath + "/preview", demoText, "/clusters/demo", 0},
		"a snapshot":      {http.MethodGet, snapshotsPath + "/whole/briefing", "", "/etcdsnapshots/", 0},
		"a configuration": {http.MethodGet, snapshotsPath + "/whole/briefing?config=all", "", "/etcdsnapshots/", 1},
		"a foresight":     {http.MethodGet, snapshotsPath + "/whole/briefing", "", "/rkecontrolplanes/", 1},
		"a log":           {http.MethodGet, demoPath + "/logs", "", "/clusters/demo", 0},
		"an object": {http.MethodGet, "/ui/api/v1/k8s/api/v1/namespaces/" + build.Namespace + "/pods", "", "/pods",
			0},
	} {
		t.Run(name, func(t *testing.T) {
			p.t = t
			p.relax()
			left := tc.after
			f.mu.Lock()
			f.breaks = func(path string) bool {
				if !strings.Contains(path, tc.part) {
					return false
				}
				left--
				return left < 0
			}
			f.mu.Unlock()
			got := p.do(p.request(tc.method, tc.path, tc.body))
			wants(t, got, http.StatusBadGateway, reasonInternal)
			if text := got.Body.String(); strings.Contains(text, "127.0.0.1") || !strings.Contains(text, noAnswer) {
				t.Errorf("got %s", text)
			}
		})
	}
}
