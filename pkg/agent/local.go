package agent

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

const (
	planSuffix     = ".plan"
	positionSuffix = ".pos"
	skipSuffix     = ".skip"
)

// localSource applies plan files of a directory (docs/wire/plan.md#local-plans).
type localSource struct {
	dir     string
	applier *applier
	log     logrus.FieldLogger

	// unwritten holds, by path, the positions that could not be written.
	unwritten map[string]position
}

// position is the file beside a plan that tells what was applied.
type position struct {
	AppliedChecksum string                      `json:"appliedChecksum,omitempty"`
	Output          []byte                      `json:"output,omitempty"`
	ProbeStatus     map[string]plan.ProbeStatus `json:"probeStatus,omitempty"`
	PeriodicOutput  []byte                      `json:"periodicOutput,omitempty"`
}

// run makes a pass over all plan files every five seconds until the context ends.
func (l *localSource) run(ctx context.Context) {
	for ctx.Err() == nil {
		for _, path := range l.plans() {
			if err := l.pass(ctx, path); err != nil {
				l.log.WithField("plan", path).WithError(err).Warn("Local plan is not applied")
			}
		}
		pause(ctx, defaultPeriod)
	}
}

// plans lists the plan files in path order, without hidden ones and those with a .skip file beside them.
func (l *localSource) plans() []string {
	var out []string
	_ = filepath.WalkDir(l.dir, func(path string, entry fs.DirEntry, err error) error { // what cannot be read is no plan
		if err == nil && !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && strings.HasSuffix(path, planSuffix) && !exists(path+skipSuffix) {
			out = append(out, path)
		}
		return nil
	})
	return out
}

// pass applies one plan file if it differs from the one applied last. A plan that failed counts as applied: nobody would read
// a report and change it, and its output is in the position file.
func (l *localSource) pass(ctx context.Context, path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoded, err := nodeplan.Decode(raw)
	if err != nil {
		return err
	}
	positionFile := strings.TrimSuffix(path, planSuffix) + positionSuffix
	before := l.known(positionFile)
	checksum := nodeplan.Checksum(raw)
	in := applyInput{plan: decoded, checksum: checksum, apply: before.AppliedChecksum != checksum, probes: before.ProbeStatus}
	in.periodic, _ = nodeplan.DecodePeriodicOutput(before.PeriodicOutput) // a malformed position is replaced
	res, err := l.applier.apply(ctx, in)
	if err != nil {
		return err
	}
	after, err := before.with(checksum, res)
	if err != nil {
		return err
	}
	data, err := json.Marshal(after)
	if err != nil {
		return err
	}
	l.keep(positionFile, after, data)
	return nil
}

// keep writes a position, encoded as data. One that cannot be written is borne in mind: on a full disk the plan would otherwise
// run again in every pass.
func (l *localSource) keep(path string, p position, data []byte) {
	err := replaceFile(path, data, 0o600, -1, -1)
	if err == nil {
		delete(l.unwritten, path)
		return
	}
	l.log.WithField("position", path).WithError(err).Warn("Cannot write what was applied; a local plan runs again after a restart of the agent")
	if l.unwritten == nil {
		l.unwritten = map[string]position{}
	}
	l.unwritten[path] = p
}

// known is the position of a plan: what its file tells, unless later news could not be written.
func (l *localSource) known(path string) position {
	if p, ok := l.unwritten[path]; ok {
		return p
	}
	return readPosition(path)
}

func readPosition(path string) position {
	var p position
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &p) != nil {
		return position{}
	}
	return p
}

func (p position) with(checksum string, res result) (position, error) {
	var err error
	p.ProbeStatus = res.probes
	if p.PeriodicOutput, err = nodeplan.EncodePeriodicOutput(res.periodic); err != nil || !res.applied {
		return p, err
	}
	p.AppliedChecksum = checksum
	p.Output, err = nodeplan.EncodeOutput(res.output)
	return p, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
