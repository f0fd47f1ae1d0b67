package grow

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// An agent counts the events of its watch, and continues after the newest one.
func TestWatchContinues(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		asked = append(asked, fmt.Sprint(r.URL.Path, " ", query.Get("fieldSelector"), " from ",
			query.Get("resourceVersion"), " ", r.Header.Get("Authorization")))
		if len(asked) == 3 {
			rw.WriteHeader(http.StatusGone)
			return
		}
		fmt.Fprintf(rw, `{"type":"ADDED","object":{"metadata":{"resourceVersion":"%d"}}}`+"\n", 6+len(asked))
	}))
	t.Cleanup(server.Close)
	n := &nodes{T: t, ctx: t.Context()}
	of := &node{http: server.Client(), host: server.URL, token: "secret", namespace: "ns", secret: "plan"}
	for turn := range 3 {
		if err := n.stream(of); (err != nil) != (turn == 2) {
			t.Errorf("turn %d: %v", turn, err)
		}
	}
	const path = "/api/v1/namespaces/ns/secrets metadata.name=plan from "
	want := []string{path + " Bearer secret", path + "7 Bearer secret", path + "8 Bearer secret"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if n.events.Load() != 2 || n.open.Load() != 0 || of.version != "" {
		t.Errorf("%d events, %d open watches, version %q", n.events.Load(), n.open.Load(), of.version)
	}
}

func TestCountNeedsWholeEvents(t *testing.T) {
	n, of := &nodes{T: t, ctx: t.Context()}, &node{}
	part := bufio.NewReader(strings.NewReader(`{"resourceVersion":"3"`))
	if err := n.count(of, part); err != nil || of.version != "" {
		t.Errorf("the version of a part is %q, error %v", of.version, err)
	}
}

func TestReadiness(t *testing.T) {
	r := &readiness{changed: make(chan struct{}, 1), appliedAt: map[string]time.Time{},
		readyAt: map[string]time.Time{}}
	for i := range 3 {
		r.applied(clusterName(i))
	}
	cluster := &provv1.Cluster{}
	cluster.Name = clusterName(1)
	r.note(cluster)
	if got := r.unready(); len(got) != 3 {
		t.Errorf("unready are %v", got)
	}
	cluster.Status.Ready = true
	cluster.Status.Conditions = []rkev1.GenericCondition{{Type: provv1.ConditionReady, Status: rkev1.ConditionTrue}}
	r.note(cluster)
	if diff := cmp.Diff([]string{clusterName(0), clusterName(2)}, r.unready()); diff != "" {
		t.Errorf("unready (-want +got):\n%s", diff)
	}
	select {
	case <-r.changed:
	default:
		t.Error("a ready cluster must wake the wait")
	}
	r.readyAt[clusterName(1)] = r.appliedAt[clusterName(1)].Add(3 * time.Second)
	if median, most := r.quantiles(1, 2); median != 3 || most != 3 {
		t.Errorf("median %v, most %v", median, most)
	}
}

func TestOfCluster(t *testing.T) {
	for name, want := range map[string]bool{
		"c0001": true, "c0001-server-abc": true,
		"c0001x": false, "c00012-server": false, "c0002-worker": false, "": false,
	} {
		if got := ofCluster(name, "c0001"); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}
