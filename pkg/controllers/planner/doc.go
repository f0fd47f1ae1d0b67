// Package planner carries out what pkg/decide/planner decides.
//
// For every RKEControlPlane it gathers a snapshot from caches (gather.go) and calls planner.Decide. It carries out the
// effects in order, one API call each (act.go), and writes the status once (report.go). It writes a ticket with the
// status before any other effect, and the API server refuses the ticket if the view was old. Effects that keep failing
// write nothing; the work queue's back-off paces them.
//
// Every cache that a snapshot reads is also a source of wake-ups (controller.go), so that no wait outlives its cause.
// The package remembers its last writes, and the notes of an adoption, until the caches show them (fresh.go).
//
// # Wake-ups
//
// Object: RKEControlPlane. Woken by: Cluster, CAPI Cluster, Machine, RKEBootstrap, management Cluster, Secret (plan,
// state, agent's manifest, authorized, referred to, credential of a restore), ConfigMap (authorized, referred to),
// ETCDSnapshot (named by a restore). An answer of package access wakes it too.
package planner
