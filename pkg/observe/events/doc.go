// Package events tells what has happened to clusters and machines, as Kubernetes Events that `kubectl describe` shows.
//
// Every function compares an object as it was with the same object as it is, and returns what that change tells. Nothing is remembered:
// an object that stays as it is tells nothing, and what was there when a process began has no older version to differ from, so that a
// restart tells nothing twice. Who records the result (pkg/server) does so on the leader only, without waiting for it.
//
// An event is on the object that a person would describe: on the provisioning Cluster for what concerns all of it, on the Machine for a
// machine, on the <Driver>Machine for its host. Texts are those of conditions, which are bounded and hold no secrets, or our own; what a
// node driver printed goes through package redact. A plan Secret is looked at for its times, checksums and causes only.
//
// Reasons are constants in reasons.go and nowhere else; docs/reasons says what each means.
package events
