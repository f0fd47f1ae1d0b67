package connect

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// inventHosts sends the requests of many hosts at once, and counts the answers by status.
func inventHosts(t *testing.T, w *world, many int) map[int]int {
	t.Helper()
	server, client := w.serve()
	var mu sync.Mutex
	codes := map[int]int{}
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() {
			response, body := ask(t, server, client, http.MethodGet, agentPath,
				with(hostHeaders(), idHeader, fmt.Sprintf("invented-%d", i)))
			mu.Lock()
			defer mu.Unlock()
			codes[response.StatusCode]++
			if response.StatusCode == http.StatusTooManyRequests && (response.Header.Get("Retry-After") != "5" ||
				!strings.Contains(body, "new hosts of this cluster are waiting")) {
				t.Errorf("Retry-After %q: %s", response.Header.Get("Retry-After"), body)
			}
		})
	}
	group.Wait()
	return codes
}

// A flood of invented hosts makes no more machine requests than the limit, even though no cache shows any.
func TestConnectAgent_AFloodOfInventedHosts(t *testing.T) {
	for name, lags := range map[string]bool{"with caches that are up to date": false, "with caches that lag": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Wait, w.options.MaxWaitingHosts = 300*time.Millisecond, 10
			var mu sync.Mutex
			made := map[string]bool{}
			w.withHosts(func(request *corev1.Secret) {
				mu.Lock()
				defer mu.Unlock()
				made[request.Name] = true
				if lags {
					request.Namespace = "nowhere"
				}
			})
			codes := inventHosts(t, w, 100)
			if codes[http.StatusTooManyRequests] != 90 || codes[http.StatusServiceUnavailable] != 10 ||
				len(made) != 10 {
				t.Errorf("%d machine requests; answers by status: %v", len(made), codes)
			}
		})
	}
}

// A host with a Machine may connect, regardless of the number of waiting hosts.
func TestConnectAgent_AKnownHostDuringAFlood(t *testing.T) {
	w := newWorld(t)
	w.options.MaxWaitingHosts = 1
	w.withHosts(w.becomes)
	w.add(w.secrets, machineRequest("c-m-1", "custom-waits"))
	w.add(w.secrets, machineRequest("c-m-2", "custom-elsewhere"))
	server, client := w.serve()
	if response, body := ask(t, server, client, http.MethodGet, agentPath,
		hostHeaders()); response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("unknown: status %d: %s", response.StatusCode, body)
	}
	w.becomes(&corev1.Secret{})
	if response, body := ask(t, server, client, http.MethodGet, agentPath,
		hostHeaders()); response.StatusCode != http.StatusOK {
		t.Errorf("known: status %d: %s", response.StatusCode, body)
	}
}

func machineRequest(namespace, name string) *corev1.Secret {
	request := crt(namespace, "", registration.Any)
	request.Name, request.Type = name, rkev1.SecretTypeMachineRequest
	return request
}

// A machine's bootstrap token with other identities than the machine's own writes nothing.
func TestConnectAgent_AFloodOfIdentitiesWithOneToken(t *testing.T) {
	w := newWorld(t)
	w.options.Wait = 300 * time.Millisecond
	w.bound("m", "the-first-one")
	w.machineClient.EXPECT().Patch(gomock.Any(), gomock.Any(), gomock.Any(), gomock.Any()).Times(0)
	w.secretClient.EXPECT().Patch(gomock.Any(), gomock.Any(), gomock.Any(), gomock.Any()).Times(0)
	server, client := w.serve()
	for i := range 50 {
		response, body := ask(t, server, client, http.MethodGet, agentPath,
			with(hello(), idHeader, fmt.Sprintf("other-%d", i)))
		if response.StatusCode != http.StatusConflict {
			t.Fatalf("status %d: %s", response.StatusCode, body)
		}
	}
}

func TestCrowd_LimitsRequests(t *testing.T) {
	t.Parallel()
	cluster := func(name string) types.NamespacedName {
		namespace, name, _ := strings.Cut(name, "/")
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	c := &crowd{max: 8, maxCluster: 3}
	var leave []func()
	for i, step := range []struct {
		cluster, machine string
		want             error
	}{
		{"ns/a", "1", nil},
		{"ns/a", "1", nil},
		{"ns/a", "1", errMachineCrowded},
		{"ns/a", "2", nil},
		{"ns/a", "3", errClusterCrowded},
		{"ns/b", "1", nil},
		{"ns/b", "2", errServerCrowded}, // half is for other namespaces
		{"other/a", "1", nil},
		{"other/a", "2", nil},
		{"other/a", "3", errServerCrowded},
	} {
		left, err := c.enter(cluster(step.cluster), step.machine)
		if !errors.Is(err, step.want) {
			t.Errorf("request %d: %v, want %v", i, err, step.want)
		}
		if err == nil {
			leave = append(leave, left)
		}
	}
	for _, each := range leave {
		each()
	}
	if c.total != 0 || len(c.namespaces)+len(c.clusters)+len(c.machines) > 0 {
		t.Errorf("after all requests: %d, %v, %v", c.total, c.clusters, c.machines)
	}
}

// A machine request counts while its host waits, and then until the caches must show it, unless it is gone.
func TestArrivals_CountUntilTheCachesShowThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &arrivals{}
		enter := func(name string, shown ...string) func(gone bool) {
			done, err := a.reserve("c-m-1", name, 100, shown, 2, time.Now)
			if err != nil && !errors.Is(err, errHostsCrowded) {
				t.Error(err)
			}
			return done
		}
		first, second := enter("a"), enter("b", "b")
		if first == nil || second == nil || enter("c") != nil {
			t.Fatal("two hosts may wait, and not three")
		}
		again := enter("a")
		if again == nil || enter("c", "a", "b") != nil {
			t.Error("a host that waits counts once, and may ask again")
		}
		first(true)
		if enter("c") != nil {
			t.Error("a host still waits in its second request")
		}
		again(true)
		third := enter("c")
		if third == nil {
			t.Fatal("a host whose machine request is gone still counts")
		}
		third(false)
		second(false)
		if enter("d") != nil {
			t.Error("machine requests do not count after their hosts disconnect")
		}
		time.Sleep(shownAfter)
		if enter("d", "x", "y") != nil || enter("x", "x", "y") == nil {
			t.Error("the machine requests in the cache count, for other hosts")
		}
		if done := enter("d"); done == nil {
			t.Error("machine requests that no cache shows count forever")
		}
	})
}

// A host that asks without a pause is slowed down, and leaves nothing behind.
func TestArrivals_SlowAHostDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &arrivals{}
		admitted := 0
		start := time.Now()
		for time.Since(start) < time.Minute {
			done, err := a.reserve("c-m-1", "a", 100, nil, 2, time.Now)
			switch {
			case err == nil:
				admitted++
				done(true)
			case !errors.Is(err, errHostHasty):
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if admitted < 30 || admitted > 35 {
			t.Errorf("%d requests in a minute", admitted)
		}
		time.Sleep(time.Minute)
		if _, err := a.reserve("c-m-1", "b", 100, nil, 2, time.Now); err != nil || len(a.made["c-m-1"]) != 1 {
			t.Errorf("%v, hosts that asked earlier stay: %v", err, a.made)
		}
	})
}

// Requests that wait are limited by machine and by cluster.
func TestConnectAgent_LimitsRequestsThatWait(t *testing.T) {
	for name, tc := range map[string]struct {
		tokens  []string
		cluster int
		want    map[int]int
		says    string
	}{
		"one machine": {tokens: []string{bootstrapJWT}, cluster: 100,
			want: map[int]int{http.StatusServiceUnavailable: 2, http.StatusTooManyRequests: 6},
			says: "this machine is already connecting"},
		"two machines of a cluster": {tokens: []string{bootstrapJWT, "jwt-of-n"}, cluster: 3,
			want: map[int]int{http.StatusServiceUnavailable: 3, http.StatusTooManyRequests: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Wait, w.options.MaxClusterConnecting = time.Second, tc.cluster
			w.addMachine("n", "jwt-of-n")
			w.bound("m", someID)
			w.bound("n", someID)
			change(w, w.secrets, "n-machine-bootstrap-token", func(s *corev1.Secret) {
				s.Annotations[rkev1.LastAccessAnnotation] = noon.Format(time.RFC3339)
			})
			// Every machine waits for its account.
			for _, account := range []string{"b-machine-plan", "o-machine-plan"} {
				object, _, err := w.accounts.GetByKey("ns/" + account)
				if err != nil || w.accounts.Delete(object) != nil {
					t.Fatal(err)
				}
			}
			w.secretClient.EXPECT().Patch(gomock.Any(), gomock.Any(), gomock.Any(), gomock.Any()).AnyTimes()
			server, client := w.serve()
			var mu sync.Mutex
			got, bodies := map[int]int{}, ""
			var group sync.WaitGroup
			for i := range 8 {
				group.Go(func() {
					response, body := ask(t, server, client, http.MethodGet, agentPath, with(hello(), "Authorization",
						"Bearer "+naming.TokenHash(tc.tokens[i%len(tc.tokens)])))
					mu.Lock()
					defer mu.Unlock()
					got[response.StatusCode]++
					bodies += body
				})
			}
			group.Wait()
			if diff := cmp.Diff(tc.want, got); diff != "" || !strings.Contains(bodies, tc.says) {
				t.Errorf("answers by status (-want +got):\n%s\n%s", diff, bodies)
			}
		})
	}
}
