// Package planner decides what happens next to a cluster: which node gets which plan, and what everybody waits for.
//
// [Decide] is a function from a value to a value. A [Snapshot] holds everything known about a cluster at one moment; the
// [Decision] holds the plans to deliver, the other effects in the order in which they must happen, the status to report,
// and what would wake the planner up again. Nothing here reads a clock, a client or the environment, so every situation a
// cluster can be in is a file in testdata.
//
// # Steps
//
// Decide walks an ordered list (see steps in decide.go), one file step_<name>.go per step. A step either has no opinion, and says why
// in the trace, or ends the walk with what is waited for:
//
//	fresh → release → gate → sanity → tokens → agent
//	      → etcd-snapshot-create → etcd-restore → rotate-certificates → rotate-encryption-keys
//	      → paused → restore-required → elect → join → init → etcd → control-plane → worker → steady
//
// init to worker are tiers. All of them follow tier.go: the next tier is touched only when the one before is in order, but for
// machines whose plans are too large to be delivered, and those that the roll-out goes on without, which hold up nobody else.
//
// # Roll-outs
//
// A change that restarts nothing is delivered at once. All others go through a tier as rollout.go says: while fewer machines are
// unavailable than the upgrade strategy allows, and only as long as every machine that has its new plan works with it. Before that
// come, by file:
//
//   - etcd.go: the members of etcd are restarted one at a time in the whole cluster, and only while all others are proven healthy. Whose node
//     cannot be seen is not. The plan begins with an instruction by which the node proves the same: what the server knows may be old. That
//     instruction belongs to the delivery, not to what a machine should have, and so is never a change by itself;
//   - drain.go: the pods leave the node first, if the change asks for that, and come back when the machine works with its plan. After its
//     deadline a drain waits for a person;
//   - failure.go: an agent tries its plan a hundred times. While it fails, no other machine of the tier gets the change;
//   - roll.go: machines keep their render version until a command moves them, and their plan when the version is not known here;
//   - unreachable.go: a worker that nobody hears of holds up the others for a while only. Deadlines of lost nodes count only time in which
//     somebody could look.
//
// # What is remembered, and where
//
// The facts a decision builds on must not be writable by a node. A node's agent can write its own plan secret, so marks are
// kept on the Machine and only repeated on the plan secret for tools that look there:
//
//   - label rke.cattle.io/init-node: this machine starts the cluster, all others join it;
//   - annotations rke.cattle.io/join-url and rke.cattle.io/joined-to: where a server is joined, and whom a machine joined;
//   - annotation drover.io/render-version: the version of rendering the machine is pinned to, written before its first plan
//     and thereby also the proof that one was delivered;
//   - spec.version: the Kubernetes version of its plan, which Cluster API compares with that of the node.
//
// A step that could disrupt etcd is a ticket: the decision names the machines by UID and the plans by checksum, and the
// ticket is written to the control plane's status, under the resource version of the snapshot, before any of these plans is
// delivered. A conflict means the view was old, and nothing is delivered.
//
// # Why a plan changes
//
// A machine's plan is rendered in the version that it is pinned to (roll.go), so another program alone changes no plan. Whatever restarts or
// drains a machine is an effect with a cause (causes.go), told by what its plan was made from (evidence.go): the edit, health policy or command
// that it follows from.
//
// # Operations
//
// The four steps after agent are operations: little state machines that a request in the spec starts. They run in paused clusters too,
// one at a time; a request waits in the spec for its turn. Where an operation is, is its phase in the status; beside it
// stands a record (status.operations) with the attempt, what is waited for since when, and why it failed. What all of them have in common is in
// operation.go and operation_assign.go:
//
//   - A phase begins when the end of the one before is stored, and what nodes are told carries the attempt. So neither a
//     killed server nor an old report makes anything happen twice or count for something else.
//   - Every wait of an operation has a deadline, after which it fails, with the reason in a condition of its own.
//   - A plan of an operation is the plan that the node has with instructions on top (render.Node.Operation). A change of the
//     configuration reaches a node by its roll-out and in no other way. Only a restore, for which the whole cluster is down,
//     renders plans anew.
//   - An operation pauses the CAPI cluster only when nobody has, and marks the pause as its own. The step release takes back
//     what is so marked and not needed, whatever state the cluster is in. Until then no machine is replaced or removed, so
//     nothing waits for that but the beginning of the operation.
//   - An operation that stops the distribution and ends half-way leaves a plan behind that the tiers answer with one that
//     starts it (startAgain), before the ordinary plan comes.
//   - When a restore fails after machines were stopped, nothing starts them but another restore: they have forgotten their
//     data, and would begin an empty cluster.
//
// # Freshness
//
// A snapshot comes from several caches. While one of them does not show our own last write yet, the first step stops and
// leaves everything as it is.
package planner
