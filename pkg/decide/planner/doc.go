// Package planner decides what happens next to a cluster: which node gets which plan, and what Drover waits for.
//
// [Decide] is a pure function. A [Snapshot] holds everything that is known about a cluster at one moment. The
// [Decision] holds the plans to deliver, the other effects in the order in which they must happen, and the status to
// report. It also names the events that wake the planner again. The package reads no clock, client or environment, so
// every state of a cluster can be a file in testdata.
//
// # Steps
//
// Decide walks an ordered list (see steps in decide.go), with one file step_<name>.go per step. A step either passes,
// and gives its reason in the trace, or ends the walk with a wait:
//
//	fresh → release → gate → sanity → tokens → agent
//	      → etcd-snapshot-create → etcd-restore → rotate-certificates → rotate-encryption-keys
//	      → paused → restore-required → elect → join → init → etcd → control-plane → worker → steady
//
// The steps from init to worker are tiers, and all follow tier.go. Drover configures a tier only when the previous tier
// is in order. Two kinds of machines do not hold up later tiers: machines whose plans are too large to deliver, and
// machines that the rollout leaves out.
//
// A pass consists of parts that decide one thing each. All of them share what is known about the cluster (cluster.go):
//
//	etcd         member.go, etcd.go, proof.go         when an etcd member may restart
//	renderer     render_plan.go, datastore.go         the plan that a machine should have
//	causeFinder  causes.go, evidence.go               why a plan changes
//	drainer      drain.go                             which nodes are drained first
//	progress     progress.go, failure.go              what a machine with its plan still waits for
//	summary      status.go, roll.go                   the status of the control plane
//	election     step_elect.go, init_lost.go          which machine starts the cluster
//	rollOut      rollout.go, deliver.go               which machine of a tier changes now
//	operation    operation.go and others              snapshots, restores and rotations
//
// # When an etcd member restarts, and why a machine is held back
//
// Each machine has a [State], and each etcd member a [MemberState]. drover explain shows both.
//
//   - An etcd member may restart when all others are Healthy. Members that the user left out do not count if the
//     healthy others are a majority.
//   - A member that is Changing, Down, Refused or Leaving, or whose node cannot be seen, holds back each member that
//     works (etcd.go).
//   - A member that does not work may restart although others do not work either, because it has nothing to lose. It
//     waits for a member that is only Changing.
//   - The node itself proves that the others are healthy before it stops etcd. Without that proof it refuses the plan
//     and keeps running (proof.go).
//   - Any machine is held back while its tier is at its limit or failing, while the user has paused its pool or left it
//     out, and until its node is drained (rollout.go).
//
// The proof of the node exists because the server's view may be old. It belongs to the delivery and not to the desired
// plan, so it is never a change by itself.
//
// # Rollouts
//
// Drover delivers a change that restarts nothing at once. All other changes go through a tier as rollout.go describes.
// A machine may start its change while fewer machines are unavailable than the upgrade strategy allows. The rollout
// stops when a machine that has its new plan does not work with it. More rules, by file:
//
//   - drain.go: the pods leave the node first, if the change asks for that, and may return when the machine works with
//     its plan. An overdue drain waits for the user.
//   - failure.go: an agent tries its plan a hundred times. While it fails, no other machine of the tier gets the
//     change.
//   - roll.go: machines keep their render version until a command moves them. They keep their plan when this program
//     does not know the version.
//   - unreachable.go: a worker that is out of reach holds up the others only until a deadline. Deadlines of lost nodes
//     count only time in which Drover can reach the cluster.
//
// # What is remembered, and where
//
// The facts behind a decision must not be writable by a node. A node's agent can write its own plan Secret. Therefore
// marks are kept on the Machine, and the plan Secret only repeats them for tools that look there:
//
//   - label rke.cattle.io/init-node: this machine starts the cluster, and all others join it;
//   - annotations rke.cattle.io/join-url and rke.cattle.io/joined-to: where a server can be joined, and which server a
//     machine joined;
//   - annotation drover.io/render-version: the render version that the machine is pinned to. It is written before the
//     first plan, so it also proves that a plan was delivered;
//   - spec.version: the Kubernetes version of its plan, which Cluster API compares with the version of the node.
//
// A step that could disrupt etcd issues a ticket: the decision names the machines by UID and the plans by checksum.
// Drover writes the ticket to the status of the control plane before it delivers any of these plans. The write uses the
// resource version of the snapshot. A conflict means that the snapshot was old, and nothing is delivered.
//
// # Why a plan changes
//
// A machine's plan is rendered in the version that the machine is pinned to (roll.go), so an upgrade of Drover alone
// changes no plan. Every restart or drain is an effect with a cause (causes.go): an edit, a health policy or a command.
// The cause follows from what the plan was rendered from (evidence.go).
//
// # Operations
//
// The four steps after agent are operations: small state machines that a request in the spec starts. They also run in
// paused clusters, one at a time. A request waits in the spec for its turn. The status holds the phase of an operation
// and its record (status.operations): the attempt, the current wait and its start, and why it failed. operation.go has
// the table of kinds, the states of a request and the step that all kinds share. operation_assign.go has the states of
// one machine's part. The files of the steps have the phases. The common rules:
//
//   - A phase begins when the end of the previous phase is stored, and every instruction for a node carries the
//     attempt. Therefore a killed server or an old report cannot make anything happen twice, and cannot count for
//     another attempt.
//   - Every wait of an operation has a deadline. After it the operation fails, with the reason in its own condition.
//   - A plan of an operation is the node's current plan with more instructions (render.Node.Operation). A change of the
//     configuration reaches a node only by its rollout. Only a restore, for which the whole cluster is down, renders
//     new plans.
//   - An operation pauses the CAPI cluster only when it is not paused yet, and marks the pause as its own. The step
//     release ends a marked pause that is no longer needed, in every state of the cluster. Until then no machine is
//     replaced or removed. Therefore only the beginning of an operation waits for such changes.
//   - An operation that stops the distribution and ends halfway leaves its plan behind. The tiers answer with a plan
//     that starts the distribution (startAgain), before the ordinary plan.
//   - When a restore fails after machines were stopped, only another restore starts them. They have lost their data,
//     and would start an empty cluster.
//
// # Freshness
//
// A snapshot comes from several caches. While one of them does not show Drover's own last write yet, the first step
// stops and changes nothing.
package planner
