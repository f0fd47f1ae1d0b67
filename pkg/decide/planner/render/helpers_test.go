package render_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// basicInput is a machine of a cluster without configuration, changed by edits.
func basicInput(runtime distro.Runtime, place string, edits ...func(*render.Input)) render.Input {
	in := manifest{}.input(runtime, positions[place])
	for _, edit := range edits {
		edit(&in)
	}
	return in
}

// global sets one key of machineGlobalConfig.
func global(key string, value any) func(*render.Input) {
	return func(in *render.Input) {
		config := &in.ControlPlane.Spec.MachineGlobalConfig
		if config.Data == nil {
			config.Data = map[string]any{}
		}
		config.Data[key] = value
	}
}

func mustPlan(tb testing.TB, in render.Input) plan.NodePlan {
	tb.Helper()
	p, _, err := render.Plan(in)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func fileAt(p plan.NodePlan, path string) (plan.File, bool) {
	i := slices.IndexFunc(p.Files, func(f plan.File) bool { return f.Path == path })
	if i < 0 {
		return plan.File{}, false
	}
	return p.Files[i], true
}

func contentAt(tb testing.TB, p plan.NodePlan, path string) string {
	tb.Helper()
	file, ok := fileAt(p, path)
	if !ok {
		tb.Fatalf("the plan has no file %s", path)
	}
	content, err := base64.StdEncoding.DecodeString(file.Content)
	if err != nil {
		tb.Fatal(err)
	}
	return string(content)
}

// configOf is the main configuration of a plan.
func configOf(tb testing.TB, p plan.NodePlan, runtime distro.Runtime) map[string]any {
	tb.Helper()
	var config map[string]any
	if err := json.Unmarshal([]byte(contentAt(tb, p, runtime.ConfigFile())), &config); err != nil {
		tb.Fatal(err)
	}
	return config
}

// list makes a list like a decoder.
func list(values ...any) []any { return values }

func sprintf(format string, value any) string { return fmt.Sprintf(format, value) }
