package agent

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// W28: the records of applied plans contain no secrets.
func TestHistory_KeepsNoSecrets(t *testing.T) {
	const secret = "hunter2"
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	instruction := plan.CommonInstruction{Name: "save", Image: "installer", Command: "save",
		Args: []string{"--key=" + secret}, Env: []string{"KEY=" + secret}, Script: secret}
	p := plan.NodePlan{
		Files:                []plan.File{{Path: "/etc/token", Content: encoded, Permissions: "0600"}},
		Instructions:         []plan.OneTimeInstruction{{CommonInstruction: instruction, SaveOutput: true}},
		PeriodicInstructions: []plan.PeriodicInstruction{{CommonInstruction: instruction, PeriodSeconds: 5}},
	}
	h := history{dir: filepath.Join(t.TempDir(), "applied")}
	if err := h.add(p, "sum", source{}, noon); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(h.dir, h.names()[0]))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); strings.Contains(text, secret) || strings.Contains(text, encoded) {
		t.Errorf("the record contains a secret of the plan: %s", text)
	}
	var got historyEntry
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	bare := plan.CommonInstruction{Name: "save", Image: "installer", Command: "save", Env: []string{"KEY"}}
	want := historyEntry{Checksum: "sum", Plan: plan.NodePlan{
		Files:                []plan.File{{Path: "/etc/token", Permissions: "0600"}},
		Instructions:         []plan.OneTimeInstruction{{CommonInstruction: bare, SaveOutput: true}},
		PeriodicInstructions: []plan.PeriodicInstruction{{CommonInstruction: bare, PeriodSeconds: 5}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if p.Files[0].Content != encoded || p.Instructions[0].Env[0] != "KEY="+secret {
		t.Error("the plan itself was changed before its report")
	}
}
