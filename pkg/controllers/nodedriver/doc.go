// Package nodedriver makes node drivers usable. It asks the program of a NodeDriver for its flags, and writes them
// as DynamicSchemas. Package dynamicschema makes kinds from these.
//
// The drivers that are compiled into rancher-machine (URL local://) come from a table and are never run. Any other
// driver is a program at the NodeDriver's URL. A Job in Drover's namespace downloads it, verifies its checksum, and
// runs it once until it has answered (package driverjob). The server itself never runs a driver. The pods that make its
// machines fetch the same file and check the SHA-256 that this controller recorded.
//
// A failed Job is followed by another one, with a growing delay. The Jobs are deleted once the
// driver is installed. What was installed before stays meanwhile.
//
// A broken driver affects no other driver. If a program is no driver, does not answer, or has flags that cannot be
// fields, condition Installed of its NodeDriver becomes False. What was installed before stays.
//
// # Wake-ups
//
// Object: NodeDriver. Woken by: DynamicSchema (its own, and the list of drivers), Job, Pod.
package nodedriver
