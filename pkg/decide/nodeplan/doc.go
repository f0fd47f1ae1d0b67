// Package nodeplan is the wire format between server and node agent: how a node plan and the agent's reports are kept in
// the data of a plan secret (docs/wire/plan.md#plan-secret), and what they mean.
//
//	server ── plan, max-failures, failure-threshold ──►  Secret  ◄── applied-checksum, outputs, probe-statuses ── agent
//
// The package is pure: bytes and values in, bytes and values out. It is shared by the planner (Deliver, Parse, Compare),
// by the agent (Decode, the Encode… and Decode… functions of the single keys) and by everything that plays an agent in a
// test, so that no two of them can disagree.
//
// Two protocols meet in one secret. In checksum mode, which our server uses, the agent compares the checksum of the plan
// with the one it applied last. In state mode the data key "plan-state" commands and reports; servers of other makes use
// it, therefore it is understood on reading. The server never writes it, because with it an agent neither retries nor
// keeps its record of a failure. An empty value of any key always means that the key is absent.
//
// Values written by an agent come from a machine that may be compromised: sizes are limited, and an error names the secret
// and the key (MalformedError) but never repeats the content, which may be secret.
package nodeplan
