// Package nodeplan is the wire format between the server and the node agent. It defines how the data of a plan Secret
// hold a node plan and the agent's reports (docs/wire/plan.md#plan-secret), and what they mean.
//
//	server ── plan, max-failures, failure-threshold ─► Secret ◄─ applied-checksum, outputs, probe-statuses ── agent
//
// The package is pure: bytes and values in, bytes and values out. The planner uses Deliver, Parse and Compare. The
// agent uses Decode and the Encode… and Decode… functions of the single keys. Tests that simulate an agent use the same
// code, so that all of them agree.
//
// Two protocols share one Secret. In checksum mode, which Drover's server uses, the agent compares the plan's checksum
// with the last one that it applied. In state mode, the data key "plan-state" commands and reports. Servers of other
// vendors use it, so this package can read it. Drover never writes it, because in state mode an agent neither retries
// nor keeps its record of a failure. An empty value of any key means that the key is absent.
//
// The agent's values come from a machine that may be compromised. Their sizes are limited. An error names the Secret
// and the key (MalformedError) but never the content, which may be confidential.
package nodeplan
