package main

// Packages whose tests run.
const (
	planner   = "pkg/decide/planner"
	rendering = "pkg/decide/planner/render"
	writing   = "pkg/controllers/planner"
	store     = "pkg/kube/planstore"
	plans     = "pkg/decide/nodeplan"
	leaving   = "pkg/decide/hostremoval"
)

// invariants has one fault for each invariant of docs/invariants.md#invariants.
var invariants = []mutant{
	{
		name: "I1", breaks: "an init node of a ticket without a written mark is forgotten, and another node starts a " +
			"second cluster",
		file: "pkg/decide/planner/step_elect.go", old: `return ticket != nil && ticket.Step == ticketInit &&`,
		fault: `return ticket != nil && ticket.Step == ticketEtcd &&`,
		tests: planner, run: "TestDecide_TicketRemembersTheInitNode",
	},
	{
		name: "I2", breaks: "an etcd machine that never got a plan counts as a machine with the cluster's data",
		file: "pkg/decide/planner/step_restore_required.go", old: `return m.roles.ETCD && m.gotPlan()`,
		fault: `return m.roles.ETCD`,
		tests: planner, run: "TestTranscripts",
	},
	{
		name: "I3", breaks: "a worker does not leave a server that is being deleted",
		file:  "pkg/decide/planner/join.go",
		old:   `slices.ContainsFunc(servers, func(o *machine) bool {`,
		fault: `slices.ContainsFunc(c.machines, func(o *machine) bool {`,
		tests: planner, run: "TestDecide_AWorkerLeavesAServerThatIsDeleted",
	},
	{
		name: "I4", breaks: "a worker gets another server although its server exists",
		file: "pkg/decide/planner/join.go", old: `if joined := m.Marks.JoinedTo; joined != "" && slices`,
		fault: `if joined := m.Marks.JoinedTo; joined == "" && slices`,
		tests: planner, run: "TestDecide_WorkersKeepTheirServer",
	},
	{
		name: "I5", breaks: "lost tokens are created again after the delivery of plans, when the plan secrets are " +
			"lost too",
		file:  "pkg/decide/planner/step_tokens.go",
		old:   `case slices.ContainsFunc(p.machines, (*machine).gotPlan) || slices.ContainsFunc(p.unregistered, (*machine).gotPlan):`,
		fault: `case slices.ContainsFunc(p.machines, (*machine).gotPlan):`,
		tests: planner, run: "TestDecide_Waits",
	},
	{
		name: "I6", breaks: "workers change while servers change",
		file: "pkg/decide/planner/step_controlplane.go", old: `wait := p.tier(p.controlPlaneTier()); wait != nil {`,
		fault: `wait := p.tier(p.controlPlaneTier()); wait != nil && wait.Failed {`,
		tests: planner, run: "TestDecide_ATierWaitsForTheChangeOfThoseBefore",
	},
	{
		name: "I7", breaks: "one machine too many is unavailable at a time",
		file: "pkg/decide/planner/rollout.go", old: `r.limit == 0 || unavailable < r.limit`,
		fault: `r.limit == 0 || unavailable <= r.limit`,
		tests: planner, run: "TestDecide_NoMoreAreBegunThanIsAllowed",
	},
	{
		name: "I8", breaks: "an etcd member restarts while another member is unhealthy",
		file: "pkg/decide/planner/etcd.go", old: "\treturn blocks\n", fault: "\treturn countsBroken\n",
		tests: planner, run: "TestDecide_AnotherMemberThatFailsIsInTheWay",
	},
	{
		name: "I9", breaks: "an etcd machine is released when its member was asked to leave, and not when the member " +
			"has left",
		file: "pkg/decide/bootstrapdata/removal.go", old: "case r.Member == MemberGone:\n",
		fault: "case r.Member == MemberGone, r.Member == MemberLeaving:\n",
		tests: "pkg/decide/bootstrapdata", run: "TestDecideHook",
	},
	{
		name: "I10", breaks: "the node of the last machine with etcd is drained",
		file: "pkg/decide/planner/drain.go", old: `return m.roles.ETCD && others(isEtcd) == 0 || m.roles.ControlPlane`,
		fault: `return m.roles.ControlPlane`,
		tests: planner, run: "TestDecide_WhatIsDrained",
	},
	{
		name: "I11", breaks: "the answer to an earlier request for a drain counts for the current request",
		file: "pkg/decide/planner/drain.go", old: `if drain.Done == options {`, fault: `if drain.Done != "" {`,
		tests: planner, run: "TestDecide_AnAnswerToAnotherRequestDrainsNothing",
	},
	{
		name: "I12", breaks: "a new server to join drains the node",
		file: "pkg/decide/planner/render/config.go", old: `delete(forDrain, keyServer)`,
		fault: `delete(forDrain, "token")`,
		tests: rendering, run: "TestPlan_WhatAChangeCauses",
	},
	{
		name: "I13", breaks: "the end of a drain is requested again after the drainer removed all annotations",
		file: "pkg/kube/planstore/plans.go", old: `found.Annotations[rkev1.DrainAnnotation] != e.Options ||`,
		fault: `false ||`,
		tests: store, run: "TestPlans_DrainAndInitLabel",
	},
	{
		name: "I14", breaks: "labels of nodes have the order of a map",
		file: "pkg/decide/planner/render/nodes.go", old: "slices.Sort(list)\n\tm.set(\"node-label\"",
		fault: "m.set(\"node-label\"",
		tests: rendering, run: "TestPlan_SameInputSameBytes",
	},
	{
		name: "I15", breaks: "a plan that was not applied is stored as the applied plan",
		file:  "pkg/decide/nodeplan/deliver.go",
		old:   `len(raw) > 0 && string(data[KeyAppliedChecksum]) == Checksum(raw) &&`,
		fault: `len(raw) > 0 && len(data[KeyAppliedChecksum]) > 0 &&`,
		tests: plans, run: "TestApplied",
	},
	{
		name: "I16", breaks: "failures of an older plan count for the last delivered plan",
		file: "pkg/decide/nodeplan/state.go", old: `failed = s.FailureCount > 0 && s.FailedChecksum == s.Checksum &&`,
		fault: `failed = s.FailureCount > 0 &&`,
		tests: plans, run: "TestParse_Outcome",
	},
	{
		name: "I17", breaks: "a plan above the maximum size is delivered if it fits into its secret",
		file: "pkg/decide/planner/deliver.go", old: `case len(encoded) > MaxPlanSize:`,
		fault: `case len(encoded) > MaxSecretSize:`,
		tests: planner, run: "TestDecide_PlansThatDoNotFitAreNotDelivered",
	},
	{
		name: "I18", breaks: "a restore, which increments the generation of the configuration, restarts no machine",
		file: "pkg/decide/planner/render/install.go",
		old:  `both(strconv.FormatInt(m.in.ControlPlane.ConfigGeneration, 10))`, fault: `both("0")`,
		tests: rendering, run: "TestPlan_WhatAChangeCauses",
	},
	{
		name: "I19", breaks: "a successful command runs again when its plan is delivered again",
		file: "pkg/decide/planner/render/scripts/idempotent.sh", old: `if [ -f "$dir/succeeded" ]; then`,
		fault: `if [ -f "$dir/success" ]; then`,
		tests: rendering, run: "TestIdempotent_RunsUntilItSucceeded",
	},
	{
		name: "I20", breaks: "an operation waits forever for a node that does not answer",
		file: "pkg/decide/planner/operation.go", old: `if left <= 0 {`, fault: `if left <= -deadline*1000 {`,
		tests: planner, run: "TestDecide_OperationsEndInTime",
	},
	{
		name: "I21", breaks: "the pause of a rotation remains after the end of the rotation",
		file:  "pkg/decide/planner/operation.go",
		old:   `kindCertificates.restartsIn(s) && spec.RotateCertificates != nil`,
		fault: `spec.RotateCertificates != nil`,
		tests: planner, run: "TestDecide_PausesAreOwned|TestOperationTranscripts",
	},
	{
		name: "I22", breaks: "all etcd members restart at once after a restore",
		file: "pkg/decide/planner/rollout.go", old: `if r.etcdStarting(m) {`,
		fault: `if r.etcdStarting(m) && !r.isDown(m) {`,
		tests: planner, run: "TestDecide_RestoredMachineStartsFirst|TestDecide_OthersFollowTheRestoredMachine",
	},
	{
		name: "I23", breaks: "an operation starts while another operation runs",
		file: "pkg/decide/planner/operation.go", old: `if other != o.kind && other.runsIn(&o.status) {`,
		fault: `if other == o.kind && other.runsIn(&o.status) {`,
		tests: planner, run: "TestOperationTranscripts",
	},
	{
		name: "I24", breaks: "an operation uses a plan that is not applied yet, and delivers its change too early",
		file: "pkg/decide/planner/operation_assign.go", old: `if state.InSync || state.AppliedPlan == nil ||`,
		fault: `if state.PlanExists || state.AppliedPlan == nil ||`,
		tests: planner, run: "TestDecide_AnOperationBuildsOnWhatWasApplied",
	},
	{
		name: "I25", breaks: "a failure that a user must repair is shown as a wait",
		file: "pkg/decide/planner/status.go", old: `if wait.Failed {`, fault: `if wait.Failed && wait.Quiet {`,
		tests: planner, run: "TestDecide_Waits",
	},
	{
		name: "I26", breaks: "the plan of a machine is overwritten although its secret is unreadable",
		file: "pkg/decide/planner/rollout.go", old: `if m.Plan.Malformed != "" {`,
		fault: `if m.Plan.Malformed != "" && !m.Plan.State.PlanExists {`,
		tests: planner, run: "TestDecide_TroubleOfOneMachineIsItsOwn",
	},
	{
		name: "I27", breaks: "no check follows when a deadline passes",
		file: "pkg/decide/planner/unreachable.go", old: `c.wakeAfter(left)`, fault: `c.wakeAfter(0)`,
		tests: planner, run: "TestDecide_ALostInitNodeIsLookedAtAgain|TestDecide_WhoIsUnreachable",
	},
	{
		name: "I28", breaks: "the pause of an operation outlives the deletion of its cluster, so that its machines " +
			"are never deleted",
		file: "pkg/decide/planner/step_release.go", old: `deleting := cluster.Deleting || p.s.ControlPlane.Deleting`,
		fault: `deleting := false`,
		tests: planner, run: "TestDecide_ThePauseOfAnOperationEndsWithItsCluster",
	},
	{
		name: "I29", breaks: "every pass writes a condition of every machine",
		file: "pkg/decide/planner/tier.go", old: `if m.Reconciled != want {`,
		fault: `if m.Reconciled != want || message == "" {`,
		tests: planner, run: "TestModel_NoRollOutBreaksAnInvariant",
	},
	{
		name: "I30", breaks: "a missing member is removed while the others are no majority",
		file: "pkg/decide/hostremoval/missing.go", old: `return 2*working > members`,
		fault: `return 2*working >= members`,
		tests: leaving, run: "TestMissing_Decide",
	},
	{
		name: "I31", breaks: "a host that does not answer holds its deletion forever",
		file: "pkg/decide/hostremoval/clean.go", old: `Sub(c.Now); left > 0 {`,
		fault: `Sub(c.Now); left > 0 || left <= 0 {`,
		tests: leaving, run: "TestCleaning_Decide",
	},
	{
		name: "I32", breaks: "the upgrade of agents goes on after a failure",
		file: "pkg/decide/planner/agents.go", old: `report.isStopped = report.isStopped || answers`,
		fault: `report.isStopped = report.isStopped && answers`,
		tests: planner, run: "TestAgents_FailureStops",
	},
	{
		name: "I33", breaks: "a restore that fails before it stops machines downgrades them",
		file:  "pkg/decide/planner/step_restore_config.go",
		old:   `return o.status.ETCDSnapshotRestorePhase == rkev1.ETCDSnapshotPhaseFailed && !o.hasStopped()`,
		fault: `return o.status.ETCDSnapshotRestorePhase == rkev1.ETCDSnapshotPhaseFailed && o.hasStopped()`,
		tests: planner, run: "TestDecide_ARestoredVersionIsHeldBack",
	},
}
