package ui

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// fakeMachine is a simulated machine.
type fakeMachine = fakeagent.Machine

// upgraded is a version to which the clusters of the tests can be upgraded.
const upgraded = "v1.36.3+k3s1"

// previewTime is the limit for the script with ten edits.
const previewTime = 6 * time.Minute

// said is what the page says about an edit.
type said struct {
	What     string `json:"what"`
	Summary  string `json:"summary"`
	Order    string `json:"order"`
	Machines []struct {
		Name  string        `json:"name"`
		Class planner.Class `json:"class"`
	} `json:"machines"`
}

// TestUIPreview makes edits of a running cluster, in the editor and in forms: a label, a larger and a smaller pool,
// configuration, a file, registries, other hosts, a new pool and its end, a version, and a pause. The preview of each
// names the machines, the classes and the order of what then happens.
func TestUIPreview(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true})
	namespace := plane.Namespace(t)
	st.Cluster(namespace, "demo", stage.K3s, stage.Pool("servers", "ec", 1), stage.Pool("workers", "w", 2))
	plane.Until(t, clusterTime, func() string { return incomplete(t, st, namespace, "demo") })
	result := filepath.Join(t.TempDir(), "said.json")
	env := map[string]string{"URL": st.URL, "TOKEN": administrator(t, namespace), "NAMESPACE": namespace,
		"RESULT": result, "VERSION": upgraded}
	var before map[string]fact
	var watch *restarts
	browseFor(t, previewTime, "preview", env, steps{
		"before": func() string {
			before, watch = facts(t, st, namespace), watchRestarts(st, namespace)
			return ""
		},
		"compare": func() string {
			plane.Until(t, clusterTime, func() string { return incomplete(t, st, namespace, "demo") })
			return compare(readSaid(t, result), before, facts(t, st, namespace), watch.pools("demo"))
		},
	})
}

func readSaid(t *testing.T, path string) said {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	var out said
	check(t, json.Unmarshal(data, &out))
	return out
}

// compare says in one line how the page's preview differs from what happened, or "".
func compare(page said, before, after map[string]fact, restarted []string) string {
	happened := happenedTo(before, after)
	expected := map[string]planner.Class{}
	var inOrder []string
	for i, m := range page.Machines {
		name := m.Name
		if m.Class == planner.ClassAdd {
			name = "new " + strconv.Itoa(i)
		}
		expected[name] = m.Class
		if m.Class == planner.ClassRestart {
			inOrder = append(inOrder, name)
		}
	}
	unchanged := 0
	for name, class := range happened {
		if class == planner.ClassNone {
			unchanged++
			delete(happened, name)
		}
	}
	if slices.Contains(slices.Collect(maps.Values(expected)), planner.ClassRemove) ||
		slices.Contains(slices.Collect(maps.Values(expected)), planner.ClassAdd) {
		// Cluster API chooses which of equal machines it removes, and names the new ones.
		expected, happened = anonymous(expected), anonymous(happened)
	}
	if diff := cmp.Diff(expected, happened); diff != "" {
		return oneLine(fmt.Sprintf("%s (-page +happened): %s", page.What, diff))
	}
	if diff := cmp.Diff(poolsOf("demo", inOrder), restarted); diff != "" {
		return oneLine(fmt.Sprintf("%s: order of restarts (-page +happened): %s", page.What, diff))
	}
	if want := countText(unchanged); unchanged > 0 && !strings.Contains(page.Summary, want+": no change") {
		return fmt.Sprintf("%s: the page says %q, and nothing happened to %s", page.What, page.Summary, want)
	}
	return ""
}

func countText(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return strconv.Itoa(n) + " machines"
}

// anonymous replaces the names of machines by numbers, in the order of their classes.
func anonymous(classes map[string]planner.Class) map[string]planner.Class {
	out := map[string]planner.Class{}
	for i, class := range slices.Sorted(maps.Values(classes)) {
		out[strconv.Itoa(i)] = class
	}
	return out
}

// oneLine makes a text an answer to a script.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
