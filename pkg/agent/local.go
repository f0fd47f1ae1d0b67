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

// localSource applies the plan files of a directory (docs/wire/plan.md#local-plans).
type localSource struct {
	dir     string
	applier *applier
	log     logrus.FieldLogger

	// unwritten contains, by path, positions that could not be written.
	unwritten map[string]position
}

// position is the file next to a plan that records what was applied.
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
				l.log.WithField("plan", path).WithError(err).Warn("Cannot apply a local plan")
			}
		}
		pause(ctx, defaultPeriod)
	}
}

// plans lists the plan files in path order, except hidden files and files with a .skip file next to them.
func (l *localSource) plans() []string {
	var out []string
	_ = filepath.WalkDir(l.dir, func(path string, entry fs.DirEntry, err error) error { // unreadable files are skipped
		if err == nil && !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") &&
			strings.HasSuffix(path, planSuffix) && !exists(path+skipSuffix) {
			out = append(out, path)
		}
		return nil
	})
	return out
}

// pass applies a plan file if it differs from the last applied one. A failed plan counts as applied, because no server
// reads a report and changes the plan. The position file contains its output.
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
	in := applyInput{plan: decoded, checksum: checksum, apply: before.AppliedChecksum != checksum,
		probes: before.ProbeStatus}
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

// keep writes a position, encoded as data. If the write fails, keep remembers the position. Otherwise a full disk would
// make the plan run again in every pass.
func (l *localSource) keep(path string, p position, data []byte) {
	err := replaceFile(path, data, 0o600, -1, -1)
	if err == nil {
		delete(l.unwritten, path)
		return
	}
	l.log.WithField("position", path).WithError(err).Warn("Cannot record an applied local plan; the plan runs again " +
		"after a restart of the agent")
	if l.unwritten == nil {
		l.unwritten = map[string]position{}
	}
	l.unwritten[path] = p
}

// known returns the position of a plan: from memory if it could not be written, otherwise from its file.
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
	if p.PeriodicOutput, err = encodePeriodic(res); err != nil || !res.applied {
		return p, err
	}
	p.AppliedChecksum = checksum
	p.Output, err = nodeplan.EncodeOutput(res.output)
	return p, err
}

// encodePeriodic encodes the output of periodic instructions, small enough to be read in the next pass.
func encodePeriodic(res result) ([]byte, error) {
	for _, res.slim = range []slimness{0, slimLong} {
		encoded, err := nodeplan.EncodePeriodicOutput(res.reportedPeriodic())
		fits := nodeplan.CheckReport(map[string][]byte{nodeplan.KeyAppliedPeriodicOutput: encoded}) == nil
		if err != nil || fits {
			return encoded, err
		}
	}
	res.slim = slimPeriodic
	return nodeplan.EncodePeriodicOutput(res.reportedPeriodic())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
