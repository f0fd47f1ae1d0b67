// Package driverschema turns what a node driver says about itself into the kinds by which users configure it.
//
//	driver flags ──► DynamicSchema (fields) ──► three CRDs: <X>Config, <X>Machine, <X>MachineTemplate
//
// A node driver is a program that makes machines in one kind of cloud. Asked for its create flags, it answers with names
// such as "amazonec2-instance-type"; the flag becomes the field "instanceType" of the DynamicSchema "amazonec2config"
// (Fields), and the schema becomes the kinds Amazonec2Config, Amazonec2Machine and Amazonec2MachineTemplate (CRDs). Package
// machinejob goes the way back, from the fields of a machine to the flags of a command line.
//
// Everything here is a function of values: the same flags give the same bytes. The rules are those that stored objects,
// manifests and user interfaces of this ecosystem rely on (docs/wire/machines.md#from-flags-to-kinds): integers are
// strings, every string may be null, defaults are in the config kind only.
//
// The flags of the drivers that are compiled into rancher-machine are known without running it: coreflags.json is a table
// of them, which `make generate` writes from the release of rancher-machine that pkg/local/machinebinary pins.
package driverschema
