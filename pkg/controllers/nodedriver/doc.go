// Package nodedriver makes node drivers usable. It fetches the program of a NodeDriver, asks it for its flags, and
// writes them as DynamicSchemas. Package dynamicschema makes kinds from these.
//
// The drivers that are compiled into rancher-machine (URL local://) come from a table and are never run. Any other
// driver is a program at the NodeDriver's URL. The controller downloads it into the data directory, verifies its
// checksum, unpacks it, and runs it once until it has answered. The pods that make its machines fetch the same file and
// check the SHA-256 that this controller recorded.
//
// A broken driver affects no other driver. If a program is no driver, does not answer, or has flags that cannot be
// fields, condition Installed of its NodeDriver becomes False. What was installed before stays.
//
// # Wake-ups
//
// Object: NodeDriver. Woken by: DynamicSchema (its own, and the list of drivers).
package nodedriver
