package snapshots

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/snapshots"
)

// The first polls of many clusters spread over a minute.
func TestOffset_SpreadsClusters(t *testing.T) {
	t.Parallel()
	const clusters = 600
	quarters := map[time.Duration]int{}
	for i := range clusters {
		at := offset(types.NamespacedName{Namespace: "fleet-default", Name: fmt.Sprint("cluster-", i)})
		if at < 0 || at >= every {
			t.Fatalf("a cluster waits %s for its first poll", at)
		}
		quarters[at/(every/4)]++
	}
	for quarter, n := range quarters {
		if n < clusters/8 || n > clusters/2 {
			t.Errorf("%d of %d clusters are polled in quarter %d of the first minute", n, clusters, quarter)
		}
	}
}

// A list is read page by page, up to a limit.
func TestPages_Continue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pages int
		want  []string
	}{
		"one":   {1, []string{"limit=1000"}},
		"three": {3, []string{"limit=1000", "continue=1&limit=1000", "continue=2&limit=1000"}},
		"endless pages": {1 << 20, []string{"limit=1000", "continue=1&limit=1000", "continue=2&limit=1000",
			"continue=3&limit=1000", "continue=4&limit=1000"}},
		"an error on the first page": {0, []string{"limit=1000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got = append(got, r.URL.RawQuery); tc.pages == 0 {
					http.Error(w, "no", http.StatusForbidden)
					return
				}
				next := ""
				if len(got) < tc.pages {
					next = strconv.Itoa(len(got))
				}
				_, _ = fmt.Fprintf(w, `{"kind":"ETCDSnapshotFileList","metadata":{"continue":%q},"items":[]}`, next)
			}))
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			var list snapshots.List
			err = pages(t.Context(), client.Discovery().RESTClient(), asFiles, 1000, list.Read)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if (err != nil) != (tc.pages == 0) || list.Complete() != (tc.pages > 0 && tc.pages < 10) {
				t.Errorf("%v, complete %t", err, list.Complete())
			}
		})
	}
}

// The error says why an answer ended early, instead of that it is no list.
func TestPages_ReturnErrors(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"kind":"ETCDSnapshotFileList","items":[`))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var list snapshots.List
	if err := pages(t.Context(), client.Discovery().RESTClient(), asFiles, 1000, list.Read); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Errorf("the error is %v", err)
	}
}
