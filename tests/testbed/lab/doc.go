// Package lab is the cloud of the quickstart and of the end-to-end tests: it makes machines that are real systemd hosts,
// each a Debian root file system booted by systemd-nspawn with its own PID 1, sshd, host name, address and copy-on-write
// disk, in network namespaces that the lab made itself. Nothing it does can reach, or collide with, the host's network.
//
// A lab has a name and a folder. The network namespace drover-<name> holds a bridge with the gateway address and everything
// that manages machines (the management plane, Drover, the lab's own API); each machine has a namespace of its own, joined
// to the bridge by a veth pair. A partition takes one veth down; a power cut ends PID 1 at once.
//
// Whatever is made is written to a record before it is made (record.go), and processes are found by their control groups and a mark in
// their environment (stray.go), so that a run killed at any point can be cleaned up by name by the next one. Machines outlive the process that made them, as in a real cloud: Open finds and adopts them.
//
// The API (server.go) is what a cloud's would be: HTTPS, a bearer token, create, delete, list, power and partition,
// idempotent by name, every create and delete in a log. Faults are injected there as well. The node driver
// docker-machine-driver-nspawn is only a client of it.
package lab
