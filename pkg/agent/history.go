package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

const (
	historySuffix = "-applied.plan"
	historyKept   = 64
	stampLayout   = "20060102-150405"
)

// history keeps an outline of the plans that this machine applied, newest last. An outline lists files and commands
// without their content. People read the records. The agent reads only checksums and sources. Other agents store
// complete plans, including secrets, so the files have mode 0600.
type history struct{ dir string }

type historyEntry struct {
	Plan     plan.NodePlan `json:"Plan"`
	Checksum string        `json:"Checksum"`
	// Secret is the plan Secret of the plan, at the version that was applied.
	Secret source `json:"Secret,omitzero"`
}

// source is one version of a plan Secret.
type source struct {
	UID             types.UID `json:"UID"`
	ResourceVersion string    `json:"ResourceVersion"`
}

// newest returns the checksum of the last applied plan, or an empty string without records.
func (h history) newest() string { return h.last().Checksum }

// last returns the record of the last applied plan, or zero without records.
func (h history) last() historyEntry {
	names := h.names()
	if len(names) == 0 {
		return historyEntry{}
	}
	return h.read(names[len(names)-1])
}

// knows reports whether the records contain a plan.
func (h history) knows(checksum string) bool {
	return slices.ContainsFunc(h.names(), func(name string) bool { return h.read(name).Checksum == checksum })
}

func (h history) read(name string) historyEntry {
	var entry historyEntry
	data, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil || json.Unmarshal(data, &entry) != nil {
		return historyEntry{}
	}
	return entry
}

// add records an applied plan unless it is already the newest.
func (h history) add(p plan.NodePlan, checksum string, from source, now time.Time) error {
	if h.dir == "" || h.newest() == checksum {
		return nil
	}
	data, err := json.Marshal(historyEntry{Plan: outline(p), Checksum: checksum, Secret: from})
	if err != nil {
		return fmt.Errorf("encode applied plan: %w", err)
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return fmt.Errorf("make directory for applied plans: %w", err)
	}
	name := now.UTC().Format(stampLayout) + historySuffix
	// After the clock was set back, the new record must still sort last.
	if names := h.names(); len(names) > 0 && names[len(names)-1] >= name {
		name = strings.TrimSuffix(names[len(names)-1], historySuffix) + "a" + historySuffix
	}
	if err := replaceFile(filepath.Join(h.dir, name), data, 0o600, -1, -1); err != nil {
		return fmt.Errorf("write applied plan: %w", err)
	}
	names := h.names()
	for _, old := range names[:max(0, len(names)-historyKept)] {
		os.Remove(filepath.Join(h.dir, old))
	}
	return nil
}

// outline removes everything that may be secret: file contents, scripts, arguments, and values of variables.
func outline(p plan.NodePlan) plan.NodePlan {
	p.Files = slices.Clone(p.Files)
	for i := range p.Files {
		p.Files[i].Content = ""
	}
	bare := func(c plan.CommonInstruction) plan.CommonInstruction {
		c.Args, c.Script, c.Env = nil, "", slices.Clone(c.Env)
		for i := range c.Env {
			c.Env[i], _, _ = strings.Cut(c.Env[i], "=")
		}
		return c
	}
	p.Instructions = slices.Clone(p.Instructions)
	for i := range p.Instructions {
		p.Instructions[i].CommonInstruction = bare(p.Instructions[i].CommonInstruction)
	}
	p.PeriodicInstructions = slices.Clone(p.PeriodicInstructions)
	for i := range p.PeriodicInstructions {
		p.PeriodicInstructions[i].CommonInstruction = bare(p.PeriodicInstructions[i].CommonInstruction)
	}
	return p
}

// names lists the records by time. It compares names without the suffix, so that 20060102-150405a sorts after
// 20060102-150405.
func (h history) names() []string {
	entries, err := os.ReadDir(h.dir)
	if h.dir == "" || err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), historySuffix) {
			names = append(names, entry.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(strings.TrimSuffix(a, historySuffix), strings.TrimSuffix(b, historySuffix))
	})
	return names
}
