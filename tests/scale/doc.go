// Package scale measures Drover with fleets of simulated machines on a real API server. `make bench` runs it and prints what
// it measured as JSON; the figures are judged by the contract tests, for what must hold. `make soak` makes and deletes clusters for a long time, and fails when the
// server needs more and more of anything.
package scale
