// Package highavailability tells what happens to three replicas of the program and to the machines that they serve when one of them is
// killed, loses the lease, is told to end or is replaced by another version.
package highavailability
