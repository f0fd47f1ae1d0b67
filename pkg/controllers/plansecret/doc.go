// Package plansecret reads the reports of node agents and records what they mean.
//
// In the plan Secret it records the copy of an applied plan and the time at which all probes first passed. On the
// Machine it sets the condition PlanApplied. A first success waits a moment, because the planner mostly writes another
// condition of the Machine after the same report, and the probes mostly pass soon.
//
// The output of commands may hold secrets, so this package copies none of it. Only the planner shows its end, in its
// own conditions and with apparent secrets removed.
//
// The name of a plan Secret identifies its Machine. Its labels prove nothing, because the node can write them.
//
// # Wake-ups
//
// Object: Secret (plan). Woken by: Machine. A Cluster that Drover starts to manage wakes it too.
package plansecret
