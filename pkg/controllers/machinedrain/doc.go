// Package machinedrain empties nodes before they are restarted, and lets pods come back afterwards.
//
// Planner and drainer talk in annotations of the plan secret, whose value is always the drain options as JSON:
//
//	planner  drain-options = V      please drain
//	drainer  (cordons the node)
//	         pre-drain = V          hooks that run before the drain may act, each answers with its own annotation = V
//	         (evicts the pods)
//	         drain-done = V         the plan may be delivered
//	planner  uncordon = V           please end the drain, also when it has not been done
//	drainer  post-drain = V         hooks that run after the drain may act
//	         (uncordons the node, and removes all of these annotations)
//
// drain-since is when the planner asked last: it tells a person when a drain takes too long.
//
// What takes long, or talks to the cluster, runs beside the handler: an eviction may take its ten minutes without keeping the queue.
// Nothing has to be remembered over a restart of the program, because every step can be done twice.
//
// Which Machine a plan secret belongs to, and with it the node that is drained, follows from its name. A node can write its own plan
// secret: with that it can have itself drained, and nobody else.
//
// # Wake-ups
//
// Object: Secret (plan). Woken by: Machine.
package machinedrain
