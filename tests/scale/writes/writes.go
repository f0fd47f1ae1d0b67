// Package writes counts the write requests of a fleet by kind and writer, so that a benchmark shows where a regression
// comes from.
package writes

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-io/drover/tests/contract/audit"
)

// Parts of the user agents of writers. Those of the embedded Cluster API have Drover's name, too.
const (
	drover     = "drover"
	clusterAPI = "cluster.x-k8s.io"
	agents     = "fakeagent"
)

// Tally counts writes.
type Tally struct {
	kinds  map[string]*Kind
	events int
	// stored are successful writes that should have changed something, by resource and of all clients.
	stored map[string]int64
}

// Kind are the writes of one resource or subresource.
type Kind struct {
	Kind       string  `json:"kind"`
	ClusterAPI float64 `json:"clusterAPI"`
	Drover     float64 `json:"drover"`
	// Agents are the agents of machines.
	Agents float64 `json:"agents,omitempty"`
	// Conflicts are writes of Cluster API and Drover that were refused because the object had changed.
	Conflicts float64 `json:"conflicts,omitempty"`
}

// Report are the writes for each machine. Rejected requests count, because they cost a round trip, too. Leases and dry
// runs do not count, and Events count only as Events.
type Report struct {
	ClusterAPI float64 `json:"clusterAPI"`
	Drover     float64 `json:"drover"`
	Agents     float64 `json:"agents"`
	Events     float64 `json:"events"`
	// Conflicts are part of the writes of Cluster API and Drover.
	Conflicts float64 `json:"conflicts"`
	// Unchanged are successful writes of all clients that changed nothing. UnchangedKinds are the resources with most
	// of them.
	Unchanged      float64            `json:"unchanged"`
	UnchangedKinds map[string]float64 `json:"unchangedKinds,omitempty"`
	// Kinds are those with most writes of Cluster API and Drover.
	Kinds []Kind `json:"kinds,omitempty"`
}

// Sum is the number of writes of Cluster API and Drover for each machine, without Events.
func (r Report) Sum() float64 { return round(r.ClusterAPI + r.Drover) }

// New returns an empty tally.
func New() *Tally { return &Tally{kinds: map[string]*Kind{}, stored: map[string]int64{}} }

// IsDrovers reports whether Drover sent a write, or the Cluster API in it.
func IsDrovers(w audit.Write) bool { return strings.Contains(w.UserAgent, drover) }

// IsAgents reports whether the agent of a machine sent a write.
func IsAgents(w audit.Write) bool { return strings.HasPrefix(w.UserAgent, agents) }

// Add counts a write.
func (t *Tally) Add(w audit.Write) {
	if w.DryRun {
		return
	}
	ours := IsDrovers(w)
	if w.Bookkeeping() {
		if w.Resource == "events" && ours {
			t.events++
		}
		return
	}
	resource := Resource(w.Group, w.Resource)
	if w.Code < http.StatusMultipleChoices && w.Verb != "deletecollection" {
		t.stored[resource]++
	}
	if w.Subresource != "" {
		resource += "/" + w.Subresource
	}
	kind := t.kinds[resource]
	if kind == nil {
		kind = &Kind{Kind: resource}
		t.kinds[resource] = kind
	}
	switch {
	case ours && strings.Contains(w.UserAgent, clusterAPI):
		kind.ClusterAPI++
	case ours:
		kind.Drover++
	case IsAgents(w):
		kind.Agents++
	}
	if ours && w.Code == http.StatusConflict && w.Verb != "create" {
		kind.Conflicts++
	}
}

// Resource returns the name of a resource with its group.
func Resource(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// Report returns the counts for each of a number of machines. Changes are the changes that the API server has stored in
// the same time, by resource (see Changes).
func (t *Tally) Report(machines, most int, changes map[string]int64) Report {
	each := func(n float64) float64 { return round(n / float64(machines)) }
	out := Report{Events: each(float64(t.events)), UnchangedKinds: map[string]float64{}}
	for _, kind := range t.kinds {
		out.ClusterAPI += kind.ClusterAPI
		out.Drover += kind.Drover
		out.Agents += kind.Agents
		out.Conflicts += kind.Conflicts
		if kind.ClusterAPI+kind.Drover > 0 {
			out.Kinds = append(out.Kinds, Kind{kind.Kind, each(kind.ClusterAPI), each(kind.Drover), each(kind.Agents),
				each(kind.Conflicts)})
		}
	}
	out.ClusterAPI, out.Drover, out.Agents = each(out.ClusterAPI), each(out.Drover), each(out.Agents)
	out.Conflicts = each(out.Conflicts)
	var unchanged float64
	for resource, written := range t.stored {
		if changed, known := changes[resource]; known && written > changed {
			unchanged += float64(written - changed)
			out.UnchangedKinds[resource] = each(float64(written - changed))
		}
	}
	out.Unchanged = each(unchanged)
	keep(out.UnchangedKinds, most)
	slices.SortFunc(out.Kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(b.ClusterAPI+b.Drover, a.ClusterAPI+a.Drover), cmp.Compare(a.Kind, b.Kind))
	})
	out.Kinds = out.Kinds[:min(most, len(out.Kinds))]
	return out
}

// keep removes all but the largest values, and zeros.
func keep(values map[string]float64, most int) {
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		if i >= most || values[name] == 0 {
			delete(values, name)
		}
	}
}

func round(value float64) float64 { return math.Round(value*10) / 10 }
