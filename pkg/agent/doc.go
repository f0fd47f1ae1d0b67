// Package agent is the node agent. It runs on every machine, applies the plan in its plan Secret, and reports the
// result into the same Secret. It implements the protocol of rancher-system-agent (docs/wire/plan.md). Either agent
// works with Drover's server, and this agent works with other servers.
//
// The path of a plan through the package:
//
//	remote.go   watches one Secret and passes each version to the worker          local.go  the same for plan files
//	pass.go     decides whether the plan must run, and records the result (pure functions)
//	apply.go    applies once: interlock, files.go, instruction.go, periodic.go
//	image.go    finds an instruction's image in archives or registries, and unpacks it
//	hostkeys.go reports the public keys of the host's SSH server
//	probe.go    checks the health of the node's services
//	command.go  is the command line; config.go and connection.go read its two files
//
// The agent improves on the protocol without changing it:
//
//   - It keeps the record of a failure in state mode.
//   - It reports plans that it cannot read and files that it cannot write.
//   - It merges standard error into saved output, and keeps the last output of a failed instruction.
//   - It writes files atomically.
//   - It rereads the Secret after a conflict instead of exiting.
//   - After a restart it does not repeat a plan that this machine already applied.
//   - It ends instructions that a killed predecessor left running before it repeats the unfinished plan.
//   - It always verifies TLS.
package agent
