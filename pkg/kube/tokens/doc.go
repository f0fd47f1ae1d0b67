// Package tokens keeps a cluster's join tokens: one with which servers join, one with which workers join.
//
// They live in the cluster state secret, beside the cluster's other objects. They are made once, at random, and never change: nodes that have joined keep
// using them, and a restored cluster is only joined with the tokens it was backed up with. Nothing here logs them or puts
// them into an error.
package tokens
