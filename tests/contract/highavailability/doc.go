// Package highavailability tests three replicas of the program and the machines that they serve. A replica is killed,
// loses the lease, is terminated or is replaced by another version.
package highavailability
