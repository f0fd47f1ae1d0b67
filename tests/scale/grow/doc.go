// Package grow measures a fleet that grows to a thousand clusters: what each step costs, what the settled fleet costs,
// and how long it takes until a new server works after the old one was killed. `make bench-scale` runs it and prints
// the result as JSON.
//
// API server, etcd, Cluster API and Drover are real, and each is a process of its own. This process plays the machines
// and the APIs of their clusters. Every machine has one connection to the server, through which it watches its plan and
// reports. Every cluster has Drover's own cluster agent.
package grow
