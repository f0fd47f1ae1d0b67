package render

import (
	"fmt"
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// Version1 is the first rendering version.
const Version1 = "1"

// Version is the newest rendering version. A machine is pinned to it with its first plan.
const Version = Version1

// Versions are rendering versions that coexist. The zero value has those that this program knows. A released version
// renders the same bytes forever. At least the last two are kept.
type Versions struct{ known []rendering }

// step is one step in the construction of a plan.
type step func(*machinePlan) error

// rendering is one version of rendering. Layers build the main configuration; files and the rest build the plan from
// it. The order of steps is the order of files and instructions in the plan, which agents and stamps depend on.
type rendering struct {
	name string
	// layers, files and rest run in this order. The stamps in rest cover the files.
	layers, files, rest []step
}

// released are the versions that this program knows, oldest first. They never change.
var released = []rendering{{name: Version1, layers: layersV1(), files: filesV1(), rest: restV1()}}

func (v Versions) list() []rendering {
	if v.known == nil {
		return released
	}
	return v.known
}

func (v Versions) index(name string) int {
	return slices.IndexFunc(v.list(), func(r rendering) bool { return r.name == name })
}

// Names returns the versions, oldest first.
func (v Versions) Names() []string {
	var names []string
	for _, r := range v.list() {
		names = append(names, r.name)
	}
	return names
}

// Newest is the version to which machines without a plan are pinned.
func (v Versions) Newest() string {
	known := v.list()
	return known[len(known)-1].name
}

// Knows reports whether a version can be rendered.
func (v Versions) Knows(name string) bool { return v.index(name) >= 0 }

// With adds a newest version. It renders like the version before, with a final change of the files, which the stamps
// cover.
func (v Versions) With(name string, change func(in Input, files []plan.File) []plan.File) Versions {
	known := slices.Clone(v.list())
	next := known[len(known)-1]
	next.name = name
	next.files = append(slices.Clone(next.files), func(m *machinePlan) error {
		m.out.Files = change(m.in, m.out.Files)
		return nil
	})
	return Versions{append(known, next)}
}

// Plan renders the full desired plan of one machine, in the input's rendering version.
//
// Warnings are sorted and without duplicates. The error is a [*PendingError] when a fact is missing. Otherwise it names
// the wrong field of the cluster's spec and what would be right. It concerns this machine only.
func (v Versions) Plan(in Input) (plan.NodePlan, []Warning, error) {
	i := v.index(in.Version)
	if i < 0 {
		return plan.NodePlan{}, nil, fmt.Errorf("render version %q is unknown; known versions are %q",
			in.Version, v.Names())
	}
	if err := checkMachine(in); err != nil {
		return plan.NodePlan{}, nil, err
	}
	m, version := newMachinePlan(in), v.list()[i]
	for _, steps := range [][]step{version.layers, version.files, version.rest} {
		for _, step := range steps {
			if err := step(m); err != nil {
				return plan.NodePlan{}, nil, err
			}
		}
	}
	return m.out, m.sortedWarnings(), nil
}

// Plan renders a plan in one of the versions that this program knows.
func Plan(in Input) (plan.NodePlan, []Warning, error) { return Versions{}.Plan(in) }
