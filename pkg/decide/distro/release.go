package distro

import "slices"

// ArgKind is the type of value a configuration key takes.
type ArgKind string

// The kinds of configuration values.
const (
	// ArgString takes a string.
	ArgString ArgKind = "string"
	// ArgBool takes true or false; strings that mean one of them are converted.
	ArgBool ArgKind = "boolean"
	// ArgArray takes a list of strings, or one string.
	ArgArray ArgKind = "array"
	// ArgInt takes a number.
	ArgInt ArgKind = "integer"
)

// Release describes what one Kubernetes version of a distribution understands. The zero value knows nothing: every key
// passes through.
type Release struct {
	// Version is the version asked for, for example v1.36.2+rke2r1.
	Version string
	// Known is false when the version's minor is not in the table and the description is a guess from its neighbours.
	Known bool
	// ServerArgs are the keys only servers understand; AgentArgs those of every node.
	ServerArgs, AgentArgs map[string]ArgKind
	// Charts are the names of the charts that come with the release.
	Charts []string
	// Features are feature names with their version, for example encryption-key-rotation: 2.0.0.
	Features map[string]string
}

// Arg looks a configuration key up for a server or a worker.
func (r Release) Arg(key string, server bool) (ArgKind, bool) {
	if kind, ok := r.AgentArgs[key]; ok {
		return kind, true
	}
	if !server {
		return "", false
	}
	kind, ok := r.ServerArgs[key]
	return kind, ok
}

// Empty reports that nothing is known about the arguments of this release, so that no key can be called unknown.
func (r Release) Empty() bool { return len(r.ServerArgs) == 0 && len(r.AgentArgs) == 0 }

// HasChart reports whether the chart comes with the release; true when nothing is known about charts.
func (r Release) HasChart(name string) bool {
	return len(r.Charts) == 0 || slices.Contains(r.Charts, name)
}
