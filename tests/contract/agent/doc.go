// Package agent contains the protocol suite: what any node agent must do with the plan Secret of its machine, on a real
// API server. AGENT_BIN names the agent under test, so that other agents can run exactly the same cases. Without it,
// the tests start bin/drover under the agent's name.
//
// Behavior of Drover's agent beyond the protocol is skipped for other agents.
package agent
