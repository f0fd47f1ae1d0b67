package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/status"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// browserTab is the reader of a stream.
type browserTab struct {
	t      *testing.T
	header http.Header
	leave  context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	code int
	text bytes.Buffer
	// broken makes writes fail, as after a deadline.
	broken   bool
	deadline time.Time
}

func (b *browserTab) Header() http.Header { return b.header }

func (b *browserTab) WriteHeader(code int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.code = code
}

func (b *browserTab) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return 0, errors.New("deadline exceeded")
	}
	return b.text.Write(data)
}

func (b *browserTab) Flush() {}

func (b *browserTab) SetWriteDeadline(at time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = at
	return nil
}

// open opens a stream of a page.
func (p *page) open(query, cursor string) *browserTab {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	r := p.request(http.MethodGet, "/ui/api/v1/stream"+query, "").WithContext(ctx)
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	b := &browserTab{t: p.t, header: http.Header{}, leave: cancel, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		p.handler.ServeHTTP(b, r)
	}()
	synctest.Wait()
	return b
}

// event is a received event in short form.
type event struct {
	name, id string
	rows     rowsBody
	data     string
}

// events returns what arrived since the last call.
func (b *browserTab) events() []event {
	b.t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []event
	for text := range strings.SplitSeq(b.text.String(), "\n\n") {
		var e event
		for line := range strings.SplitSeq(text, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "data":
				e.data = value
			}
		}
		if e.name == "rows" {
			check(b.t, json.Unmarshal([]byte(e.data), &e.rows))
		}
		if e.name != "" {
			out = append(out, e)
		}
	}
	b.text.Reset()
	return out
}

// short describes events: names of rows, not their content.
func short(events []event) []string {
	var out []string
	for _, e := range events {
		if e.name != "rows" {
			out = append(out, strings.TrimSuffix(e.name+" "+e.data, " {}"))
			continue
		}
		text := e.rows.Kind
		if e.rows.Reset {
			text += " reset"
		}
		var names []string
		for _, row := range e.rows.Put {
			var named status.Machine
			if json.Unmarshal(row, &named) == nil {
				names = append(names, named.Namespace+"/"+named.Name)
			}
		}
		slices.Sort(names)
		if names != nil {
			text += " put " + strings.Join(names, ",")
		}
		if e.rows.Gone != nil {
			text += " gone " + strings.Join(e.rows.Gone, ",")
		}
		out = append(out, text)
	}
	return out
}

func (b *browserTab) wants(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, short(b.events())); diff != "" {
		b.t.Errorf("difference (-want +got):\n%s", diff)
	}
}

func (b *browserTab) end() {
	b.leave()
	<-b.done
}

// local returns a page of ann in local mode, which works in virtual time.
func local(t *testing.T, f *fakeAPI, change func(*Options)) *page {
	t.Helper()
	opts := options(&rest.Config{Host: "http://memkube", Transport: f})
	opts.LocalToken = "local-token"
	if change != nil {
		change(&opts)
	}
	p := newPage(t, opts)
	if got := p.signIn("local-token"); got.Code != http.StatusOK {
		t.Fatalf("sign in: %d %s", got.Code, got.Body)
	}
	return p
}

func cluster(namespace, name string) *provv1.Cluster {
	out := build.Cluster(name)
	out.Namespace = namespace
	return out
}

func inTime(t *testing.T, objects []runtime.Object, story func(t *testing.T, f *fakeAPI, p *page)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t, objects...)
		ending := make(chan struct{})
		p := local(t, f, func(o *Options) { o.Ending = ending })
		story(t, f, p)
		close(ending)
		time.Sleep(time.Second) // the hubs end with it, and so do their goroutines
	})
}
