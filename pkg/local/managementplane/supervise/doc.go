// Package supervise keeps child processes running and leaves none behind.
//
// A Supervisor starts its children in the order it is told, each only when the one before answers its ready check,
// starts a child that ends again with a growing pause, and stops them in reverse order. Children write to log files of
// their own, not to pipes, so that a child outlives its parent without harm and a parent killed in the middle of
// anything can be started again: it finds the children of the killed run, by the pid and start time it had recorded and
// by a mark in their environment, and ends them before it starts new ones. A lock makes sure that a live run is never
// mistaken for a killed one.
//
// The package knows nothing of what it runs and uses /proc: it works on Linux alone.
package supervise
