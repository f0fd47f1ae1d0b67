// Package planstore keeps what the planner knows about machines in the API: plan secrets, and the planner's notes and
// conditions on Cluster API Machines.
//
// Reading goes through caches and decodes a secret once per change of it. Writing is one call per function and idempotent:
// what is there already is not written again. A plan is written under the resource version of the secret that the decision
// was made from, so a report of the agent that came in between is never lost.
//
// A plan secret belongs to a machine by its name, which follows from the name of the machine's RKEBootstrap. Its labels and
// annotations repeat facts for other programs and are never read back, because the agent of the node can write them too.
package planstore
