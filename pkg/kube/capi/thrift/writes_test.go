package thrift

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/controller"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

const (
	aMachine = `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine",` +
		`"metadata":{"name":"m1","resourceVersion":"7"}}`
	aStatus = `{"apiVersion":"v1","kind":"Status","metadata":{},"status":"Success","details":{"uid":"one"}}`
)

// The transport learns from each answer to a write, whichever client has sent it.
func TestTransport_Learns(t *testing.T) {
	machine := versions{machineKind: "7"}
	for name, test := range map[string]struct {
		method, query, media, answer string
		code                         int
		err                          error
		want                         versions
		uncertain                    bool
	}{
		"a created object":                {method: "POST", code: 201, answer: aMachine, want: machine},
		"a changed object":                {method: "PATCH", code: 200, answer: aMachine, want: machine},
		"an updated object":               {method: "PUT", code: 200, answer: aMachine, want: machine},
		"a deletion that finalizers hold": {method: "DELETE", code: 200, answer: aMachine, want: machine},
		"a deletion that is done":         {method: "DELETE", code: 200, answer: aStatus, uncertain: true},
		"a conflict":                      {method: "PUT", code: 409, answer: aStatus},
		"a time-out of the API server":    {method: "PUT", code: 504, answer: aStatus, uncertain: true},
		"an answer that is lost":          {method: "POST", err: errors.New("connection reset"), uncertain: true},
		"half an answer":                  {method: "POST", code: 201, answer: aMachine[:50], uncertain: true},
		"a dry run":                       {method: "PATCH", query: "?dryRun=All", code: 200, answer: aMachine},
		"a read":                          {method: "GET", code: 200, answer: aMachine},
		"another form": {method: "POST", code: 201, media: runtime.ContentTypeProtobuf,
			answer: "k8s"},
	} {
		t.Run(name, func(t *testing.T) {
			thrifty := New(Options{})
			client := http.Client{Transport: thrifty.Transport(roundTripper(
				func(*http.Request) (*http.Response, error) {
					media := "application/json; charset=utf-8"
					if test.media != "" {
						media = test.media
					}
					return &http.Response{StatusCode: test.code, Header: http.Header{"Content-Type": {media}},
						Body: io.NopCloser(strings.NewReader(test.answer))}, test.err
				}))}
			request, err := http.NewRequestWithContext(t.Context(), test.method, "http://api/"+test.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if err == nil {
				body, err := io.ReadAll(response.Body)
				if closed := response.Body.Close(); err != nil || closed != nil || string(body) != test.answer {
					t.Errorf("the caller got %q, %v, %v", body, err, closed)
				}
			}
			if diff := cmp.Diff(test.want, thrifty.writes.known()); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if got := !thrifty.writes.lastUncertain().IsZero(); got != test.uncertain {
				t.Errorf("uncertain %t, want %t", got, test.uncertain)
			}
		})
	}
}

// Cluster API deletes Machines with a client of its own, made from the manager's configuration.
func TestTransport_LearnsFromTheClientThatDeletes(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, aMachine)
	}))
	defer api.Close()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	thrifty, config := New(Options{Scheme: scheme}), &rest.Config{Host: api.URL}
	config.Wrap(thrifty.Transport)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	deleting, err := controller.NewClientWithDeleteResponse(&clusterv1.Machine{},
		schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machines"}, scheme, config, client)
	if err != nil {
		t.Fatal(err)
	}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m1"}}
	if _, err := deleting.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(versions{machineKind: "7"}, thrifty.writes.known()); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// known returns the versions of writes that caches have not shown.
func (w *writes) known() versions {
	var known versions
	for kind, newest := range w.newest {
		if known == nil {
			known = versions{}
		}
		known[kind] = newest.version
	}
	return known
}

// Answers may arrive in another order than their writes.
func TestWrites_KeepTheNewest(t *testing.T) {
	w := writes{now: time.Now}
	for _, version := range []string{"9", "11", "10"} {
		w.saw(machineKind, version)
	}
	if got := w.newest[machineKind].version; got != "11" {
		t.Errorf("newest version %s, want 11", got)
	}
}

// An informer of each Go type counts, and one that is not filled is behind. Kinds without an informer are never behind.
func TestCaches_Show(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	thrifty := New(Options{Scheme: scheme})
	create := thrifty.Informers(toolscache.NewSharedIndexInformer)
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(machineKind)
	names := create(nil, partial, 0, toolscache.Indexers{}).GetStore()
	whole := create(nil, &clusterv1.Machine{}, 0, toolscache.Indexers{}).GetStore()
	thrifty.writes.saw(machineKind, "9")
	thrifty.writes.saw(hostKind, "9")
	for _, step := range []struct {
		store   toolscache.Store
		version string
		unseen  versions
	}{
		{whole, "", versions{machineKind: "9"}},
		{whole, "10", versions{machineKind: "9"}},
		{names, "8", versions{machineKind: "9"}},
		{names, "9", nil},
	} {
		if step.version != "" {
			step.store.Bookmark(step.version)
		}
		if diff := cmp.Diff(step.unseen, thrifty.unseen(time.Time{})); diff != "" {
			t.Errorf("at version %q (-want +got):\n%s", step.version, diff)
		}
	}
}
