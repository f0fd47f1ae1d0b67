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

// history keeps an outline of the plans this machine applied, newest last: which files and commands, not what is in them. Nothing reads the
// records but people, and the agent the checksum of the newest. Those of agents of other makes hold every secret of a plan; the files are 0600.
type history struct{ dir string }

type historyEntry struct {
	Plan     plan.NodePlan `json:"Plan"`
	Checksum string        `json:"Checksum"`
	// Secret is the plan secret that the plan came from, in the version that it had.
	Secret source `json:"Secret,omitzero"`
}

// source is a state of a plan secret.
type source struct {
	UID             types.UID `json:"UID"`
	ResourceVersion string    `json:"ResourceVersion"`
}

// newest returns the checksum of the plan this machine applied last; empty when there is no record.
func (h history) newest() string { return h.last().Checksum }

// last is the record of the plan this machine applied last; zero when there is none.
func (h history) last() historyEntry {
	names := h.names()
	if len(names) == 0 {
		return historyEntry{}
	}
	return h.read(names[len(names)-1])
}

// knows tells whether this machine has ever applied a plan, as far as records go back.
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

// add records an applied plan unless it is the newest already.
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
	// A clock that went back must not make an older record the newest.
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

// outline is a plan without what may be secret in it: contents of files, scripts, arguments, and the values of variables.
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

// names lists the records by time. The part before the suffix is compared, so that 20060102-150405a comes after
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
