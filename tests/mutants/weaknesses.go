package main

// weaknesses has one fault for each weakness of docs/invariants.md#weaknesses. The fault brings the weakness back.
var weaknesses = []mutant{
	{
		name: "W1", breaks: "an error in carrying out a decision is seen in the log only",
		file: "pkg/controllers/planner/report.go", old: `if errs := hard(acted); len(errs) > 0 {`, fault: `if errs := hard(acted); len(errs) > 1 {`,
		tests: writing, run: "TestConcluded_AFailureStaysUntilTheEffectsSucceed",
	},
	{
		name: "W2", breaks: "the phase of an operation that has failed is not stored",
		file: "pkg/decide/planner/operation.go", old: "if o.setFailed != nil {\n", fault: "if o.setFailed != nil && o.hint == \"\" {\n",
		tests: planner, run: "TestOperationTranscripts",
	},
	{
		name: "W3", breaks: "the first failure of an ordinary plan is final",
		file: "pkg/decide/planner/failure.go", old: `return m.countAfter(retryBudget), threshold`, fault: `return threshold, threshold`,
		tests: planner, run: "TestDecide_AFailureOfAnOrdinaryPlanIsNotFinal",
	},
	{
		name: "W4", breaks: "a command that failed or was killed counts as done",
		file: "pkg/decide/planner/render/scripts/idempotent.sh", old: `>"$dir/last-attempt" || exit 1`, fault: `>"$dir/succeeded" || exit 1`,
		tests: rendering, run: "TestIdempotent_RunsUntilItSucceeded|TestIdempotent_RunsAgainAfterItWasKilled",
	},
	{
		name: "W5", breaks: "every pass decodes every plan secret of the cluster",
		file: "pkg/kube/planstore/memo.go", old: `if ok && known.of.Value() == object {`, fault: `if ok && known.of.Value() == nil {`,
		tests: store, run: "TestMemo_ComputesOncePerVersion",
	},
	{
		name: "W6", breaks: "one server a pass gets its join URL noted",
		file: "pkg/decide/planner/step_join.go", old: "m.marks.JoinURL = found\n", fault: "m.marks.JoinURL = found\n\t\t\tif m.Marks.JoinURL == \"\" {\n\t\t\t\tbreak\n\t\t\t}\n",
		tests: planner, run: "TestDecide_JoinURLsAreNotedInOnePass",
	},
	{
		name: "W7", breaks: "nobody sees that a plan does not fit into its secret beside what the node reported",
		file:  "pkg/decide/planner/deliver.go",
		old:   `case len(encoded)+max(len(encoded), m.Plan.AppliedSize)+m.Plan.ReportSize > MaxSecretSize:`,
		fault: `case len(encoded)+max(len(encoded), m.Plan.AppliedSize) > MaxSecretSize:`,
		tests: planner, run: "TestDecide_PlansThatDoNotFitAreNotDelivered|TestDecide_ANextPlanThatDoesNotFit",
	},
	{
		name: "W8", breaks: "the credential of a snapshot's storage wakes nobody",
		file: "pkg/controllers/planner/controller.go", old: "\t\t\th.bySnapshotCredential,\n", fault: "",
		tests: writing, run: "TestStory_SnapshotsWakeTheRestoreThatNamesThem|TestStory_RestoreFromTheStorageOfTheSnapshot",
	},
	{
		name: "W9", breaks: "a worker that is powered off holds up the others for ever",
		file: "pkg/decide/planner/unreachable.go", old: `if !m.roles.OnlyWorker() || !silent ||`, fault: `if m.roles.OnlyWorker() || !silent ||`,
		tests: planner, run: "TestDecide_WhoIsUnreachable|TestTranscripts",
	},
	{
		name: "W10", breaks: "an init node that is powered off stays the init node",
		file: "pkg/decide/planner/step_elect.go", old: `if next == nil || !e.etcd.majorityWithout(m) ||`,
		fault: `if next == nil || e.etcd.majorityWithout(m) ||`,
		tests: planner, run: "TestDecide_WhoTakesThePlaceOfTheInitNode",
	},
	{
		name: "W11", breaks: "one machine that cannot be written to keeps all after it from their plans",
		file: "pkg/controllers/planner/act.go", old: "errs = append(errs, a.one(effect))\n", fault: "if errs = append(errs, a.one(effect)); errors.Join(errs...) != nil {\n\t\t\tbreak\n\t\t}\n",
		tests: writing, run: "TestStory_OneMachineThatRefusesDoesNotStopTheOthers",
	},
	{
		name: "W12", breaks: "a plan secret is written over what others changed in it since it was read",
		file: "pkg/kube/planstore/plans.go", old: "update := found.DeepCopy()\n\tedit(update)\n", fault: "update := found.DeepCopy()\n\tupdate.ResourceVersion = \"\"\n\tedit(update)\n",
		tests: store, run: "TestPlans_DrainAndInitLabel",
	},
	{
		name: "W13", breaks: "another init node is marked before the former one has lost its mark",
		file: "pkg/decide/planner/decide.go", old: "withdraw = append(withdraw, effect)\n\t\tcase m.marks != m.Marks:", fault: "set = append(set, effect)\n\t\tcase m.marks != m.Marks:",
		tests: planner, run: "TestDecide_TheFormerInitNodeIsToldFirst",
	},
	{
		name: "W14", breaks: "a broken cluster cannot be restored, because it is not up",
		file: "pkg/decide/planner/step_restore.go", old: `return request != nil && (last == nil`, fault: `return request != nil && o.initialized() && (last == nil`,
		tests: planner, run: "TestOperationTranscripts",
	},
	{
		name: "W15", breaks: "the plan of an operation installs the distribution",
		file: "pkg/decide/planner/render/operation.go", old: "\tinstruction.Env = installEnv(have)\n",
		fault: "\tinstruction.Env = installEnv(have)\n\tfor _, i := range have.Instructions {\n\t\tinstruction.Image, instruction.Command, instruction.Args = i.Image, i.Command, i.Args\n\t}\n",
		tests: rendering, run: "TestOperation_KeepsWhatTheNodeHas",
	},
	{
		name: "W16", breaks: "nodes with Windows are never drained, because their stamps are not read",
		file: "pkg/decide/planner/render/install.go", old: `switch strings.TrimPrefix(name, windowsEnvPrefix) {`, fault: `switch name {`,
		tests: rendering, run: "TestStampsOf",
	},
	{
		name: "W17", breaks: "an edit that only changes the copy of the spec for snapshots waits for its turn like a restart",
		file: "pkg/decide/planner/render/manifests.go", old: `m.addFile(m.manifest(name+".yaml", content, true))`, fault: `m.addFile(m.manifest(name+".yaml", content, false))`,
		tests: rendering, run: "TestPlan_WhatAChangeCauses",
	},
	{
		name: "W18", breaks: "the probe of the kubelet asks the usual port, whatever the user has set",
		file: "pkg/decide/planner/render/probes.go", old: `port := cmp.Or(argValue(args, "healthz-port"), strconv.Itoa(distro.KubeletHealthPort))`,
		fault: `port := cmp.Or("", strconv.Itoa(distro.KubeletHealthPort))`,
		tests: rendering, run: "TestPlan_ProbesFollowTheUser",
	},
	{
		name: "W19", breaks: "keys that the release is not known to have are dropped in silence",
		file: "pkg/decide/planner/render/config.go", old: "if !release.Empty() {\n", fault: "if !release.Empty() {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tif !release.Empty() {\n",
		tests: rendering, run: "TestPlan_NothingIsDroppedInSilence",
	},
	{
		name: "W20", breaks: "a file that leaves the configuration stays on the node",
		file: "pkg/decide/planner/withdraw.go", old: `	return without(desired, fresh)`, fault: `	return desired`,
		tests: planner, run: "TestDecide_DroppedFilesAreDeleted",
	},
	{
		name: "W21", breaks: "workers start one by one after a restore",
		file: "pkg/decide/planner/operation.go", old: `return m.down() || c.restoring && m.windows`, fault: `return m.restored() || c.restoring && m.windows`,
		tests: planner, run: "TestDecide_EverybodyWhoIsDownStartsAtOnce",
	},
	{
		name: "W22", breaks: "the agent gives up an operation at its first failure, and the server never calls it failed",
		file: "pkg/decide/planner/operation_assign.go", old: `MaxFailures: limit, FailureThreshold: limit}`, fault: `MaxFailures: min(1, limit), FailureThreshold: nodeplan.NoLimit}`,
		tests: planner, run: "TestDecide_LimitsOfOperationPlans",
	},
	{
		name: "W23", breaks: "an operation takes over the pause of the user, and takes it back at its end",
		file: "pkg/decide/planner/operation.go", old: `if o.s.Cluster.Paused || o.s.Cluster.PausedBy != "" {`, fault: `if o.s.Cluster.PausedBy != "" {`,
		tests: planner, run: "TestOperationTranscripts|TestDecide_PausesAreOwned",
	},
	{
		name: "W24", breaks: "a command on a node may take for ever",
		file: "pkg/decide/planner/render/operation.go", old: `Args: append([]string{strconv.Itoa(seconds)}, args...)}`, fault: `Args: append([]string{strconv.Itoa(0 * seconds)}, args...)}`,
		tests: rendering, run: "TestRotateCertificatesWork",
	},
	{
		name: "W25", breaks: "the handler that drains a node does nothing else until the node is empty",
		file: "pkg/controllers/machinedrain/jobs.go", old: "go func() {\n\t\tdefer wake()", fault: "j.mu.Unlock()\n\tdefer j.mu.Lock()\n\tfunc() {\n\t\tdefer wake()",
		tests: "pkg/controllers/machinedrain", run: "TestJobs_EvictionsHoldUpOnlyEvictions",
	},
	{
		name: "W26", breaks: "half of the members of etcd count as a majority",
		file: "pkg/decide/planner/etcd.go", old: `c.healthy+more > (c.all+1)/2`, fault: `c.healthy+more >= (c.all+1)/2`,
		tests: planner, run: "TestDecide_AMinorityOfEtcdIsLeftAlone",
	},
	{
		name: "W27", breaks: "an etcd machine without a join URL counts as the server of all that joined nobody, and never goes",
		file: "pkg/controllers/bootstrap/peers.go", old: `return joinURL != "" && slices`, fault: `return slices`,
		tests: "pkg/controllers/bootstrap", run: "TestHook_",
	},
	{
		name: "W28", breaks: "a machine keeps the secrets of all plans it ever had",
		file: "pkg/agent/history.go", old: `Plan: outline(p), Checksum`, fault: `Plan: p, Checksum`,
		tests: "pkg/agent", run: "TestHistory_KeepsNoSecrets",
	},
	{
		name: "W29", breaks: "the reason why an operation failed is not kept",
		file: "pkg/decide/planner/operation.go", old: `o.end(rkev1.OperationStateFailed, message)`, fault: `o.end(rkev1.OperationStateFailed, "")`,
		tests: planner, run: "TestOperationTranscripts|TestDecide_OperationsEndInTime",
	},
	{
		name: "W30", breaks: "workers get the manifest that servers need before the cluster is up",
		file: "pkg/decide/planner/render/manifests.go", old: `(agent.PreBootstrap && m.roles.Server())`, fault: `agent.PreBootstrap`,
		tests: rendering, run: "TestPlan_PreBootstrapReachesServersOnly",
	},
	{
		name: "W31", breaks: "machines without a role are left out of a rotation, and nobody says so",
		file: "pkg/decide/planner/step_rotate_certificates.go", old: `return m.roles == (render.Roles{}) && !m.Deleting`, fault: `return m.roles == (render.Roles{}) && m.Deleting`,
		tests: planner, run: "TestDecide_RotationNamesWhatItLeavesOut",
	},
	{
		name: "W32", breaks: "a version that the release data do not describe cannot be planned",
		file: "pkg/decide/planner/render/config.go", old: "if !release.Known {\n", fault: "if !release.Known {\n\t\treturn fmt.Errorf(\"%s %s is not known\", fieldVersion, m.spec.KubernetesVersion)\n\t}\n\tif !release.Known {\n",
		tests: rendering, run: "TestPlan_Warnings",
	},
	{
		name: "W33", breaks: "a plan that failed in state mode is kept as the one that was applied",
		file: "pkg/decide/nodeplan/deliver.go", old: "Phase(data[KeyPlanState]) != PhaseFailed && ", fault: "",
		tests: plans, run: "TestApplied",
	},
	{
		name: "W34", breaks: "a delivery switches the agent to state mode",
		file: "pkg/decide/nodeplan/deliver.go", old: `delete(out, KeyPlanState)`, fault: `out[KeyPlanState] = []byte(PhasePending)`,
		tests: plans, run: "TestDeliver",
	},
	{
		name: "W35", breaks: "all new members of etcd get their first plans at once",
		file: "pkg/decide/planner/step_etcd.go", old: "\tcase !state.PlanExists:\n\t\treturn m.getsPlan\n", fault: "\tcase !state.PlanExists:\n\t\treturn false\n",
		tests: planner, run: "TestDecide_NewMembersJoinEtcdOneAfterTheOther",
	},
}
