package diagnose

import (
	"slices"
	"time"
)

// State is the state of a link.
type State string

// The states of links. The result of a report is the worst state of its findings.
const (
	// OK is a link that works, as far as Drover can see.
	OK State = "OK"
	// Unknown is a link that could not be checked.
	Unknown State = "Unknown"
	// Behind is a link that a broken link in another chain blocks.
	Behind State = "Behind"
	// Waiting is a link that continues without a user.
	Waiting State = "Waiting"
	// Broken is a link that a user must repair, or that has waited too long.
	Broken State = "Broken"
)

// Name is the name of a kind of link. Scripts compare it.
type Name string

// The links, in the order of their dependencies.
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

// Link is one thing that must work.
type Link struct {
	Name Name `json:"name"`
	// Object is the subject of the link: a kind with a name, or several.
	Object string `json:"object"`
	State  State  `json:"state"`
	// What is broken or waited for, in one sentence. Empty for a link that works.
	What string `json:"what,omitempty"`
	// Since is the start of this state, nil if unknown.
	Since *time.Time `json:"since,omitempty"`
	// Reason is a condition's reason. Why is the text of a condition, an Event or an output. They contain no secrets.
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"`
	// WaitsFor is what must happen. WokenBy are the kinds of objects whose events wake the waiting handler.
	WaitsFor string   `json:"waitsFor,omitempty"`
	WokenBy  []string `json:"wokenBy,omitempty"`
	// Do lists remedies, in the order to try them.
	Do []string `json:"do,omitempty"`
	// Says is the message of a condition that reports this link: a sentence that needs no other words.
	Says string `json:"says,omitempty"`
}

// Branch is a part of the tree of chains: its links in order, and the branches that depend on all of them.
type Branch struct {
	// Title is the subject of the branch, for example "Machine demo-workers-x".
	Title    string   `json:"title"`
	Links    []Link   `json:"links,omitempty"`
	Branches []Branch `json:"branches,omitempty"`
}

// Report is the result of a diagnosis.
type Report struct {
	// Cluster is the cluster's namespace and name, as NAMESPACE/NAME.
	Cluster string `json:"cluster"`
	// Result is OK, Waiting or Broken.
	Result State `json:"result"`
	// At is the time of the diagnosis, by the API server's clock.
	At time.Time `json:"at"`
	// Findings are the first broken links, at most one for each chain.
	Findings []Finding `json:"findings,omitempty"`
	// Notes list failed reads and oddities.
	Notes []string `json:"notes,omitempty"`
	// Tree has all links.
	Tree Branch `json:"tree"`
}

// Finding is the first broken link of a chain.
type Finding struct {
	// Chain lists the titles of the branches that lead to the link.
	Chain []string `json:"chain"`
	Link
}

// Sentence says what is wrong: the message of the condition that reports it, or else what the link is about.
func (l *Link) Sentence() string {
	if l.Says != "" {
		return l.Says
	}
	text := l.Object + ": " + l.What
	if l.Why != "" {
		text += ": " + l.Why
	}
	return text
}

// Sentence says what is wrong with the cluster, or what it waits for. It is empty if every link works.
func (r *Report) Sentence() string {
	for i := range r.Findings {
		if r.Findings[i].State == r.Result {
			return r.Findings[i].Sentence()
		}
	}
	return ""
}

// Broken returns the first broken link that needs a user, nil if there is none.
func (r *Report) Broken() *Finding {
	for i := range r.Findings {
		if r.Findings[i].State == Broken {
			return &r.Findings[i]
		}
	}
	return nil
}

// held reports whether the link blocks the links that depend on it.
func (l *Link) held() bool { return l.State == Broken || l.State == Waiting }

// stop is the index of the branch's first link that does not work, -1 if all work.
func (b *Branch) stop() int {
	return slices.IndexFunc(b.Links, func(l Link) bool { return l.held() || l.State == Behind })
}

// findings collects the first broken link of every chain.
func (b *Branch) findings(chain []string) []Finding {
	chain = append(slices.Clone(chain), b.Title)
	if stop := b.stop(); stop >= 0 {
		if !b.Links[stop].held() {
			return nil // the link that blocks it is a finding of another chain
		}
		return []Finding{{Chain: chain, Link: b.Links[stop]}}
	}
	var out []Finding
	for i := range b.Branches {
		out = append(out, b.Branches[i].findings(chain)...)
	}
	return out
}

// works reports whether no chain of the branch is broken.
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
