package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/pkg/testkit/build"
)

const synced = `{"kind":"clusters"}`

func TestStream_SendsRowsAndChanges(t *testing.T) {
	inTime(t, []runtime.Object{cluster("team-a", "one"), build.Machine("one", "m1", "worker")},
		func(t *testing.T, f *fakeAPI, p *page) {
			b := p.open("?namespaces=*", "")
			defer b.end()
			time.Sleep(time.Second)
			got := b.events()
			var puts []string
			for _, e := range got {
				for _, row := range e.rows.Put {
					puts = append(puts, string(row))
				}
			}
			if len(puts) != 2 || b.code != http.StatusOK || b.header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("rows %v, code %d", puts, b.code)
			}
			if names := short(got); !slices.Contains(names, "synced "+synced) ||
				!slices.Contains(names, `synced {"kind":"machines"}`) || !strings.Contains(names[0], " reset") {
				t.Errorf("events %v", names)
			}
			check(t, f.Add(cluster("team-a", "two")))
			time.Sleep(time.Millisecond)
			b.wants("clusters put team-a/two") // the first change is not delayed
			check(t, f.Add(cluster("team-b", "three")))
			time.Sleep(2 * batchTime)
			b.wants("clusters put team-b/three")
			f.delete(t, "team-a", "one")
			time.Sleep(batchTime)
			b.wants("clusters gone team-a/one")
		})
}

// delete deletes a Cluster.
func (f *fakeAPI) delete(t *testing.T, namespace, name string) {
	t.Helper()
	f.change(t, http.MethodDelete, namespace, name, "")
}

// annotate changes a Cluster in a way that no row shows.
func (f *fakeAPI) annotate(t *testing.T, namespace, name string) {
	t.Helper()
	f.change(t, http.MethodPatch, namespace, name, `{"metadata":{"annotations":{"a":"b"}}}`)
}

// change sends a request about a Cluster.
func (f *fakeAPI) change(t *testing.T, method, namespace, name, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf(
		"http://memkube/apis/provisioning.cattle.io/v1/namespaces/%s/clusters/%s", namespace, name),
		strings.NewReader(body))
	check(t, err)
	r.Header.Set("Content-Type", "application/merge-patch+json")
	got, err := f.Server.RoundTrip(r)
	check(t, err)
	check(t, got.Body.Close())
	if got.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", method, got.Status)
	}
}

// A change of an object that no row shows is not sent.
func TestStream_LeavesOutWhatNoRowShows(t *testing.T) {
	inTime(t, []runtime.Object{cluster("team-a", "one")}, func(t *testing.T, f *fakeAPI, p *page) {
		b := p.open("", "")
		defer b.end()
		time.Sleep(time.Second)
		b.events()
		f.annotate(t, "team-a", "one")
		time.Sleep(time.Second)
		b.wants()
	})
}

func TestStream_BatchesChanges(t *testing.T) {
	inTime(t, nil, func(t *testing.T, f *fakeAPI, p *page) {
		b := p.open("", "")
		defer b.end()
		time.Sleep(time.Second)
		b.events()
		for i := range 9 {
			check(t, f.Add(cluster("team-a", fmt.Sprintf("c%d", i))))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(batchTime)
		if got := b.events(); len(got) > 2 {
			t.Errorf("%d events for changes within 90 ms: %v", len(got), short(got))
		}
	})
}

func TestStream_ResumesAfterTheCursor(t *testing.T) {
	inTime(t, []runtime.Object{cluster("team-a", "one"), cluster("team-a", "two")},
		func(t *testing.T, f *fakeAPI, p *page) {
			b := p.open("", "")
			time.Sleep(time.Second)
			cursor := ""
			for _, e := range b.events() {
				if e.id != "" {
					cursor = e.id
				}
			}
			b.end()
			check(t, f.Add(cluster("team-b", "three")))
			f.delete(t, "team-a", "two")
			time.Sleep(30 * time.Second)
			again := p.open("", cursor)
			time.Sleep(batchTime)
			again.wants("clusters put team-b/three gone team-a/two", "synced "+synced, `synced {"kind":"machines"}`)
			again.end()
			time.Sleep(2 * hubAge) // the hub ends, and its cursor means nothing
			last := p.open("", cursor)
			defer last.end()
			time.Sleep(time.Second)
			if got := short(last.events()); !strings.HasPrefix(got[0], "clusters reset") {
				t.Errorf("events %v", got)
			}
		})
}

func TestStream_TabsShareTheirWatches(t *testing.T) {
	inTime(t, []runtime.Object{cluster("team-a", "one")}, func(t *testing.T, f *fakeAPI, p *page) {
		one, two := p.open("", ""), p.open("?namespaces=*", "")
		time.Sleep(time.Second)
		for _, b := range []*browserTab{one, two} {
			if got := short(b.events()); !slices.ContainsFunc(got, func(s string) bool {
				return strings.Contains(s, "team-a/one")
			}) {
				t.Errorf("events %v", got)
			}
		}
		requests := func() map[string]int { return f.Count("user:ann") }
		want := map[string]int{"list clusters.provisioning.cattle.io": 1, "watch clusters.provisioning.cattle.io": 1,
			"list machines.cluster.x-k8s.io": 1, "watch machines.cluster.x-k8s.io": 1}
		if diff := cmp.Diff(want, requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		one.end()
		two.end()
		time.Sleep(30 * time.Second)
		three := p.open("", "")
		if got := requests()["list clusters.provisioning.cattle.io"]; got != 1 {
			t.Errorf("%d lists after a reload of the page", got)
		}
		three.end()
		time.Sleep(2 * hubAge)
		four := p.open("", "")
		defer four.end()
		if got := requests()["list clusters.provisioning.cattle.io"]; got != 2 {
			t.Errorf("%d lists after a pause", got)
		}
	})
}

func TestStream_ReportsWhatTheCallerMayNotRead(t *testing.T) {
	inTime(t, []runtime.Object{cluster("team-a", "one"), cluster("team-b", "two")},
		func(t *testing.T, f *fakeAPI, p *page) {
			f.forbid("ann", "team-b")
			b := p.open("?namespaces=team-b,team-a", "")
			defer b.end()
			time.Sleep(time.Second)
			var problems, rows []string
			for _, e := range b.events() {
				if e.name == "problem" {
					var body problemBody
					check(t, json.Unmarshal([]byte(e.data), &body))
					problems = append(problems, body.Kind+" "+body.Namespace+" "+body.Reason)
				}
				rows = append(rows, short([]event{e})...)
			}
			slices.Sort(problems)
			want := []string{"clusters team-b Forbidden", "machines team-b Forbidden"}
			if diff := cmp.Diff(want, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			text := strings.Join(rows, "\n")
			if !strings.Contains(text, "team-a/one") || strings.Contains(text, "two") ||
				!strings.Contains(text, "synced "+synced) {
				t.Errorf("events %v", rows)
			}
			f.mu.Lock()
			f.forbids = map[string]map[string]bool{}
			f.mu.Unlock()
			time.Sleep(longestPause)
			got := strings.Join(short(b.events()), "\n")
			if !strings.Contains(got, `solved {"kind":"clusters","namespace":"team-b"}`) ||
				!strings.Contains(got, "team-b/two") {
				t.Errorf("events %s", got)
			}
		})
}

// The API server ends a watch only when it ends by itself. So rows leave the page soon after the rights.
func TestStream_RightsThatAreTakenAwayEndRows(t *testing.T) {
	inTime(t, []runtime.Object{cluster("team-a", "one")}, func(t *testing.T, f *fakeAPI, p *page) {
		b := p.open("?namespaces=team-a", "")
		defer b.end()
		time.Sleep(time.Second)
		b.events()
		f.forbid("ann", "team-a")
		time.Sleep(longestWatch + time.Second)
		if got := strings.Join(short(b.events()), "\n"); !strings.Contains(got, "clusters gone team-a/one") ||
			!strings.Contains(got, `"reason":"Forbidden"`) {
			t.Errorf("events %s", got)
		}
	})
}

// An API server that cannot continue any watch is not asked for lists without a pause.
func TestStream_PausesBetweenLists(t *testing.T) {
	inTime(t, []runtime.Object{cluster("team-a", "one")}, func(t *testing.T, f *fakeAPI, p *page) {
		f.expires = true
		b := p.open("", "")
		defer b.end()
		time.Sleep(10*time.Second + time.Millisecond)
		if got := f.Count("user:ann")["list clusters.provisioning.cattle.io"]; got < 10 || got > 11 {
			t.Errorf("%d lists in 10 s", got)
		}
	})
}

func TestStream_EndsWithTheSession(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(t *testing.T, f *fakeAPI, p *page)
		want []string
	}{
		"the user signs out": {func(_ *testing.T, _ *fakeAPI, p *page) {
			p.do(p.request(http.MethodDelete, "/ui/api/v1/session", ""))
		}, []string{"signedout"}},
		"the token is revoked": {func(_ *testing.T, f *fakeAPI, _ *page) {
			f.revoke(token)
			time.Sleep(recheckTime + time.Second)
		}, []string{"signedout"}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, nil, func(t *testing.T, f *fakeAPI, p *page) {
				b := p.open("", "")
				time.Sleep(time.Second)
				b.events()
				tc.do(t, f, p)
				time.Sleep(time.Second)
				b.wants(tc.want...)
				<-b.done
			})
		})
	}
}

func TestStream_EndsWhenTheSessionExpires(t *testing.T) {
	inTime(t, nil, func(t *testing.T, _ *fakeAPI, p *page) {
		u, ok := p.handler.(*ui)
		if !ok {
			t.Fatal("the handler is no ui")
		}
		b := &browserTab{t: t, header: http.Header{}, done: make(chan struct{})}
		c, err := u.callerWith(t.Context(), "local-token")
		check(t, err)
		c.expires = time.Now().Add(time.Minute)
		go func() {
			defer close(b.done)
			_ = u.getStream(b, p.request(http.MethodGet, "/ui/api/v1/stream", ""), c)
		}()
		time.Sleep(59 * time.Second)
		b.events()
		time.Sleep(2 * time.Second)
		b.wants("signedout")
		<-b.done
	})
}

func TestStream_PingsAndCutsASlowBrowser(t *testing.T) {
	inTime(t, nil, func(t *testing.T, _ *fakeAPI, p *page) {
		b := p.open("", "")
		time.Sleep(pingTime + time.Second)
		b.mu.Lock()
		if !strings.Contains(b.text.String(), ": ping\n\n") {
			t.Errorf("no ping in %q", b.text.String())
		}
		if left := time.Until(b.deadline); left <= 0 || left > stallTime {
			t.Errorf("a write may take %s", left)
		}
		b.broken = true
		b.mu.Unlock()
		time.Sleep(pingTime)
		<-b.done
	})
}

func TestStream_IsLimited(t *testing.T) {
	inTime(t, nil, func(t *testing.T, _ *fakeAPI, p *page) {
		var tabs []*browserTab
		for range maxStreams {
			tabs = append(tabs, p.open("", ""))
			time.Sleep(time.Second)
		}
		extra := p.open("", "")
		<-extra.done
		if extra.code != http.StatusTooManyRequests || extra.header.Get("Retry-After") == "" {
			t.Errorf("code %d, headers %v", extra.code, extra.header)
		}
		tabs[0].end()
		time.Sleep(time.Second)
		again := p.open("", "")
		if again.code != http.StatusOK {
			t.Errorf("code %d after a tab was closed", again.code)
		}
		for _, b := range append(tabs[1:], again) {
			b.end()
		}
		// Selections of idle hubs make room for others.
		for i := range maxHubs + 2 {
			b := p.open(fmt.Sprintf("?namespaces=n%d", i), "")
			if b.code != http.StatusOK {
				t.Errorf("selection %d: code %d", i, b.code)
			}
			b.end()
			time.Sleep(time.Second)
		}
	})
}

func TestStream_RefusesAnOddSelection(t *testing.T) {
	inTime(t, nil, func(t *testing.T, _ *fakeAPI, p *page) {
		var many []string
		for i := range maxNamespaces + 1 {
			many = append(many, fmt.Sprintf("n%d", i))
		}
		for _, query := range []string{"A_B", "a,,b", "a/b", strings.Join(many, ",")} {
			wants(t, p.get("/ui/api/v1/stream?namespaces="+query), http.StatusBadRequest, reasonInvalid)
		}
	})
}

func TestStream_SplitsManyRows(t *testing.T) {
	h := newHub(&ledger{})
	b := &browserTab{t: t, header: http.Header{}}
	for i := range 300 {
		row := fmt.Sprintf(`{"namespace":"a","name":"m%d","message":%q}`, i, strings.Repeat("x", 2000))
		h.put(scope{kindMachines, ""}, fmt.Sprintf("a/m%d", i), []byte(row))
	}
	s := newStream(b, h)
	check(t, s.send(h.read(0, true)))
	resets, ids, rows, parts := 0, 0, 0, 0
	b.mu.Lock()
	text := b.text.String()
	b.mu.Unlock()
	for part := range strings.SplitSeq(text, "\n\n") {
		if strings.Contains(part, `"kind":"machines"`) && strings.Contains(part, "event: rows") {
			parts++
			rows += strings.Count(part, `"name":"m`)
			resets += strings.Count(part, `"reset":true`)
			ids += strings.Count(part, "\nid: ")
			if len(part) > eventBytes+8<<10 {
				t.Errorf("an event has %d bytes", len(part))
			}
		}
	}
	if parts < 3 || rows != 300 || resets != 1 || ids != 1 || !strings.Contains(text, h.id+".300") {
		t.Errorf("%d parts, %d rows, %d resets, %d cursors", parts, rows, resets, ids)
	}
}

// A page that comes from another replica keeps its rows until this one has them all.
func TestStream_DoesNotEmptyAPage(t *testing.T) {
	h, s := newHub(&ledger{}), scope{kindMachines, ""}
	h.unlisted[s] = true
	h.put(s, "a/one", []byte(`{"namespace":"a","name":"one"}`))
	b := &browserTab{t: t, header: http.Header{}}
	resumed := newStream(b, h)
	resumed.resume("another.5")
	check(t, resumed.send(h.read(0, true)))
	if got := b.text.String(); got != "" {
		t.Errorf("before the end of the list: %s", got)
	}
	h.listed(s, nil)
	check(t, resumed.send(h.read(0, true)))
	if got := b.text.String(); !strings.Contains(got, `"name":"one"`) || strings.Count(got, `"reset":true`) != 2 {
		t.Errorf("after the end of the list: %s", got)
	}
}
