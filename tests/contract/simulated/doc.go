// Package simulated runs whole stories on a real API server. The tests apply clusters as users would. Drover and
// Cluster API's controllers run as in production. pkg/testkit/fakeagent simulates the machines.
package simulated
