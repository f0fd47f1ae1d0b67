package render_test

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

func TestSameConfig(t *testing.T) {
	file := func(path, content string) plan.File { return plan.File{Path: path, Content: content} }
	rke2, k3s := distro.RKE2.ConfigFile(), distro.K3s.ConfigFile()
	have := []plan.File{file("/a", "1"), file(rke2, "one"), file(rke2, "two")}
	for name, tc := range map[string]struct {
		wanted []plan.File
		want   bool
	}{
		"other files are ignored":          {[]plan.File{file(rke2, "one"), file("/b", "2"), file(rke2, "two")}, true},
		"another content":                  {[]plan.File{file(rke2, "one"), file(rke2, "three")}, false},
		"another home is the last":         {[]plan.File{file(rke2, "two"), file(rke2, "one")}, false},
		"a home from before":               {[]plan.File{file(rke2, "two")}, false},
		"another home":                     {[]plan.File{file(rke2, "one"), file(rke2, "two"), file(rke2, "")}, false},
		"the home of another distribution": {[]plan.File{file(k3s, "one"), file(k3s, "two")}, false},
		"the homes of two distributions": {[]plan.File{file(rke2, "one"), file(rke2, "two"), file(k3s, "one")},
			false},
		"none": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := render.SameConfig(plan.NodePlan{Files: have}, plan.NodePlan{Files: tc.wanted})
			if got != tc.want {
				t.Errorf("SameConfig = %v, want %v", got, tc.want)
			}
		})
	}
}

// TestWhereDataAre checks that the last readable file counts, and that keys are case-sensitive.
func TestWhereDataAre(t *testing.T) {
	rke2, k3s := distro.RKE2.ConfigFile(), distro.K3s.ConfigFile()
	file := func(path, content string) plan.File {
		return plan.File{Path: path, Content: base64.StdEncoding.EncodeToString([]byte(content))}
	}
	type where struct {
		Elsewhere, Says bool
		Home            render.Home
		Known           bool
	}
	at := func(runtime distro.Runtime, dir string) render.Home { return render.Home{Runtime: runtime, Dir: dir} }
	for name, tc := range map[string]struct {
		files []plan.File
		want  where
	}{
		"nothing": {nil, where{}},
		"another file": {
			[]plan.File{file("/etc/rancher/rke2/config.yaml.d/99-own.yaml", `{"data-dir":"/mnt"}`)}, where{}},
		"unreadable configuration": {[]plan.File{file(rke2, `{`), {Path: rke2, Content: "?"}}, where{}},
		"no key": {[]plan.File{file(k3s, `{"token":"x"}`)},
			where{Says: true, Home: at(distro.K3s, distro.K3s.DefaultDataDir()), Known: true}},
		"keys without value": {
			[]plan.File{file(rke2, `{"data-dir":null,"datastore-endpoint":""}`)},
			where{Says: true, Home: at(distro.RKE2, distro.RKE2.DefaultDataDir()), Known: true},
		},
		"keys in another case": {
			[]plan.File{file(rke2, `{"Data-Dir":"/mnt","Datastore-Endpoint":"x"}`)},
			where{Says: true, Home: at(distro.RKE2, distro.RKE2.DefaultDataDir()), Known: true},
		},
		"values of another type": {
			[]plan.File{file(rke2, `{"data-dir":5,"datastore-endpoint":5}`)}, where{Elsewhere: true, Says: true},
		},
		"the last value": {
			[]plan.File{file(rke2, `{"data-dir":"/a"}`), file(rke2, `{"data-dir":"/b/","datastore-endpoint":"x"}`)},
			where{Elsewhere: true, Says: true, Home: at(distro.RKE2, "/b"), Known: true},
		},
		"the last readable value": {
			[]plan.File{file(rke2, `{"data-dir":"/a","datastore-endpoint":"x"}`), file(rke2, `[]`)},
			where{Elsewhere: true, Says: true, Home: at(distro.RKE2, "/a"), Known: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got where
			got.Elsewhere, got.Says = render.KeepsDataElsewhere(plan.NodePlan{Files: tc.files})
			got.Home, got.Known = render.HomeOf(plan.NodePlan{Files: tc.files})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
