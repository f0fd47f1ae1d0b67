// Package scale measures Drover with fleets of simulated machines on a real API server. `make bench` runs it and prints
// the results as JSON. The contract tests check the figures against limits. `make soak` creates and deletes clusters
// for a long time, and fails if the server's resource usage keeps growing.
package scale
