package render_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

// TestPlan_Golden pins every plan byte for byte: a difference restarts nodes of existing clusters. Changed output for
// the same input is a new rendering version.
func TestPlan_Golden(t *testing.T) {
	t.Parallel()
	for _, name := range manifestNames(t) {
		m := loadManifest(t, name)
		for _, runtime := range []distro.Runtime{distro.RKE2, distro.K3s} {
			for place, pos := range positions {
				t.Run(fmt.Sprintf("%s/%s/%s", name, runtime, place), func(t *testing.T) {
					t.Parallel()
					got, warnings, err := render.Plan(m.input(runtime, pos))
					if err != nil {
						t.Fatal(err)
					}
					if err := nodeplan.Check(got); err != nil {
						t.Errorf("an agent would refuse the plan: %v", err)
					}
					golden.Check(t, filepath.Join("testdata", "plans", name, string(runtime)+"-"+place+".txt"),
						describe(t, got, warnings))
				})
			}
		}
	}
}

// describe prints a plan for readers. The checksum covers what the text omits.
func describe(t *testing.T, p plan.NodePlan, warnings []render.Warning) string {
	t.Helper()
	encoded, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(encoded)
	var out strings.Builder
	fmt.Fprintf(&out, "checksum %s, %d bytes\n", hex.EncodeToString(sum[:]), len(encoded))
	for _, warning := range warnings {
		fmt.Fprintf(&out, "warning %s %s: %s\n", warning.Reason, warning.Field, warning.Message)
	}
	for _, file := range p.Files {
		describeFile(t, &out, file)
	}
	for _, instruction := range p.Instructions {
		fmt.Fprintf(&out, "\n== instruction %s, save output %v\n", instruction.Name, instruction.SaveOutput)
		describeCommand(&out, instruction.CommonInstruction)
	}
	for _, instruction := range p.PeriodicInstructions {
		fmt.Fprintf(&out, "\n== every %d s: %s\n", instruction.PeriodSeconds, instruction.Name)
		describeCommand(&out, instruction.CommonInstruction)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Probes)) {
		probe := p.Probes[name]
		fmt.Fprintf(&out, "\n== probe %s: delay %d, timeout %d, success %d, failure %d\n%+v\n", name,
			probe.InitialDelaySeconds,
			probe.TimeoutSeconds, probe.SuccessThreshold, probe.FailureThreshold, probe.HTTPGetAction)
	}
	return out.String()
}

func describeFile(t *testing.T, out *strings.Builder, file plan.File) {
	t.Helper()
	content, err := base64.StdEncoding.DecodeString(file.Content)
	if err != nil {
		t.Errorf("content of %s is not base64", file.Path)
	}
	fmt.Fprintf(out, "\n== file %s", file.Path)
	if file.Permissions != "" {
		fmt.Fprintf(out, " mode %s", file.Permissions)
	}
	if file.Dynamic {
		out.WriteString(" dynamic")
	}
	if file.Minor {
		out.WriteString(" minor")
	}
	text := string(content)
	if strings.Contains(file.Path, "idempotent.") {
		text = fmt.Sprintf("(script, sha256 %x)", sha256.Sum256(content))
	}
	fmt.Fprintf(out, "\n%s\n", text)
}

func describeCommand(out *strings.Builder, c plan.CommonInstruction) {
	if c.Image != "" {
		fmt.Fprintf(out, "image %s\n", c.Image)
	}
	fmt.Fprintf(out, "%s %q\n", c.Command, c.Args)
	for _, env := range c.Env {
		fmt.Fprintf(out, "env %s\n", env)
	}
}
