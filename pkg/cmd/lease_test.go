package cmd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// A replica leads while it holds the lease, waits while another holds it, and leads again afterwards.
func TestLease_TermsDoNotOverlap(t *testing.T) {
	memkube.VirtualTime()
	synctest.Test(t, func(t *testing.T) {
		api := memkube.New(memkube.Options{Namespaces: []string{leaseNamespace}})
		leading, terms := 0, map[string]int{}
		lead := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				leading++
				terms[name]++
				if leading > 1 {
					t.Error("two replicas lead")
				}
				<-ctx.Done()
				time.Sleep(2 * time.Second) // controllers need time to end
				leading--
				return nil
			}
		}
		replica := func(name string) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				check(t, leadWhileHolding(ctx, api.Config(name), "ours", logrus.StandardLogger(), lead(name)))
			}()
			return func() { cancel(); <-ended }
		}
		stopFirst := replica("first")
		settle(10 * time.Second)
		stopSecond := replica("second")
		settle(time.Minute)
		if diff := cmp.Diff(map[string]int{"first": 1}, terms); diff != "" {
			t.Errorf("terms (-want +got):\n%s", diff)
		}
		stopFirst()
		settle(time.Minute)
		if diff := cmp.Diff(map[string]int{"first": 1, "second": 1}, terms); diff != "" {
			t.Errorf("terms (-want +got):\n%s", diff)
		}

		// The API is unavailable for a while: the lease is lost, and taken again after the API is back.
		api.CutAfter("second", 0, nil)
		settle(time.Minute)
		if leading != 0 {
			t.Error("a replica without a renewed lease leads")
		}
		api.Mend("second")
		settle(time.Minute)
		if terms["second"] != 2 {
			t.Errorf("terms: %v", terms)
		}
		stopSecond()
		if holder := holderOf(t, api); holder != "" {
			t.Errorf("the lease of a stopped replica belongs to %q", holder)
		}
	})
}

// Another replica takes over from a vanished leader within 17.5 seconds. The rest of the promised 20 seconds is for
// controllers to start.
func TestLease_AnotherReplicaReplacesALostLeader(t *testing.T) {
	memkube.VirtualTime()
	synctest.Test(t, func(t *testing.T) {
		api := memkube.New(memkube.Options{Namespaces: []string{leaseNamespace}})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		leads := map[string]time.Time{}
		for _, name := range []string{"first", "second", "third"} {
			group.Go(func() {
				check(t, leadWhileHolding(ctx, api.Config(name), "ours", logrus.StandardLogger(),
					func(ctx context.Context) error {
						leads[name] = time.Now()
						<-ctx.Done()
						return nil
					}))
			})
			settle(5 * time.Second)
		}
		if len(leads) != 1 {
			t.Fatalf("the leading replicas are %v", leads)
		}
		vanished := time.Now()
		api.CutAfter("first", 0, nil)
		settle(17500 * time.Millisecond)
		delete(leads, "first")
		if len(leads) != 1 {
			t.Errorf("17.5 s after %s, the leading replicas are %v", vanished, leads)
		}
		cancel()
		group.Wait()
	})
}

// A leader stops as soon as it sees that another replica has the lease. It does not wait for renewDeadline. Errors of
// its ending controllers do not end the program.
func TestLease_TakenByAnother(t *testing.T) {
	memkube.VirtualTime()
	synctest.Test(t, func(t *testing.T) {
		api := memkube.New(memkube.Options{Namespaces: []string{leaseNamespace}})
		ctx, cancel := context.WithCancel(t.Context())
		var leading atomic.Bool
		ended := make(chan error, 1)
		go func() {
			ended <- leadWhileHolding(ctx, api.Config("robbed"), "ours", logrus.StandardLogger(),
				func(ctx context.Context) error {
					leading.Store(true)
					defer leading.Store(false)
					<-ctx.Done()
					return errors.New("caches were not filled in time")
				})
		}()
		settle(10 * time.Second)
		if !leading.Load() {
			t.Fatal("no replica leads")
		}
		rob(t, api, "somebody")
		settle(2500 * time.Millisecond)
		if leading.Load() {
			t.Error("it leads although another replica has the lease")
		}
		settle(time.Minute)
		if !leading.Load() {
			t.Error("it does not lead although the lease has ended")
		}
		cancel()
		check(t, <-ended)
	})
}

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A failed term releases its lease, and the next one starts after a growing pause. The endpoints serve all the time.
func TestLease_RetriesAfterAFailedTerm(t *testing.T) {
	memkube.VirtualTime()
	synctest.Test(t, func(t *testing.T) {
		api := memkube.New(memkube.Options{Namespaces: []string{leaseNamespace}})
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var all []time.Time
		begun := func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		ended := make(chan error, 1)
		go func() {
			ended <- leadWhileHolding(ctx, api.Config("x"), "ours", logrus.StandardLogger(),
				func(ctx context.Context) error {
					mu.Lock()
					all = append(all, time.Now())
					mu.Unlock()
					if len(begun()) < 4 {
						return errors.New("definitions are missing")
					}
					<-ctx.Done()
					return nil
				})
		}()
		settle(500 * time.Millisecond)
		if holder := holderOf(t, api); len(begun()) != 1 || holder != "" {
			t.Errorf("after the first term of %d, the lease belongs to %q", len(begun()), holder)
		}
		settle(30 * time.Second)
		starts := begun()
		if len(starts) != 4 || starts[3].Sub(starts[2]) < 4*time.Second {
			t.Errorf("the terms started at %v", starts)
		}
		cancel()
		check(t, <-ended)
	})
}

// leaseOf is the lease for which replicas compete.
func leaseOf(t *testing.T, api *memkube.Server) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName}}
	found, err := api.Get(lease)
	check(t, err)
	if !found {
		t.Fatal("the lease does not exist")
	}
	return lease
}

func holderOf(t *testing.T, api *memkube.Server) string {
	t.Helper()
	return *leaseOf(t, api).Spec.HolderIdentity
}

// rob gives the lease to a holder that does not renew it.
func rob(t *testing.T, api *memkube.Server, holder string) {
	t.Helper()
	lease := leaseOf(t, api)
	lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = new(holder), new(metav1.NowMicro())
	check(t, api.Add(lease))
}

// A replica that is stopped while it takes the lease still releases it.
func TestLease_ReleasesALeaseTakenAtTheEnd(t *testing.T) {
	memkube.VirtualTime()
	synctest.Test(t, func(t *testing.T) {
		api := memkube.New(memkube.Options{Namespaces: []string{leaseNamespace}})
		ctx, cancel := context.WithCancel(t.Context())
		config := api.Config("x")
		config.Wrap(func(below http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost {
					// The replica is stopped after the lease was created and before the answer arrives.
					answer, err := below.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
					cancel()
					time.Sleep(time.Millisecond)
					return answer, err
				}
				time.Sleep(1500 * time.Millisecond) // a slow API server
				return below.RoundTrip(r)
			})
		})
		check(t, leadWhileHolding(ctx, config, "ours", logrus.StandardLogger(), func(context.Context) error {
			return nil
		}))
		if holder := holderOf(t, api); holder != "" {
			t.Errorf("%s still has the lease", holder)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A hanging request about the lease costs only its own connection. Other requests use other connections.
func TestLeaseConfig_UsesItsOwnConnections(t *testing.T) {
	var seen, hang sync.Map
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.URL.Path, r.RemoteAddr+" "+r.Proto)
		if _, tried := hang.LoadOrStore(r.URL.Path, true); !tried && strings.HasSuffix(r.URL.Path, "/hangs") {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1"}`)
	}))
	api.EnableHTTP2 = true
	api.StartTLS()
	defer api.Close()
	config := &rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	ofLease := leaseConfig(config)
	ofLease.Timeout = 200 * time.Millisecond
	get := func(config *rest.Config, name string) (string, error) {
		t.Helper()
		clients, err := kubernetes.NewForConfig(config)
		check(t, err)
		_, err = clients.CoordinationV1().Leases("a").Get(t.Context(), name, metav1.GetOptions{})
		at, _ := seen.Load("/apis/coordination.k8s.io/v1/namespaces/a/leases/" + name)
		said, _ := at.(string)
		return said, err
	}
	others, err := get(config, "others")
	check(t, err)
	first, err := get(ofLease, "first")
	check(t, err)
	if others == first || !strings.HasSuffix(others, "HTTP/2.0") || !strings.HasSuffix(first, "HTTP/1.1") {
		t.Errorf("other requests came through %s, those for the lease through %s", others, first)
	}
	hung, err := get(ofLease, "hangs")
	if err == nil || hung != first {
		t.Errorf("the hanging request came through %s, error %v", hung, err)
	}
	next, err := get(ofLease, "hangs")
	if err != nil || next == hung {
		t.Errorf("the next attempt came through %s, error %v", next, err)
	}
}
