package charts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAdmission_MatchesTheServer: without the chart, `drover server` installs the same objects.
func TestAdmission_MatchesTheServer(t *testing.T) {
	for chart, server := range map[string]string{"admission-policies.yaml": "policies.yaml",
		"admission-webhooks.yaml": "webhooks.yaml"} {
		want, err := os.ReadFile(filepath.Join("../../pkg/admission/registration/files", server))
		check(t, err)
		got, err := os.ReadFile(filepath.Join(droverChart, "files", chart))
		check(t, err)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: copy pkg/admission/registration/files/%s over it: %s", chart, server, diff)
		}
	}
}
