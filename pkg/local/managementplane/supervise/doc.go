// Package supervise keeps child processes running and leaves no process behind.
//
// A Supervisor starts each child when the previous one is ready. It restarts a child that ends, with a growing pause,
// and stops the children in reverse order. Children write to log files instead of pipes, so they can outlive their
// parent. After a kill, a new supervisor finds the children of the killed run and ends them before it starts new ones.
// It finds them by recorded pid and start time, and by a mark in their environment. A lock distinguishes a live run
// from a killed one.
//
// The package works only on Linux, because it uses /proc. It does not depend on the programs that it runs.
package supervise
