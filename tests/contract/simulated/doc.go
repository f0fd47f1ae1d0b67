// Package simulated tells whole stories on a real API server: clusters are applied as their users would apply them, Drover
// and Cluster API's controllers run as they do in production, and the machines are played by pkg/testkit/fakeagent.
package simulated
