package releases

import (
	"bytes"
	_ "embed" // the table that is part of the program
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/Masterminds/semver/v3"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/decide/distro"
)

//go:embed data/releases.yaml
var embedded []byte

// maxSize bounds release data, in bytes.
const maxSize = 8 << 20

// Table describes the releases of both distributions. It is immutable and may be shared.
type Table struct {
	distributions map[distro.Runtime]distribution
}

type distribution struct {
	Minors     []string          `json:"minors"`
	ServerArgs map[string]arg    `json:"serverArgs"`
	AgentArgs  map[string]arg    `json:"agentArgs"`
	Charts     []string          `json:"charts"`
	Features   map[string]string `json:"features"`
}

// arg is the type of a key and the minors that have it, both ends included.
type arg struct {
	Type  distro.ArgKind `json:"type"`
	Since string         `json:"since"`
	Until string         `json:"until"`
}

// UnmarshalJSON reads the long form, or just the type.
func (a *arg) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &a.Type); err == nil {
		return nil
	}
	type long arg
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*long)(a)); err != nil {
		return fmt.Errorf("must be a type, or an object with type, since and until: %w", err)
	}
	return nil
}

// Embedded returns the table that is part of the program.
func Embedded() (Table, error) {
	return Parse(bytes.NewReader(embedded))
}

// Parse reads release data. The error names the wrong key and a valid value.
func Parse(in io.Reader) (Table, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxSize+1))
	if err != nil {
		return Table{}, fmt.Errorf("read release data: %w", err)
	}
	if len(data) > maxSize {
		return Table{}, fmt.Errorf("release data are larger than %d bytes", maxSize)
	}
	var file struct {
		Distributions map[distro.Runtime]distribution `json:"distributions"`
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return Table{}, fmt.Errorf("decode release data: %w", err)
	}
	for _, runtime := range slices.Sorted(maps.Keys(file.Distributions)) {
		if runtime != distro.RKE2 && runtime != distro.K3s {
			return Table{}, fmt.Errorf("release data: distributions[%s]: must be %s or %s", runtime, distro.RKE2,
				distro.K3s)
		}
		if err := file.Distributions[runtime].check(); err != nil {
			return Table{}, fmt.Errorf("release data: distributions[%s].%w", runtime, err)
		}
	}
	return Table{distributions: file.Distributions}, nil
}

func (d distribution) check() error {
	for i, minor := range d.Minors {
		if !isMinor(minor) {
			return fmt.Errorf("minors[%d]: must have the form 1.36", i)
		}
	}
	for _, args := range []struct {
		name string
		keys map[string]arg
	}{{"agentArgs", d.AgentArgs}, {"serverArgs", d.ServerArgs}} {
		for _, key := range slices.Sorted(maps.Keys(args.keys)) {
			if err := args.keys[key].check(); err != nil {
				return fmt.Errorf("%s[%s]: %w", args.name, key, err)
			}
		}
	}
	return nil
}

func (a arg) check() error {
	switch a.Type {
	case distro.ArgString, distro.ArgBool, distro.ArgInt, distro.ArgArray:
	default:
		return fmt.Errorf("type must be %s, %s, %s or %s", distro.ArgString, distro.ArgBool, distro.ArgInt,
			distro.ArgArray)
	}
	for _, minor := range []string{a.Since, a.Until} {
		if minor != "" && !isMinor(minor) {
			return errors.New("since and until must have the form 1.36")
		}
	}
	return nil
}

// Merge adds release data to a table. It unites minors and charts. Keys and features of other replace those of t.
func (t Table) Merge(other Table) Table {
	out := Table{distributions: maps.Clone(t.distributions)}
	if out.distributions == nil {
		out.distributions = map[distro.Runtime]distribution{}
	}
	for runtime, added := range other.distributions {
		base := out.distributions[runtime]
		out.distributions[runtime] = distribution{
			Minors:     union(base.Minors, added.Minors),
			ServerArgs: overlay(base.ServerArgs, added.ServerArgs),
			AgentArgs:  overlay(base.AgentArgs, added.AgentArgs),
			Charts:     union(base.Charts, added.Charts),
			Features:   overlay(base.Features, added.Features),
		}
	}
	return out
}

func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

func overlay[V any](base, added map[string]V) map[string]V {
	out := make(map[string]V, len(base)+len(added))
	maps.Copy(out, base)
	maps.Copy(out, added)
	return out
}

// Release describes one Kubernetes version, such as v1.36.2+rke2r1. If the minor is not in the table, or the version
// cannot be read, the result is the union over all minors. It then has no charts and features, and is marked as not
// known.
func (t Table) Release(version string) distro.Release {
	d := t.distributions[distro.RuntimeOf(version)]
	minor, known := minorOf(version)
	known = known && slices.ContainsFunc(d.Minors, func(m string) bool {
		return isMinor(m) && compareMinor(m, minor) == 0
	})
	release := distro.Release{
		Version:    version,
		Known:      known,
		ServerArgs: argsOf(d.ServerArgs, minor, known),
		AgentArgs:  argsOf(d.AgentArgs, minor, known),
	}
	if known {
		release.Charts = slices.Clone(d.Charts)
		release.Features = maps.Clone(d.Features)
	}
	return release
}

// Minors returns the known minors of a distribution, such as 1.36, from the oldest to the newest.
func (t Table) Minors(runtime distro.Runtime) []string {
	minors := slices.DeleteFunc(slices.Clone(t.distributions[runtime].Minors),
		func(m string) bool { return !isMinor(m) })
	slices.SortFunc(minors, compareMinor)
	return minors
}

func argsOf(args map[string]arg, minor string, known bool) map[string]distro.ArgKind {
	out := make(map[string]distro.ArgKind, len(args))
	for key, a := range args {
		tooOld := known && a.Since != "" && compareMinor(minor, a.Since) < 0
		tooNew := known && a.Until != "" && compareMinor(minor, a.Until) > 0
		if !tooOld && !tooNew {
			out[key] = a.Type
		}
	}
	return out
}

func minorOf(version string) (string, bool) {
	parsed, err := semver.NewVersion(version)
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%d.%d", parsed.Major(), parsed.Minor()), true
}

func isMinor(text string) bool {
	minor, ok := minorOf(text)
	return ok && minor == text
}

// compareMinor compares two texts that isMinor accepted.
func compareMinor(a, b string) int {
	return semver.MustParse(a).Compare(semver.MustParse(b))
}
