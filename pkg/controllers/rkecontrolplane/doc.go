// Package rkecontrolplane removes control planes in order.
//
// Cluster API deletes the machines of pools itself, and the control plane after
// them. Machines that registered themselves and have the control-plane role are
// left to the control plane: it deletes them here, and goes when the last server
// is gone. What it waits for is in condition Removed; everything else of the
// status belongs to the planner.
//
// # Wake-ups
//
// Object: RKEControlPlane. Woken by: Machine, Cluster.
package rkecontrolplane
