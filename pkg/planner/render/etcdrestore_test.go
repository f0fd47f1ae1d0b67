package render_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/distro"
	"github.com/drover-io/drover/pkg/planner/render"
)

// A name with a mistake in it must not cost a machine the data that it has: the plan fails before anything of them is touched.
func TestRestorePlan_FindsTheFileFirst(t *testing.T) {
	t.Parallel()
	in := basicInput(distro.K3s, "init")
	data := t.TempDir()
	in.ControlPlane.Spec.DataDirectories.K8sDistro = data
	p, err := render.Versions{}.RestorePlan(in, render.Source{File: "it's $(touch here)"}, "1")
	if err != nil {
		t.Fatal(err)
	}
	find := p.Instructions[0]
	run := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), find.Command, find.Args...)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	file := filepath.Join(data, "server/db/snapshots/it's $(touch here)")
	if out, err := run(); err == nil || !strings.Contains(out, "snapshot "+file+" is not on this machine") {
		t.Errorf("without the file: %v, %s", err, out)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := run(); err != nil {
		t.Errorf("with the file: %v, %s", err, out)
	}
}
