package managedchart

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/reach/chartrepo"
)

// A chart may be many times larger when unpacked. Between downloads, only what a Bundle can hold is kept.
func TestDownloads_KeepOnlyWhatABundleHolds(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 2*fleet.MaxResources)
	_, _ = rand.Read(noise) // never fails
	zeros := make([]byte, 16<<20)
	for name, tc := range map[string]struct {
		data      []byte
		wantError string
	}{
		"a chart that a Bundle cannot hold": {noise, "spec.chart: the files of the chart need more than 1280 KiB"},
		"a chart that compresses well":      {zeros, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				key, request := types.NamespacedName{Namespace: "n", Name: "web"}, chartrepo.Request{Version: "1.0.0"}
				d := newDownloads(
					t.Context(),
					func(context.Context, chartrepo.Request, string) (*chartrepo.Chart, error) {
						return &chartrepo.Chart{Version: "1.0.0", Files: []fleet.File{{Name: "a", Data: tc.data}}}, nil
					},
					time.Now,
					func(types.NamespacedName) {},
				)
				d.get(key, request, "")
				synctest.Wait()
				got := d.get(key, request, "")
				if tc.wantError != "" && (got.err == nil || !strings.Contains(got.err.Error(), tc.wantError) ||
					got.after != firstRetry) {
					t.Errorf("error %v, next download after %v", got.err, got.after)
				}
				kept := 0
				if got.found != nil {
					for _, file := range got.found.resources {
						kept += len(file.(map[string]any)["content"].(string))
					}
				}
				if kept > fleet.MaxResources || (kept == 0) != (tc.wantError != "") {
					t.Errorf("%d bytes are kept", kept)
				}
			})
		})
	}
}
