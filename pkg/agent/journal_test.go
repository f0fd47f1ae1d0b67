package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// TestApply_FailedInstallShowsTheJournal checks that the output of a failed installation ends with why the distribution
// does not start. The output of the installer only says where to look.
func TestApply_FailedInstallShowsTheJournal(t *testing.T) {
	t.Parallel()
	const cause = "failed to find memory cgroup"
	for name, tc := range map[string]struct {
		instruction, script, journal string
		want                         string
	}{
		"a failed installation": {"install", "echo see journalctl; exit 1", "echo " + cause,
			"see journalctl\nLast lines of the journal:\n" + cause + "\n"},
		"an installation that succeeds":   {"install", "echo fine", "echo " + cause, "fine\n"},
		"another instruction":             {"restore", "echo no; exit 1", "echo " + cause, "no\n"},
		"the distribution logged nothing": {"install", "echo no; exit 1", "true", "no\n"},
		"the journal cannot be read":      {"install", "echo no; exit 1", "echo x; exit 1", "no\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, dir := newTestApplier(t)
			tag, err := imagename.NewTag("index.docker.io/rancher/installer:v1")
			if err != nil {
				t.Fatal(err)
			}
			archive := filepath.Join(dir, "images", "installer.tar")
			if err := tarball.WriteToFile(archive, tag, newImage(t)); err != nil {
				t.Fatal(err)
			}
			bin := filepath.Join(dir, "bin")
			if err := os.Mkdir(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			program := "#!/bin/sh\necho \"$*\" >" + dir + "/asked\n" + tc.journal + "\n"
			if err := os.WriteFile(filepath.Join(bin, "journalctl"), []byte(program), 0o700); err != nil {
				t.Fatal(err)
			}
			a.runner.environ = []string{"PATH=" + bin + ":/usr/bin:/bin"}
			instruction := shell(tc.instruction, tc.script)
			instruction.Image = "rancher/installer:v1"
			r := mustApply(t, a, applyInput{apply: true, attempt: 1,
				plan: plan.NodePlan{Instructions: []plan.OneTimeInstruction{instruction}}})
			if got := string(r.output[tc.instruction]); got != tc.want {
				t.Errorf("the output is %q, want %q", got, tc.want)
			}
			asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
			if tc.want != "no\n" && tc.want != "fine\n" && !strings.Contains(string(asked), "--unit=k3s-agent") {
				t.Errorf("journalctl was asked for %q", asked)
			}
		})
	}
}
