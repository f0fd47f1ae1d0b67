// Package driverschema turns a node driver's description of itself into the kinds with which users configure it.
//
//	driver flags ──► DynamicSchema (fields) ──► three CRDs: <X>Config, <X>Machine, <X>MachineTemplate
//
// A node driver is a program that creates machines in one kind of cloud. It lists its create flags with names such as
// "amazonec2-instance-type". The flag becomes the field "instanceType" of the DynamicSchema "amazonec2config" (Fields).
// The schema becomes the kinds Amazonec2Config, Amazonec2Machine and Amazonec2MachineTemplate (CRDs). Package
// machinejob converts the fields of a machine back to the flags of a command line.
//
// All functions are pure: the same flags give the same bytes. Stored objects, manifests and user interfaces rely on the
// rules (docs/wire/machines.md#from-flags-to-kinds): integers are strings, every string may be null, and only the
// config kind has defaults.
//
// Drover knows the flags of the drivers in rancher-machine without running it. They are in the table coreflags.json.
// `make generate` writes it from the release of rancher-machine that pkg/local/machinebinary pins.
package driverschema
