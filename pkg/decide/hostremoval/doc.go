// Package hostremoval decides when a registered host leaves its cluster, and what happens on the host then.
//
//	missing.go  which hosts are away for so long that their Machines are deleted
//	clean.go    the steps with which a host is cleaned before its credential ends
//	plan.go     the last plan of a host, which removes the distribution and the agent
//
// The package is pure: it gets the time and everything else as values.
package hostremoval
