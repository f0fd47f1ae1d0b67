// Package nodedriver makes node drivers usable: it fetches the program of a NodeDriver, asks it for its flags and writes
// them as DynamicSchemas, from which package dynamicschema makes kinds.
//
// The drivers that are compiled into rancher-machine (URL local://) are known from a table and never run. Any other driver
// is a program that the NodeDriver's URL leads to; it is fetched into the data directory, held against its checksum,
// unpacked, and run once, for as long as it takes to answer. Its machines are made by pods that fetch the same file and
// check it against the SHA-256 that was noted here.
//
// One driver's trouble stays its own: a program that is no driver, does not answer, or has flags that cannot be fields
// turns the condition Installed of its NodeDriver False and changes nothing that was installed before.
//
// # Wake-ups
//
// Object: NodeDriver. Woken by: DynamicSchema (its own, and the list of drivers).
package nodedriver
