package connect

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// flood is a world with a clock, whose handler gets requests directly.
type flood struct {
	*world
	clock   *clock
	handler http.Handler
}

func newFlood(t *testing.T, configure func(*Options)) *flood {
	t.Helper()
	f := &flood{world: newWorld(t), clock: &clock{now: noon}}
	f.add(f.secrets, storedPlan())
	f.options.Now = f.clock.read
	if configure != nil {
		configure(&f.options)
	}
	handler, err := New(f.options)
	if err != nil {
		t.Fatal(err)
	}
	f.handler = handler
	return f
}

// write sends an update as the machine, and returns the status and the value of Retry-After.
func (f *flood) write(body string) (status int, retryAfter string) {
	f.t.Helper()
	return f.send(http.MethodPut, ownSecret, body, planJWT)
}

func (f *flood) send(method, target, body, token string) (status int, retryAfter string) {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	answer := record(f.handler, request)
	return answer.Code, answer.Header().Get("Retry-After")
}

func TestPassthrough_WritesOfAMachineAreLimited(t *testing.T) {
	valid := string(encodeSecret(t, storedPlan()))
	tests := map[string]struct {
		body       string
		wantStatus int
	}{
		"accepted writes":   {valid, http.StatusOK},
		"conflicts":         {strings.ReplaceAll(valid, `ersion":"7"`, `ersion":"6"`), http.StatusConflict},
		"unreadable bodies": {"x", http.StatusBadRequest},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFlood(t, nil)
			f.secretClient.EXPECT().Get("ns", "b-machine-plan", metav1.GetOptions{}).AnyTimes().
				Return(storedPlan(), nil)
			for i := range writesAtOnce {
				if status, _ := f.write(tc.body); status != tc.wantStatus {
					t.Fatalf("write %d: status %d, want %d", i, status, tc.wantStatus)
				}
			}
			reached := len(f.reached())
			if status, retry := f.write(tc.body); status != http.StatusTooManyRequests || retry != "1" {
				t.Errorf("status %d, Retry-After %q; want 429 after a second", status, retry)
			}
			if len(f.reached()) != reached {
				t.Error("the API server got the write beyond the limit")
			}
			f.clock.pass(time.Second)
			if status, _ := f.write(tc.body); status != tc.wantStatus {
				t.Errorf("status %d after a second, want %d", status, tc.wantStatus)
			}
			if status, _ := f.send(http.MethodPut, ownSecrets+"/o-machine-plan", "x", otherJWT); status !=
				http.StatusBadRequest {
				t.Errorf("status %d for another machine", status)
			}
		})
	}
}

func TestPassthrough_BytesOfAMachineAreLimited(t *testing.T) {
	f := newFlood(t, func(o *Options) { o.MachineWriteBytes = 128 << 10 })
	large := strings.Repeat("x", maxBody-1)
	for i := range 3 {
		f.clock.pass(time.Second)
		if status, _ := f.write(large); status != http.StatusBadRequest {
			t.Fatalf("write %d: status %d", i, status)
		}
	}
	status, retry := f.write("x")
	if wait, err := strconv.Atoi(retry); status != http.StatusTooManyRequests || err != nil || wait < 14 || wait > 16 {
		t.Fatalf("status %d, Retry-After %q; want 429 for the time of 2 MiB", status, retry)
	}
	f.clock.pass(16 * time.Second)
	if status, _ := f.write("x"); status != http.StatusBadRequest {
		t.Errorf("status %d after that time", status)
	}
}

func TestPassthrough_ReadsOfAMachineAreLimited(t *testing.T) {
	f := newFlood(t, nil)
	for i := range readsAtOnce {
		if status, _ := f.send(http.MethodGet, ownSecret, "", planJWT); status != http.StatusOK {
			t.Fatalf("read %d: status %d", i, status)
		}
	}
	for _, target := range []string{ownSecret, "/version", ownSecrets + "?watch=true&" + ownFilter} {
		if status, retry := f.send(http.MethodGet, target, "", planJWT); status != http.StatusTooManyRequests ||
			retry != "1" {
			t.Errorf("%s: status %d, Retry-After %q; want 429", target, status, retry)
		}
	}
	if status, _ := f.send(http.MethodGet, ownSecrets+"/o-machine-plan", "", otherJWT); status != http.StatusOK {
		t.Errorf("status %d for another machine", status)
	}
	if status, _ := f.write(string(encodeSecret(t, storedPlan()))); status != http.StatusOK {
		t.Errorf("status %d for a report of the same machine", status)
	}
}

func TestAllowances_UpdatesUnderWayAreLimited(t *testing.T) {
	a := newAllowances(DefaultMachineWrites, DefaultMachineWriteBytes, func() time.Time { return noon })
	var releases []func()
	begin := func(machine string, size int64) bool {
		release, wait := a.update(machine, size)
		if wait == 0 {
			releases = append(releases, release)
		}
		return wait == 0
	}
	first, second, third := begin("a", 10), begin("a", 10), begin("a", 10)
	if !first || !second || third {
		t.Error("a machine must have two updates under way")
	}
	for i := range bodiesAtOnce/maxBody - 1 {
		if !begin(strconv.Itoa(i), -1) {
			t.Errorf("the update of machine %d is refused", i)
		}
	}
	if begin("b", maxBody) || !begin("b", 10) {
		t.Error("only the small update fits into the memory for bodies")
	}
	for _, release := range releases {
		release()
	}
	releases = nil
	one := 0
	for begin("tenant-a/"+strconv.Itoa(one), maxBody) {
		one++
	}
	if one != bodiesAtOnce/maxBody/2 || !begin("tenant-b/1", maxBody) {
		t.Errorf("one namespace has %d updates under way, want half of all, and a place for another namespace", one)
	}
	for _, release := range releases {
		release()
	}
	if !begin("a", maxBody) || a.bodies != maxBody {
		t.Errorf("%d bytes are under way after the end of all updates", a.bodies)
	}
}

// A small report makes the API server store the complete Secret, so it costs that much.
func TestPassthrough_SmallReportsOfALargeSecretCostItsSize(t *testing.T) {
	large := storedPlan()
	large.Data[nodeplan.KeyPlan] = bytes.Repeat([]byte(" "), 700<<10)
	f := newFlood(t, nil)
	f.add(f.secrets, large)
	sent := storedPlan()
	sent.Data = map[string][]byte{nodeplan.KeyFailureCount: []byte("1")}
	accepted := 0
	for range 60 {
		if status, _ := f.write(string(encodeSecret(t, sent))); status == http.StatusOK {
			accepted++
		}
		f.clock.pass(time.Second)
	}
	if accepted < 3 || accepted > 10 {
		t.Errorf("%d small reports are accepted in a minute, want a few", accepted)
	}
}

func TestAllowances_IdleMachinesAreForgotten(t *testing.T) {
	clock := &clock{now: noon}
	a := newAllowances(DefaultMachineWrites, DefaultMachineWriteBytes, clock.read)
	release, _ := a.update("busy", 1)
	_, held := newLease(t.Context())
	closed := a.watch("watching", held)
	for i := range 1000 {
		a.read(strconv.Itoa(i))
	}
	clock.pass(2 * idleTime)
	a.read("new")
	if len(a.machines) != 3 || a.machines["busy"] == nil || a.machines["watching"] == nil {
		t.Errorf("%d machines are remembered, want the new one and those with requests under way", len(a.machines))
	}
	release()
	closed()
	clock.pass(2 * idleTime)
	a.read("new")
	if len(a.machines) != 1 {
		t.Errorf("%d machines are remembered, want one", len(a.machines))
	}
}

func TestAllowances_TheOldestWatchEnds(t *testing.T) {
	a := newAllowances(DefaultMachineWrites, DefaultMachineWriteBytes, func() time.Time { return noon })
	var all []*lease
	var closers []func()
	open := func() {
		_, held := newLease(t.Context())
		all = append(all, held)
		closers = append(closers, a.watch("m", held))
	}
	ended := func() (out []int) {
		for i, each := range all {
			select {
			case <-each.ended:
				out = append(out, i)
			default:
			}
		}
		return out
	}
	for range maxWatches {
		open()
	}
	if got := ended(); got != nil {
		t.Fatalf("watches %v ended", got)
	}
	open()
	if got := ended(); len(got) != 1 || got[0] != 0 {
		t.Errorf("watches %v ended, want the first", got)
	}
	closers[2]()
	open()
	if got := ended(); len(got) != 1 {
		t.Errorf("watches %v ended, although one was closed", got)
	}
}

func TestLease_EndsWithTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, held := newLease(t.Context())
		checks := 0
		begun := time.Now()
		held.keep(nil, recheckTime, func() bool { checks++; return checks < 3 })
		if ctx.Err() == nil || time.Since(begun) != 3*recheckTime {
			t.Errorf("context %v after %v", ctx.Err(), time.Since(begun))
		}
		<-held.ended
	})
}

// An agent with the usual client writes more often than it may. The client waits and tries again by itself.
func TestPassthrough_ClientsWaitAndRetry(t *testing.T) {
	w := newWorld(t)
	w.add(w.secrets, storedPlan())
	w.options.Now, w.options.MachineWrites = time.Now, 600
	server, _ := w.serve()
	w.body = string(encodeSecret(t, storedPlan()))
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: planJWT, QPS: -1,
		ContentConfig:   rest.ContentConfig{ContentType: "application/json"},
		TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(server)}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range writesAtOnce + 3 {
		report := storedPlan()
		report.Data[nodeplan.KeySuccessCount] = []byte(strconv.Itoa(i))
		if _, err := client.CoreV1().Secrets("ns").Update(t.Context(), report, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	if got := len(w.reached()); got != writesAtOnce+3 {
		t.Errorf("the API server got %d writes, want %d", got, writesAtOnce+3)
	}
}
