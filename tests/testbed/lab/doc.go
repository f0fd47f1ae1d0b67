// Package lab is the cloud of the quickstart and of the end-to-end tests. Its machines are real systemd hosts.
// systemd-nspawn boots a Debian root file system for each, with its own PID 1, sshd, host name, address and
// copy-on-write disk. Machines run in separate network namespaces, so nothing can reach or collide with the host's
// network.
//
// A lab has a name and a folder. The network namespace drover-<name> holds a bridge with the gateway address and
// everything that manages machines: the management plane, Drover and the lab's own API. Each machine has its own
// namespace, which a veth pair connects to the bridge. A partition takes one veth down. A power cut kills PID 1.
//
// The lab records everything before it creates it (record.go). It finds processes by their control groups and a mark in
// their environment (stray.go). The next run can therefore clean up by name after a run that was killed at any point.
// As in a real cloud, machines outlive the process that created them. Open finds and adopts them.
//
// The API (server.go) resembles a cloud's: HTTPS and a bearer token; create, delete, list, power and partition,
// idempotent by name; a log of every create and delete. Tests inject faults through it too. The node driver
// docker-machine-driver-nspawn is only a client of the API.
package lab
