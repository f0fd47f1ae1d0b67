// Package planner carries out what pkg/decide/planner decides.
//
// For every RKEControlPlane it gathers a snapshot from caches (gather.go), asks planner.Decide, carries the effects out in
// order, one API call each (act.go), and writes the status once (report.go). A ticket is written together with the status
// before anything else happens: the API server refuses it when the view was old. Effects that fail again and again write
// nothing; the queue's back-off paces them.
//
// Every cache that a snapshot is made from is also a source of wake-ups (controller.go), so that no wait outlives its cause.
// What was written last is remembered until the caches show it (fresh.go), and so is what an adoption has noted.
//
// # Wake-ups
//
// Object: RKEControlPlane. Woken by: Cluster, CAPI Cluster, Machine, RKEBootstrap, management Cluster, Secret
// (plan, state, agent's manifest, authorized, referred to, credential of a restore), ConfigMap (authorized,
// referred to), ETCDSnapshot (named by a restore). An answer of package access wakes it too.
package planner
