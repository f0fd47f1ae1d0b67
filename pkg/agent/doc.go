// Package agent is the node agent: the program on every machine that applies the plan it finds in its plan secret and
// reports there how it went. It speaks the protocol of rancher-system-agent (docs/wire/plan.md), so that the server
// works with either program, and this agent with servers of other makes.
//
// The path of a plan through the package:
//
//	remote.go   watches one secret, hands every state of it to the worker         local.go  the same for plan files
//	pass.go     decides whether the plan must run (pure), records what came of it (pure)
//	apply.go    one apply: interlock, files.go, instruction.go, periodic.go
//	image.go    finds the image of an instruction in archives or registries, extract.go unpacks it
//	probe.go    asks the services of the node how they are
//	command.go  the command line; config.go, connection.go the two files it reads
//
// What this agent does better than the protocol demands, without changing it: it keeps the record of a failure in state
// mode; it reports a plan that it cannot read and files that it cannot write; it merges standard error into saved output and
// keeps the last output of a failed instruction; it writes files atomically; it re-reads the secret after a conflict instead
// of ending itself; it does not repeat after a restart what this machine has already applied, and ends what a killed
// predecessor left running before it repeats what that one could not finish; it verifies TLS always.
package agent
