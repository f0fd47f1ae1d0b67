// Package plansecret reads what node agents report, and writes down what it means.
//
// Into the plan secret goes the copy of an applied plan and the time at which all probes passed first; onto the Machine
// goes the condition PlanApplied. Output of commands may hold secrets, and nothing of it is copied here: its end is told by
// the planner alone, in its own conditions and without what looks like a secret.
//
// Which Machine a plan secret belongs to follows from its name. Its labels are no proof: the node can write them.
//
// # Wake-ups
//
// Object: Secret (plan). Woken by: Machine. A Cluster that becomes ours wakes it too.
package plansecret
