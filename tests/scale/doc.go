// Package scale measures Drover with fleets of simulated machines on a real API server. `make bench` runs it and prints what
// it measured as JSON; nothing here judges the figures, the contract tests do that for what must hold.
package scale
