// Package planstore keeps the planner's data about machines in the API: plan secrets, and the planner's notes and
// conditions on Cluster API Machines.
//
// Reads use caches and decode each version of a secret once. Each write function makes one call and is idempotent: it
// skips values that are already stored. A plan is written under the resource version of the secret that the decision
// used, so a report of the agent in between is never lost.
//
// The name of a plan secret follows from the name of the machine's RKEBootstrap and identifies the machine. Its labels
// and annotations repeat facts for other programs. They do not identify the machine, and the planner's notes are on the
// Machine, because the node's agent can write the secret too.
package planstore
