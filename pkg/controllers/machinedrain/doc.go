// Package machinedrain drains nodes before a restart, and uncordons them afterwards.
//
// The planner and this controller communicate by annotations of the plan Secret. Their value is always the drain
// options as JSON:
//
//	planner     drain-options = V   requests a drain
//	controller  (cordons the node)
//	            pre-drain = V       hooks before the drain may act; each answers with its own annotation = V
//	            (evicts the pods)
//	            drain-done = V      the plan may be delivered
//	planner     uncordon = V        ends the drain, finished or not
//	controller  post-drain = V      hooks after the drain may act
//	            (uncordons the node, and removes all of these annotations)
//
// drain-since is the time of the planner's last request. It shows people when a drain takes too long. With ignoreErrors
// in the options, a drain that still fails after its timeout counts as done, and its error stays in drain-error.
//
// Long tasks and calls to the cluster run outside the handler. An eviction may take ten minutes without blocking the
// work queue. A restart of the program loses nothing, because every step can be repeated.
//
// The name of a plan Secret identifies its Machine, and with it the node to drain. A node can write its own plan
// Secret, so it can request a drain of itself, and of no other node.
//
// # Wake-ups
//
// Object: Secret (plan). Woken by: Machine.
package machinedrain
