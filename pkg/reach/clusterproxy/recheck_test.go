package clusterproxy

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// endless is an answer that ends with its request.
type endless struct{ ctx context.Context }

func (e endless) Read([]byte) (int, error) {
	<-e.ctx.Done()
	return 0, context.Cause(e.ctx)
}

func (endless) Close() error { return nil }

// watchable registers a cluster whose watches do not end. It needs no network, and so works in a bubble of synctest.
func (w *world) watchable(name string) {
	w.backends[w.cluster(name, nil)] = roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: endless{r.Context()},
			Request: r}, nil
	})
}

// open sends a request in the background and returns a channel that closes when it ends.
func open(p *Proxy, r *http.Request) <-chan struct{} {
	// As net/http does: without it, httputil does not abort an answer.
	r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, &http.Server{}))
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() { _ = recover() }() // http.ErrAbortHandler
		p.ServeHTTP(httptest.NewRecorder(), r)
	}()
	return over
}

func watchOf(cluster, token string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "https://drover.example/k8s/clusters/c-m-"+cluster+
		"/api/v1/pods?watch=1", nil)
	r.Header = headersOf(headers)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// revocationCase is a watch, and how its caller loses the permission.
type revocationCase struct {
	request func(t *testing.T, w *world) *http.Request
	// lose is nil if the credential expires, ten minutes after the begin.
	lose func(w *world)
	// reason is part of the audit's reason.
	reason string
}

func ofJane(_ *testing.T, w *world) *http.Request { return watchOf("a", w.user("jane", "a")) }

// ofDrover registers a token of Drover's own for a user.
func ofDrover(t *testing.T, w *world) *http.Request {
	t.Helper()
	w.rules["jane get clusters fleet-default/a"] = true
	secret, bearer, err := Issue("drover-system", Grant{Cluster: "c-m-a", Principal: UserPrincipalPrefix + "jane",
		Expires: time.Now().Add(10 * time.Minute)}, rand.Reader)
	check(t, err)
	w.secrets = append(w.secrets, secret)
	return watchOf("a", bearer)
}

// ofMachine registers a token of Drover's own for a machine identity.
func ofMachine(t *testing.T, w *world) *http.Request {
	t.Helper()
	secret, bearer, err := Issue("drover-system", Grant{Cluster: "c-m-a",
		Principal: naming.ProvisioningPrincipal("fleet-default", "a"), Expires: time.Now().Add(time.Hour)}, rand.Reader)
	check(t, err)
	w.secrets = append(w.secrets, secret)
	return watchOf("a", bearer)
}

func certified(t *testing.T, w *world) *http.Request {
	t.Helper()
	w.user("jane", "a")
	ours, pool := newAuthority(t)
	w.clientCA = pool
	certificate := ours.issue(t, pkix.Name{CommonName: "jane"}, time.Now().Add(10*time.Minute),
		x509.ExtKeyUsageClientAuth)
	r := watchOf("a", "")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}
	return r
}

func impersonating(_ *testing.T, w *world) *http.Request {
	w.rules["jane impersonate users /joe"] = true
	return watchOf("a", w.user("jane", "a"), "Impersonate-User: joe")
}

func revocationCases() map[string]revocationCase {
	return map[string]revocationCase{
		"a token of the management cluster is revoked": {ofJane, func(w *world) { clear(w.users) },
			"the credential is no longer valid"},
		"the user may no longer get the Cluster": {ofJane, func(w *world) { clear(w.rules) },
			`user "jane" may not access cluster "c-m-a"`},
		"the review omits the group of all users": {ofJane, func(w *world) {
			w.users["token-of-jane"] = authenticationv1.UserInfo{Username: "jane", Groups: []string{}}
		}, ""},
		"the user leaves the administrators": {func(_ *testing.T, w *world) *http.Request {
			r := watchOf("a", w.user("jane", "a"))
			w.users["token-of-jane"] = authenticationv1.UserInfo{Username: "jane", Groups: []string{"administrators"}}
			return r
		}, func(w *world) { w.user("jane") }, "the groups have changed"},
		"the token is another user's": {ofJane, func(w *world) {
			w.users["token-of-jane"] = w.users[w.user("joe", "a")]
		}, "the user or the groups have changed"},
		"the Cluster is deleted":                 {ofJane, func(w *world) { clear(w.clusters) }, "may not access"},
		"a token of Drover is deleted":           {ofDrover, func(w *world) { w.secrets = nil }, "the credential"},
		"a token of Drover expires":              {ofDrover, nil, "the credential"},
		"a user's token of Drover loses access":  {ofDrover, func(w *world) { clear(w.rules) }, "may not access"},
		"the token of a machine is deleted":      {ofMachine, func(w *world) { w.secrets = nil }, "the credential"},
		"a client certificate expires":           {certified, nil, "the credential"},
		"the authority of the client is removed": {certified, func(w *world) { w.clientCA = nil }, "the credential"},
		"the user may no longer impersonate": {impersonating, func(w *world) {
			delete(w.rules, "jane impersonate users /joe")
		}, `may not impersonate users "joe"`},
		"nothing changes": {ofJane, func(*world) {}, ""},
	}
}

// A long-running request ends within a minute after its caller lost the permission.
func TestRecheck_EndsRevokedRequests(t *testing.T) {
	for name, test := range revocationCases() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.watchable("a")
				p, err := New(w.options)
				check(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				lost := time.Now().Add(10 * time.Minute)
				over := open(p, test.request(t, w).WithContext(ctx))
				time.Sleep(3 * time.Minute)
				stillOpen(t, over, "before the revocation")
				if test.lose != nil {
					w.change(test.lose)
					lost = time.Now()
				}
				if test.reason == "" {
					time.Sleep(10 * time.Minute)
					stillOpen(t, over, "without a revocation")
					cancel()
				}
				<-over
				if took := time.Since(lost); test.reason != "" && (took < 0 || took > DefaultRecheck) {
					t.Errorf("the request ends after %s", took)
				}
				last := w.records[len(w.records)-1]
				if !strings.Contains(last.Reason, test.reason) || (last.Reason == "") != (test.reason == "") ||
					last.Stage != StageEnded || last.Status != http.StatusOK || !last.Cut {
					t.Errorf("audit has %+v", last)
				}
				cancel()
			})
		})
	}
}

func stillOpen(t *testing.T, over <-chan struct{}, when string) {
	t.Helper()
	synctest.Wait()
	select {
	case <-over:
		t.Fatalf("%s: the request has ended", when)
	default:
	}
}

// While the management cluster does not answer, requests continue for five minutes.
func TestRecheck_TheManagementClusterFails(t *testing.T) {
	for name, recovers := range map[string]bool{"and recovers": true, "for good": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.watchable("a")
				p, err := New(w.options)
				check(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				over := open(p, ofJane(t, w).WithContext(ctx))
				time.Sleep(time.Minute)
				w.change(func(w *world) { w.broken = errors.New("internal text") })
				time.Sleep(4 * time.Minute)
				stillOpen(t, over, "after four minutes")
				if recovers {
					w.change(func(w *world) { w.broken = nil })
					time.Sleep(time.Hour)
					stillOpen(t, over, "after the recovery")
					return
				}
				time.Sleep(3 * time.Minute)
				<-over
				if last := w.records[len(w.records)-1]; !strings.Contains(last.Reason, "is unknown for 5m") {
					t.Errorf("audit has %+v", last)
				}
			})
		})
	}
}

// Many watches neither ask the management cluster at the same time, nor more often than the cache needs.
func TestRecheck_ManyWatchesAskRarely(t *testing.T) {
	const watches = 3000
	for name, users := range map[string]int{"of one user": 1, "of many users": watches} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.watchable("a")
				w.options.MaxLongRunningPerCaller = -1
				p, err := New(w.options)
				check(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var all []<-chan struct{}
				for i := range watches {
					token := ""
					w.change(func(w *world) { token = w.user("user-"+strconv.Itoa(i%users), "a") })
					all = append(all, open(p, watchOf("a", token).WithContext(ctx)))
				}
				time.Sleep(answerFor)
				before, most := w.reviews(), 0
				for range 600 {
					begun := w.reviews()
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
					most = max(most, w.reviews()-begun)
				}
				asked := w.reviews() - before
				t.Logf("%d reviews in a minute, at most %d in a tenth of a second", asked, most)
				if most > 40 || asked > 3*users+6 {
					t.Errorf("%d reviews in a minute, %d in a tenth of a second", asked, most)
				}
				cancel()
				for _, over := range all {
					<-over
				}
			})
		})
	}
}

// hijackable is a client's connection that can be upgraded.
type hijackable struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// An exec ends in both directions, even if the client and the cluster are silent.
func TestRecheck_EndsBothDirectionsOfAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		here, inCluster := net.Pipe()
		w.backends[w.cluster("a", nil)] = roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: here, Request: r,
				Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}}, nil
		})
		p, err := New(w.options)
		check(t, err)
		client, accepted := net.Pipe()
		r := watchOf("a", w.user("jane", "a"), "Connection: Upgrade", "Upgrade: SPDY/3.1")
		r.URL.Path, r.URL.RawQuery = "/k8s/clusters/c-m-a/api/v1/namespaces/x/pods/y/exec", "command=sh"
		var running sync.WaitGroup
		running.Go(func() { p.ServeHTTP(hijackable{httptest.NewRecorder(), accepted}, r) })
		answer, err := http.ReadResponse(bufio.NewReader(client), nil) //nolint:bodyclose // it is another protocol
		check(t, err)
		if answer.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %d", answer.StatusCode)
		}
		time.Sleep(5 * time.Minute)
		w.change(func(w *world) { clear(w.rules) })
		begun := time.Now()
		var reading sync.WaitGroup
		for name, end := range map[string]net.Conn{"the client": client, "the cluster": inCluster} {
			reading.Go(func() {
				if _, err := end.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("%s reads %v", name, err)
				}
			})
		}
		reading.Wait()
		if took := time.Since(begun); took > DefaultRecheck {
			t.Errorf("the request ends after %s", took)
		}
		running.Wait()
		if last := w.records[len(w.records)-1]; last.Status != 101 || !strings.HasPrefix(last.Reason, "revoked: ") {
			t.Errorf("audit has %+v", last)
		}
	})
}

// A request that has no answer yet gets the refusal.
func TestRecheck_AnswersARequestThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.backends[w.cluster("a", nil)] = roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		p, err := New(w.options)
		check(t, err)
		answer, request := httptest.NewRecorder(), ofJane(t, w)
		time.AfterFunc(time.Second, func() { w.change(func(w *world) { clear(w.users) }) })
		p.ServeHTTP(answer, request)
		if answer.Code != http.StatusUnauthorized {
			t.Errorf("got %d", answer.Code)
		}
	})
}

// A client that does not read its watch keeps the connection no longer than others.
func TestRecheck_EndsRequestsOfStuckClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, &letters{}) }))
	w.options.Recheck = time.Second
	server := w.proxy()
	target := "/k8s/clusters/c-m-a/api/v1/pods?watch=1"
	answer, err := get(t.Context(), server, target, token) // HTTP/2
	check(t, err)
	defer answer.Body.Close()
	upgraded(t, server, "GET "+target+" HTTP/1.1\nHost: drover\nAuthorization: Bearer "+token)
	w.change(func(w *world) { clear(w.rules) })
	for _, record := range w.ended(server, 2) {
		if !strings.HasPrefix(record.Reason, "revoked: ") || !record.Cut {
			t.Errorf("audit has %+v", record)
		}
	}
}
