package render_test

import (
	"testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/distro"
	"github.com/drover-io/drover/pkg/planner/render"
)

func TestSameConfig(t *testing.T) {
	file := func(path, content string) plan.File { return plan.File{Path: path, Content: content} }
	rke2, k3s := distro.RKE2.ConfigFile(), distro.K3s.ConfigFile()
	have := []plan.File{file("/a", "1"), file(rke2, "one"), file(rke2, "two")}
	for name, tc := range map[string]struct {
		wanted []plan.File
		want   bool
	}{
		"other files do not count":         {[]plan.File{file(rke2, "one"), file("/b", "2"), file(rke2, "two")}, true},
		"another content":                  {[]plan.File{file(rke2, "one"), file(rke2, "three")}, false},
		"another one is the last":          {[]plan.File{file(rke2, "two"), file(rke2, "one")}, false},
		"one that was there before":        {[]plan.File{file(rke2, "two")}, false},
		"one more":                         {[]plan.File{file(rke2, "one"), file(rke2, "two"), file(rke2, "")}, false},
		"that of another distribution":     {[]plan.File{file(k3s, "one"), file(k3s, "two")}, false},
		"that of another distribution too": {[]plan.File{file(rke2, "one"), file(rke2, "two"), file(k3s, "one")}, false},
		"none":                             {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := render.SameConfig(plan.NodePlan{Files: have}, plan.NodePlan{Files: tc.wanted})
			if got != tc.want {
				t.Errorf("SameConfig = %v, want %v", got, tc.want)
			}
		})
	}
}
