package distro

import "slices"

// ArgKind is the type of a configuration key's value.
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

// Release describes the configuration of one Kubernetes version of a distribution. The zero value knows no key and
// accepts every key.
type Release struct {
	// Version is the requested version, for example v1.36.2+rke2r1.
	Version string
	// Known is false when the table does not have the version's minor and the description is a guess from its
	// neighbors.
	Known bool
	// ServerArgs are the keys of servers only. AgentArgs are the keys of every node.
	ServerArgs, AgentArgs map[string]ArgKind
	// Charts are the names of the charts that come with the release.
	Charts []string
	// Features are feature names with their version, for example encryption-key-rotation: 2.0.0.
	Features map[string]string
}

// Arg returns the type of a configuration key for a server or a worker.
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

// Empty reports whether the arguments of this release are unknown. Then Drover cannot call a key unknown.
func (r Release) Empty() bool { return len(r.ServerArgs) == 0 && len(r.AgentArgs) == 0 }

// HasChart reports whether the release contains the chart. It is true when the charts are unknown.
func (r Release) HasChart(name string) bool {
	return len(r.Charts) == 0 || slices.Contains(r.Charts, name)
}
