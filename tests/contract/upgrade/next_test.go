package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// change is a difference of the next version in a file: a text that occurs once, and its replacement.
type change struct{ file, old, next string }

// nextVersion are the changes of a program version that a careless upgrade would expose: it renders other plans, its
// CRDs have one more field, and it stores one more value with each plan.
var nextVersion = []change{
	{
		file: "pkg/decide/planner/render/versions.go",
		old:  "func (v Versions) list() []rendering {",
		next: `func init() {
	released = Versions{known: released}.With("2", func(_ Input, files []plan.File) []plan.File {
		return append(files, plan.File{Path: "/etc/next", Content: "bmV4dA=="})
	}).known
}

func (v Versions) list() []rendering {`,
	},
	{file: "pkg/decide/planner/evidence.go", old: "\tPlan string `json:\"plan\"`\n",
		next: "\tPlan string `json:\"plan\"`\n\tNext string `json:\"next\"`\n"},
	{file: "pkg/decide/planner/evidence.go", old: "out := &evidence{Spec:",
		next: "out := &evidence{Next: \"kept by the next version\", Spec:"},
	{file: "pkg/crds/crds.go", old: "const Generation = 1\n", next: "const Generation = 2\n"},
	{
		file: "pkg/crds/yaml/rke.cattle.io_rkecontrolplanes.yaml",
		old:  "              agentConnected:\n                description: AgentConnected is true",
		next: "              next: {type: string}\n              agentConnected:\n                description: " +
			"AgentConnected is true",
	},
}

// buildNext builds the next version of the program from this tree, without changing the tree.
func buildNext(ctx context.Context, root, dir string) (string, error) {
	contents := map[string][]byte{}
	for _, c := range nextVersion {
		path := filepath.Join(root, c.file)
		if contents[path] == nil {
			read, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			contents[path] = read
		}
		if n := bytes.Count(contents[path], []byte(c.old)); n != 1 {
			return "", fmt.Errorf("the text to change occurs %d times in %s, want once; update the change:\n%s", n,
				c.file, c.old)
		}
		contents[path] = bytes.Replace(contents[path], []byte(c.old), []byte(c.next), 1)
	}
	replace := map[string]string{}
	for path, content := range contents {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d%s", len(replace), filepath.Ext(path)))
		if err := os.WriteFile(replace[path], content, 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "drover")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X github.com/drover-io/drover/pkg/cmd.Version=v99.0.0", "-o", program, ".")
	build.Dir, build.Stderr = root, os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return program, build.Run()
}
