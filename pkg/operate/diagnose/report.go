package diagnose

import (
	"slices"
	"time"
)

// State is how a link is.
type State string

// The states of links. The worst of all first broken links is the result of a report.
const (
	// OK is a link that works, as far as can be seen.
	OK State = "OK"
	// Unknown is a link that could not be looked at.
	Unknown State = "Unknown"
	// Behind is a link that does not work because one in another chain does not.
	Behind State = "Behind"
	// Waiting is a link that is being made: it goes on by itself.
	Waiting State = "Waiting"
	// Broken is a link that somebody has to mend, or that has been waited for too long.
	Broken State = "Broken"
)

// Name is the name of a kind of link. Scripts compare it.
type Name string

// The links, in the order in which they depend on each other.
const (
	LinkDefinitions    Name = "definitions"
	LinkAdmission      Name = "admission"
	LinkClock          Name = "clock"
	LinkLeader         Name = "leader"
	LinkOwner          Name = "owner"
	LinkCredential     Name = "credential"
	LinkDriver         Name = "driver"
	LinkCluster        Name = "cluster"
	LinkManagement     Name = "management"
	LinkCore           Name = "core"
	LinkPause          Name = "pause"
	LinkInfrastructure Name = "infrastructure"
	LinkConfiguration  Name = "configuration"
	LinkPool           Name = "pool"
	LinkMachines       Name = "machines"
	LinkMachine        Name = "machine"
	LinkBootstrap      Name = "bootstrap"
	LinkHost           Name = "host"
	LinkJob            Name = "job"
	LinkPlan           Name = "plan"
	LinkAgent          Name = "agent"
	LinkNode           Name = "node"
	LinkRollout        Name = "rollout"
	LinkKubeconfig     Name = "kubeconfig"
	LinkConnection     Name = "connection"
	LinkReady          Name = "ready"
	LinkDeletion       Name = "deletion"
)

// Link is one thing that has to work.
type Link struct {
	Name Name `json:"name"`
	// Object is what the link is about: a kind with a name, or several.
	Object string `json:"object"`
	State  State  `json:"state"`
	// What is broken, or waited for, in a sentence. Empty for a link that works.
	What string `json:"what,omitempty"`
	// Since is when it came to that, nil when that is not known.
	Since *time.Time `json:"since,omitempty"`
	// Reason is the word that a condition gives, and Why is what it, an Event or an output says. No secrets are in it.
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"`
	// WaitsFor is what has to happen, and WokenBy are the kinds of objects whose events then make somebody go on.
	WaitsFor string   `json:"waitsFor,omitempty"`
	WokenBy  []string `json:"wokenBy,omitempty"`
	// Do is what a person can do, in the order to try.
	Do []string `json:"do,omitempty"`
}

// Branch is a part of a tree of chains: its links in order, and what depends on all of them.
type Branch struct {
	// Title is what the branch is about, such as "Machine demo-workers-x".
	Title    string   `json:"title"`
	Links    []Link   `json:"links,omitempty"`
	Branches []Branch `json:"branches,omitempty"`
}

// Report is what was found.
type Report struct {
	// Cluster is its namespace and name.
	Cluster string `json:"cluster"`
	// Result is OK, Waiting or Broken.
	Result State `json:"result"`
	// At is when that was so, by the clock of the API server.
	At time.Time `json:"at"`
	// Findings are the first broken links, one for each chain that has one.
	Findings []Finding `json:"findings,omitempty"`
	// Notes are other things to know: what could not be read, what is odd.
	Notes []string `json:"notes,omitempty"`
	// Tree has all links.
	Tree Branch `json:"tree"`
}

// Finding is a first broken link.
type Finding struct {
	// Chain are the titles of the branches that lead to the link.
	Chain []string `json:"chain"`
	Link
}

// held reports that what depends on the link cannot work.
func (l *Link) held() bool { return l.State == Broken || l.State == Waiting }

// stop is the first link of a branch that does not work, -1 when all do.
func (b *Branch) stop() int {
	return slices.IndexFunc(b.Links, func(l Link) bool { return l.held() || l.State == Behind })
}

// findings walks to the first broken link of every chain.
func (b *Branch) findings(chain []string) []Finding {
	chain = append(slices.Clone(chain), b.Title)
	if stop := b.stop(); stop >= 0 {
		if !b.Links[stop].held() {
			return nil // what it is behind is a finding of another chain
		}
		return []Finding{{Chain: chain, Link: b.Links[stop]}}
	}
	var out []Finding
	for i := range b.Branches {
		out = append(out, b.Branches[i].findings(chain)...)
	}
	return out
}

// works reports that no chain of the branch is broken.
func (b *Branch) works() bool { return len(b.findings(nil)) == 0 }

func resultOf(findings []Finding) State {
	result := OK
	for i := range findings {
		if findings[i].State == Broken {
			return Broken
		}
		result = Waiting
	}
	return result
}
