package planner

// Reasons returns all reasons for which the planner waits.
func Reasons() []Reason {
	return []Reason{
		ReasonCacheBehind, ReasonDeleting, ReasonInvalidVersion, ReasonNoCluster, ReasonInfrastructure,
		ReasonUninitializing, ReasonMissingRole,
		ReasonEtcdDeleting, ReasonEtcdStays, ReasonTokens, ReasonTokensLost, ReasonTokensUnusable, ReasonAgentManifest,
		ReasonAgentInvalid, ReasonPaused, ReasonRestoreRequired,
		ReasonNoInitNode, ReasonInitNodeLost, ReasonDesignatedAbsent, ReasonConfiguring, ReasonDraining,
		ReasonDrainOverdue, ReasonUncordoning,
		ReasonChangePending, ReasonEtcdUnhealthy, ReasonPoolPaused, ReasonLeftOut, ReasonRenderFailed,
		ReasonPlanTooLarge,
		ReasonVersionUnknown, ReasonJoinURL, ReasonControlPlane, ReasonMachinesUnhealthy, ReasonOperation,
		ReasonOperationFailed,
		ReasonResuming, ReasonUpgradingAgents,
	}
}
