// Package rkecontrolplane removes control planes in order.
//
// Cluster API deletes the machines of pools and then the control plane. It leaves registered machines with the
// control-plane role to the control plane. This controller deletes those, and releases the control plane after the last
// server is gone. Condition Removed says what it waits for. The planner owns the rest of the status.
//
// # Wake-ups
//
// Object: RKEControlPlane. Woken by: Machine, Cluster.
package rkecontrolplane
