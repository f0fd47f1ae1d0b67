package main

// weaknesses has one fault for each weakness of docs/invariants.md#weaknesses. The fault brings the weakness back.
var weaknesses = []mutant{
	{
		name: "W1", breaks: "an error of an effect is only in the log",
		file: "pkg/controllers/planner/report.go", old: `if errs := hard(acted); len(errs) > 0 {`,
		fault: `if errs := hard(acted); len(errs) > 1 {`,
		tests: writing, run: "TestConcluded_AFailureStaysUntilTheEffectsSucceed",
	},
	{
		name: "W2", breaks: "the phase of a failed operation is not stored",
		file: "pkg/decide/planner/operation.go", old: "if o.setFailed != nil {\n",
		fault: "if o.setFailed != nil && o.hint == \"\" {\n",
		tests: planner, run: "TestOperationTranscripts",
	},
	{
		name: "W3", breaks: "the first failure of an ordinary plan is final",
		file: "pkg/decide/planner/deliver.go", old: `MaxFailures: m.countAfter(retryBudget),`, fault: `MaxFailures: 1,`,
		tests: planner, run: "TestDecide_AFailureOfAnOrdinaryPlanIsNotFinal",
	},
	{
		name: "W4", breaks: "a command that failed or was killed counts as done",
		file: "pkg/decide/planner/render/scripts/idempotent.sh", old: `>"$dir/last-attempt" || exit 1`,
		fault: `>"$dir/succeeded" || exit 1`,
		tests: rendering, run: "TestIdempotent_RunsUntilItSucceeded|TestIdempotent_RunsAgainAfterItWasKilled",
	},
	{
		name: "W5", breaks: "every pass decodes every plan secret of the cluster",
		file: "pkg/kube/planstore/memo.go", old: `if ok && known.of.Value() == object {`,
		fault: `if ok && known.of.Value() == nil {`,
		tests: store, run: "TestMemo_ComputesOncePerVersion",
	},
	{
		name: "W6", breaks: "only one server per pass gets its join URL recorded",
		file: "pkg/decide/planner/step_join.go", old: "m.marks.JoinURL = found\n",
		fault: "m.marks.JoinURL = found\n\t\t\tif m.Marks.JoinURL == \"\" {\n\t\t\t\tbreak\n\t\t\t}\n",
		tests: planner, run: "TestDecide_JoinURLsAreNotedInOnePass",
	},
	{
		name: "W7", breaks: "a plan that does not fit into its secret together with the node's reports is delivered",
		file:  "pkg/decide/planner/deliver.go",
		old:   `case len(encoded)+max(len(encoded), m.Plan.AppliedSize)+m.Plan.ReportSize > MaxSecretSize:`,
		fault: `case len(encoded)+max(len(encoded), m.Plan.AppliedSize) > MaxSecretSize:`,
		tests: planner, run: "TestDecide_PlansThatDoNotFitAreNotDelivered|TestDecide_ANextPlanThatDoesNotFit",
	},
	{
		name: "W8", breaks: "a change of the credential of a snapshot's storage causes no wake-up",
		file: "pkg/controllers/planner/controller.go", old: "\t\t\th.bySnapshotCredential,\n", fault: "",
		tests: writing,
		run:   "TestStory_SnapshotsWakeTheRestoreThatNamesThem|TestStory_RestoreFromTheStorageOfTheSnapshot",
	},
	{
		name: "W9", breaks: "a worker that is powered off blocks the other workers forever",
		file: "pkg/decide/planner/unreachable.go", old: `if !m.roles.OnlyWorker() || !silent ||`,
		fault: `if m.roles.OnlyWorker() || !silent ||`,
		tests: planner, run: "TestDecide_WhoIsUnreachable|TestTranscripts",
	},
	{
		name: "W10", breaks: "an init node that is powered off remains the init node",
		file: "pkg/decide/planner/step_elect.go", old: `if next == nil || !e.etcd.majorityWithout(m) ||`,
		fault: `if next == nil || e.etcd.majorityWithout(m) ||`,
		tests: planner, run: "TestDecide_WhoTakesThePlaceOfTheInitNode",
	},
	{
		name: "W11", breaks: "a machine with a failing write prevents the plans of all later machines",
		file: "pkg/controllers/planner/act.go", old: "errs = append(errs, a.one(effect))\n",
		fault: "if errs = append(errs, a.one(effect)); errors.Join(errs...) != nil {\n\t\t\tbreak\n\t\t}\n",
		tests: writing, run: "TestStory_OneMachineThatRefusesDoesNotStopTheOthers",
	},
	{
		name: "W12", breaks: "a write of a plan secret overwrites changes of other writers since the read",
		file: "pkg/kube/planstore/plans.go", old: "update := found.DeepCopy()\n\tedit(update)\n",
		fault: "update := found.DeepCopy()\n\tupdate.ResourceVersion = \"\"\n\tedit(update)\n",
		tests: store, run: "TestPlans_DrainAndInitLabel",
	},
	{
		name: "W13", breaks: "another init node is marked before the previous one has lost its mark",
		file: "pkg/decide/planner/decide.go", old: "withdraw = append(withdraw, effect)\n\t\tcase m.marks != m.Marks:",
		fault: "set = append(set, effect)\n\t\tcase m.marks != m.Marks:",
		tests: planner, run: "TestDecide_TheFormerInitNodeIsToldFirst",
	},
	{
		name: "W14", breaks: "a broken cluster cannot be restored, because it is not initialized",
		file: "pkg/decide/planner/step_restore.go", old: `return request != nil && (last == nil`,
		fault: `return request != nil && o.initialized() && (last == nil`,
		tests: planner, run: "TestOperationTranscripts",
	},
	{
		name: "W15", breaks: "the plan of an operation installs the distribution",
		file: "pkg/decide/planner/render/operation.go", old: "\tinstruction.Env = installEnv(have)\n",
		fault: "\tinstruction.Env = installEnv(have)\n\tfor _, i := range have.Instructions " +
			"{\n\t\tinstruction.Image, instruction.Command, instruction.Args = i.Image, i.Command, i.Args\n\t}\n",
		tests: rendering, run: "TestOperation_KeepsWhatTheNodeHas",
	},
	{
		name: "W17", breaks: "an edit that changes only the copy of the spec for snapshots waits like a restart",
		file: "pkg/decide/planner/render/manifests.go", old: `m.addFile(m.manifest(name+".yaml", content, true))`,
		fault: `m.addFile(m.manifest(name+".yaml", content, false))`,
		tests: rendering, run: "TestPlan_WhatAChangeCauses",
	},
	{
		name: "W18", breaks: "the probe of the kubelet uses the default port instead of the user's port",
		file:  "pkg/decide/planner/render/probes.go",
		old:   `port := cmp.Or(argValue(args, "healthz-port"), strconv.Itoa(distro.KubeletHealthPort))`,
		fault: `port := cmp.Or("", strconv.Itoa(distro.KubeletHealthPort))`,
		tests: rendering, run: "TestPlan_ProbesFollowTheUser",
	},
	{
		name: "W19", breaks: "unknown keys of a release are dropped silently",
		file: "pkg/decide/planner/render/config.go", old: "if !release.Empty() {\n",
		fault: "if !release.Empty() {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tif !release.Empty() {\n",
		tests: rendering, run: "TestPlan_NothingIsDroppedInSilence",
	},
	{
		name: "W20", breaks: "a file that is removed from the configuration remains on the node",
		file: "pkg/decide/planner/withdraw.go", old: `	return without(desired, fresh)`, fault: `	return desired`,
		tests: planner, run: "TestDecide_DroppedFilesAreDeleted",
	},
	{
		name: "W21", breaks: "workers start one by one after a restore",
		file: "pkg/decide/planner/operation.go", old: `return m.stopped() || m.restored() }`,
		fault: `return m.restored() }`,
		tests: planner, run: "TestDecide_EverybodyWhoIsDownStartsAtOnce",
	},
	{
		name: "W22", breaks: "the agent gives up an operation at its first failure, and the server never reports the " +
			"failure",
		file: "pkg/decide/planner/operation_assign.go", old: `MaxFailures: limit, FailureThreshold: limit}`,
		fault: `MaxFailures: min(1, limit), FailureThreshold: nodeplan.NoLimit}`,
		tests: planner, run: "TestDecide_LimitsOfOperationPlans",
	},
	{
		name: "W23", breaks: "an operation takes over the pause of the user, and removes it at its end",
		file: "pkg/decide/planner/operation.go", old: `if o.s.Cluster.Paused || o.s.Cluster.PausedBy != "" {`,
		fault: `if o.s.Cluster.PausedBy != "" {`,
		tests: planner, run: "TestOperationTranscripts|TestDecide_PausesAreOwned",
	},
	{
		name: "W24", breaks: "a command on a node may run forever",
		file: "pkg/decide/planner/render/operation.go", old: `Args: append([]string{strconv.Itoa(seconds)}, args...)}`,
		fault: `Args: append([]string{strconv.Itoa(0 * seconds)}, args...)}`,
		tests: rendering, run: "TestRotateCertificatesWork",
	},
	{
		name: "W25", breaks: "the handler that drains a node is blocked until the node is empty",
		file: "pkg/controllers/machinedrain/jobs.go", old: "go func() {\n\t\tdefer wake()",
		fault: "j.mu.Unlock()\n\tdefer j.mu.Lock()\n\tfunc() {\n\t\tdefer wake()",
		tests: "pkg/controllers/machinedrain", run: "TestJobs_EvictionsHoldUpOnlyEvictions",
	},
	{
		name: "W26", breaks: "half of the etcd members count as a majority",
		file: "pkg/decide/planner/etcd.go", old: `c.healthy+more > (c.all+1)/2`, fault: `c.healthy+more >= (c.all+1)/2`,
		tests: planner, run: "TestDecide_AMinorityOfEtcdIsLeftAlone",
	},
	{
		name: "W27", breaks: "an etcd machine without a join URL counts as the server of all machines without a " +
			"server, and is never removed",
		file: "pkg/controllers/bootstrap/peers.go", old: `return joinURL != "" && slices`, fault: `return slices`,
		tests: "pkg/controllers/bootstrap", run: "TestHook_",
	},
	{
		name: "W28", breaks: "a machine keeps the secrets of all plans it ever had",
		file: "pkg/agent/history.go", old: `Plan: outline(p), Checksum`, fault: `Plan: p, Checksum`,
		tests: "pkg/agent", run: "TestHistory_KeepsNoSecrets",
	},
	{
		name: "W29", breaks: "the reason of a failed operation is lost",
		file: "pkg/decide/planner/operation.go", old: `o.end(rkev1.OperationStateFailed, message)`,
		fault: `o.end(rkev1.OperationStateFailed, "")`,
		tests: planner, run: "TestOperationTranscripts|TestDecide_OperationsEndInTime",
	},
	{
		name: "W30", breaks: "workers get the manifest that servers need before the cluster is ready",
		file: "pkg/decide/planner/render/manifests.go", old: `(agent.PreBootstrap && m.roles.Server())`,
		fault: `agent.PreBootstrap`,
		tests: rendering, run: "TestPlan_PreBootstrapReachesServersOnly",
	},
	{
		name: "W31", breaks: "a rotation omits machines without a role silently",
		file:  "pkg/decide/planner/step_rotate_certificates.go",
		old:   `return m.roles == (render.Roles{}) && !m.Deleting`,
		fault: `return m.roles == (render.Roles{}) && m.Deleting`,
		tests: planner, run: "TestDecide_RotationNamesWhatItLeavesOut",
	},
	{
		name: "W32", breaks: "a version outside the release data cannot be planned",
		file: "pkg/decide/planner/render/config.go", old: "if !release.Known {\n",
		fault: "if !release.Known {\n\t\treturn fmt.Errorf(\"%s %s is not known\", fieldVersion, " +
			"m.spec.KubernetesVersion)\n\t}\n\tif !release.Known {\n",
		tests: rendering, run: "TestPlan_Warnings",
	},
	{
		name: "W33", breaks: "a plan that failed in state mode is stored as the applied plan",
		file: "pkg/decide/nodeplan/deliver.go", old: "Phase(data[KeyPlanState]) != PhaseFailed && ", fault: "",
		tests: plans, run: "TestApplied",
	},
	{
		name: "W34", breaks: "a delivery switches the agent to state mode",
		file: "pkg/decide/nodeplan/deliver.go", old: `delete(out, KeyPlanState)`,
		fault: `out[KeyPlanState] = []byte(PhasePending)`,
		tests: plans, run: "TestDeliver",
	},
	{
		name: "W35", breaks: "all new etcd members get their first plans at once",
		file: "pkg/decide/planner/step_etcd.go", old: "\tcase !state.PlanExists:\n\t\treturn m.getsPlan\n",
		fault: "\tcase !state.PlanExists:\n\t\treturn false\n",
		tests: planner, run: "TestDecide_NewMembersJoinEtcdOneAfterTheOther",
	},
	{
		name: "W36", breaks: "a restore stops machines before its snapshot is found in S3",
		file: "pkg/decide/planner/restore_machines.go", old: `!searches && !m.etcdServes() {`,
		fault: `!searches && m.etcdServes() {`,
		tests: planner, run: "TestDecide_ARestoreFindsItsSnapshotFirst",
	},
	{
		name: "W37", breaks: "a snapshot succeeds that is on the machine and not in S3",
		file: "pkg/decide/planner/render/etcdsnapshot.go", old: "append(work.Instructions, instruction)",
		fault: "append(work.Instructions, instruction)[:1]",
		tests: rendering, run: "TestSnapshotInS3_FailsOnlyForACertainReason",
	},
	{
		name: "W38", breaks: "workers stop although all servers are gone",
		file: "pkg/decide/planner/restore_machines.go", old: `m.roles.Server() && (m.marks.JoinURL != "" ||`,
		fault: `(m.marks.JoinURL != "" ||`,
		tests: planner, run: "TestDecide_TotalLoss",
	},
}
