package nodeplan

import "strings"

// AgentUpgrade is the result of the last upgrade of a node's agent. The node records it as text: the identifier, then
// "succeeded", or "failed: " and the reason.
type AgentUpgrade struct {
	// ID is the identifier of the request.
	ID string
	// Succeeded is true when the agent that was requested has reported.
	Succeeded bool
	// Reason is why the node went back to its former agent.
	Reason string
}

const (
	upgradeSucceeded = "succeeded"
	upgradeFailed    = "failed: "
)

// ParseAgentUpgrade reads the text of KeyAgentUpgrade. It is false for a text that no node writes.
func ParseAgentUpgrade(text string) (AgentUpgrade, bool) {
	id, result, _ := strings.Cut(strings.TrimSpace(text), " ")
	reason, failed := strings.CutPrefix(result, upgradeFailed)
	switch {
	case id == "":
		return AgentUpgrade{}, false
	case result == upgradeSucceeded:
		return AgentUpgrade{ID: id, Succeeded: true}, true
	case failed:
		return AgentUpgrade{ID: id, Reason: reason}, true
	}
	return AgentUpgrade{}, false
}
