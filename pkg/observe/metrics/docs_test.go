package metrics

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocs_EveryMetricHasARow compares docs/metrics.md with the code.
func TestDocs_EveryMetricHasARow(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `drover_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for _, d := range Definitions() {
		labels := " "
		if len(d.Labels) > 0 {
			labels = " `" + strings.Join(d.Labels, "`, `") + "` "
		}
		want = append(want, fmt.Sprintf("| `%s` | %s |%s| %s |", d.Name, d.Type, labels,
			strings.ReplaceAll(d.Help, "\\\"", "\"")))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows of docs/metrics.md (-code +docs):\n%s", diff)
	}
}

// TestDefinitions_FollowConventions: units are seconds, and only counters end in _total.
func TestDefinitions_FollowConventions(t *testing.T) {
	for _, d := range Definitions() {
		if (d.Type == TypeCounter) != strings.HasSuffix(d.Name, "_total") {
			t.Errorf("%s is a %s", d.Name, d.Type)
		}
		if d.Type == TypeHistogram && !strings.HasSuffix(d.Name, "_duration_seconds") {
			t.Errorf("%s: durations end in _duration_seconds", d.Name)
		}
		if !strings.HasPrefix(d.Name, "drover_") || !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s: the prefix must be drover_ and the help must be a sentence", d.Name)
		}
	}
}

// TestReasons_AllAreKnown: no reason of the program is reported as Other, which would help no reader.
func TestReasons_AllAreKnown(t *testing.T) {
	for path, names := range constants(t, "../../decide/planner/decision.go", "../../controllers/*/*.go",
		"../../decide/machinejob/*.go", "../../decide/tenancy/*.go") {
		for name, value := range names {
			if strings.HasPrefix(strings.ToLower(name), "reason") && !known[value] && !ofManagement[value] {
				t.Errorf("%s: %s is %q, which pkg/observe/metrics does not know", path, name, value)
			}
		}
	}
}

// TestReasons_EachHasAPage: every reason or code in an alert has a page that explains it.
func TestReasons_EachHasAPage(t *testing.T) {
	for _, value := range slices.Compact(
		slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(known)), Codes()...)))) {
		if _, err := os.Stat("../../../docs/reasons/" + value + ".md"); err != nil {
			t.Errorf("reason %s of metrics needs a page docs/reasons/%s.md", value, value)
		}
	}
}

// ofManagement are reasons of objects and conditions without metrics.
var ofManagement = map[string]bool{"Reconciling": true, "Disconnected": true, "FleetClusterTaken": true,
	"FleetWorkspaceRefused": true, "ClustersInWorkspace": true, "NamespaceExists": true, "RepositoryUnavailable": true,
	"RepositoryRefused": true, "ChartMissing": true, "ChartInvalid": true, "BundleTaken": true, "BundleRefused": true}
