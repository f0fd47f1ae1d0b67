// Package agent holds the protocol suite: what any node agent must do with the plan secret of its machine, on a real API
// server. AGENT_BIN names the agent under test, so that the one of another make can be put through exactly the same cases;
// without it, bin/drover is started under the agent's name.
//
// What our agent does beyond the protocol is tested where a test calls ours: those parts are skipped for other agents.
package agent
