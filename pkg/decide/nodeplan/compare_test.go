package nodeplan

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

func TestCompare(t *testing.T) {
	file := func(path, content string, minor bool) plan.File {
		return plan.File{Path: path, Content: content, Minor: minor}
	}
	run := func(env ...string) []plan.OneTimeInstruction {
		return []plan.OneTimeInstruction{{CommonInstruction: plan.CommonInstruction{Name: "install", Env: env}}}
	}
	type filesOf = []plan.File
	tests := map[string]struct {
		stored, desired plan.NodePlan
		want            Change
	}{
		"both empty": {want: ChangeNone},
		"nil and empty are equal": {stored: plan.NodePlan{Files: filesOf{}, Instructions: run()},
			desired: plan.NodePlan{Instructions: run([]string{}...)}, want: ChangeNone},
		"the owner of a file is ignored": {stored: plan.NodePlan{Files: filesOf{{Path: "/a", UID: 1}}},
			desired: plan.NodePlan{Files: filesOf{{Path: "/a"}}}, want: ChangeNone},
		"new content of a minor file": {stored: plan.NodePlan{Files: filesOf{file("/a", "1", true)}},
			desired: plan.NodePlan{Files: filesOf{file("/a", "2", true)}}, want: ChangeMinor},
		"new minor file": {desired: plan.NodePlan{Files: filesOf{file("/a", "1", true)}},
			want: ChangeMinor},
		"new content of another file": {stored: plan.NodePlan{Files: filesOf{file("/a", "1", false)}},
			desired: plan.NodePlan{Files: filesOf{file("/a", "2", false)}}, want: ChangeMajor},
		"minor file removed": {stored: plan.NodePlan{Files: filesOf{file("/a", "1", true)}}, want: ChangeMinor},
		"other file removed": {stored: plan.NodePlan{Files: filesOf{file("/a", "1", false)}}, want: ChangeMajor},
		"minor file deleted on the node": {
			stored:  plan.NodePlan{Files: filesOf{file("/a", "", true)}},
			desired: plan.NodePlan{Files: filesOf{{Path: "/a", Minor: true, Action: plan.FileActionDelete}}},
			want:    ChangeMinor,
		},
		"other file deleted on the node": {
			stored:  plan.NodePlan{Files: filesOf{file("/a", "", false)}},
			desired: plan.NodePlan{Files: filesOf{{Path: "/a", Action: plan.FileActionDelete}}}, want: ChangeMajor,
		},
		"minor file replaced by minor": {stored: plan.NodePlan{Files: filesOf{file("/a", "1", true)}},
			desired: plan.NodePlan{Files: filesOf{file("/b", "1", true)}}, want: ChangeMinor},
		"other file replaced by minor": {stored: plan.NodePlan{Files: filesOf{file("/a", "1", false)}},
			desired: plan.NodePlan{Files: filesOf{file("/b", "1", true)}}, want: ChangeMajor},
		"only permissions": {
			stored:  plan.NodePlan{Files: filesOf{{Path: "/a", Permissions: "0600", Minor: true}}},
			desired: plan.NodePlan{Files: filesOf{{Path: "/a", Permissions: "0644", Minor: true}}}, want: ChangeMinor,
		},
		"only permissions of another file": {
			stored:  plan.NodePlan{Files: filesOf{{Path: "/a", Content: "1", Permissions: "0600"}}},
			desired: plan.NodePlan{Files: filesOf{{Path: "/a", Content: "1", Permissions: "0644"}}}, want: ChangeMinor,
		},
		"permissions and content of another file": {
			stored:  plan.NodePlan{Files: filesOf{{Path: "/a", Content: "1", Permissions: "0600"}}},
			desired: plan.NodePlan{Files: filesOf{{Path: "/a", Content: "2", Permissions: "0644"}}}, want: ChangeMajor,
		},
		"a file is dynamic now": {
			stored:  plan.NodePlan{Files: filesOf{{Path: "/a", Minor: true}}},
			desired: plan.NodePlan{Files: filesOf{{Path: "/a", Minor: true, Dynamic: true}}}, want: ChangeMajor,
		},
		"only order": {
			stored:  plan.NodePlan{Files: filesOf{file("/a", "1", true), file("/b", "1", true)}},
			desired: plan.NodePlan{Files: filesOf{file("/b", "1", true), file("/a", "1", true)}}, want: ChangeMajor,
		},
		"environment": {stored: plan.NodePlan{Instructions: run("A=1")},
			desired: plan.NodePlan{Instructions: run("A=2")}, want: ChangeMajor},
		"minor file with an instruction": {stored: plan.NodePlan{Files: filesOf{file("/a", "1", true)}},
			desired: plan.NodePlan{Files: filesOf{file("/a", "2", true)}, Instructions: run()}, want: ChangeMajor},
		"period": {stored: plan.NodePlan{PeriodicInstructions: []plan.PeriodicInstruction{{PeriodSeconds: 5}}},
			desired: plan.NodePlan{PeriodicInstructions: []plan.PeriodicInstruction{{PeriodSeconds: 6}}},
			want:    ChangeMajor},
		"probe": {stored: plan.NodePlan{Probes: map[string]plan.Probe{"a": {TimeoutSeconds: 1}}},
			desired: plan.NodePlan{Probes: map[string]plan.Probe{"a": {TimeoutSeconds: 2}}}, want: ChangeMajor},
		"error text": {desired: plan.NodePlan{Error: "x"}, want: ChangeMajor},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Compare(tc.stored, tc.desired); got != tc.want {
				t.Errorf("Compare = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestCompare_StoredFormIsNoChange(t *testing.T) {
	files := rapid.SliceOf(rapid.Custom(func(rt *rapid.T) plan.File {
		return plan.File{
			Path:    "/" + rapid.StringMatching(`[a-z]{1,3}`).Draw(rt, "path"),
			Content: rapid.StringMatching(`[A-Za-z]{0,4}`).Draw(rt, "content"),
			Minor:   rapid.Bool().Draw(rt, "minor"), Dynamic: rapid.Bool().Draw(rt, "dynamic"),
			UID: rapid.IntRange(-1, 2).Draw(rt, "uid"),
		}
	}))
	rapid.Check(t, func(rt *rapid.T) {
		p := plan.NodePlan{Files: files.Draw(rt, "files"),
			Instructions: []plan.OneTimeInstruction{
				{CommonInstruction: plan.CommonInstruction{Env: rapid.SliceOf(rapid.String()).Draw(rt, "env")}}}}
		data, err := Encode(p)
		if err != nil {
			rt.Fatal(err)
		}
		stored, err := Decode(data)
		if err != nil {
			rt.Fatal(err)
		}
		if !Equal(stored, p) {
			rt.Fatalf("a stored plan differs from its original:\n%s", data)
		}
	})
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		plan    plan.NodePlan
		wantErr string // empty: no error
	}{
		"empty": {},
		"proper": {
			plan: plan.NodePlan{Files: []plan.File{{Path: "/a", Content: "aGk=", Permissions: "0600"},
				{Path: "/d", Directory: true}}}},
		"a path of Windows": {plan: plan.NodePlan{Files: []plan.File{{Path: `c:\x`, Directory: true}}},
			wantErr: "files[0].path: path must be absolute"},
		"relative path": {plan: plan.NodePlan{Files: []plan.File{{Path: "/a"}, {Path: "a"}}},
			wantErr: "files[1].path: path must be absolute"},
		"permissions": {plan: plan.NodePlan{Files: []plan.File{{Path: "/a", Permissions: "0900"}}},
			wantErr: "files[0].permissions: "},
		"permissions in letters": {plan: plan.NodePlan{Files: []plan.File{{Path: "/a", Permissions: "rw"}}},
			wantErr: "files[0].permissions: "},
		"content": {plan: plan.NodePlan{Files: []plan.File{{Path: "/a", Content: "hunter2!"}}},
			wantErr: "files[0].content: "},
		"action": {plan: plan.NodePlan{Files: []plan.File{{Path: "/a", Action: "remove"}}},
			wantErr: "files[0].action: "},
		"probe without URL": {plan: plan.NodePlan{Probes: map[string]plan.Probe{"a": {}}},
			wantErr: `probes["a"]: httpGet.url`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := Check(tc.plan)
			switch {
			case tc.wantErr == "" && err != nil:
				t.Errorf("err = %v", err)
			case tc.wantErr != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.wantErr) ||
				strings.Contains(err.Error(), "hunter2")):
				t.Errorf("err = %v, want prefix %q", err, tc.wantErr)
			}
		})
	}
}
