package metrics

import "github.com/prometheus/client_golang/prometheus"

// AgentUpdates measures the upgrades of cluster agents.
type AgentUpdates struct{ clusters *prometheus.GaugeVec }

// NewAgentUpdates registers the metric; nil is the process-wide registerer.
func NewAgentUpdates(registerer prometheus.Registerer) (*AgentUpdates, error) {
	clusters, err := register(registerer, agentUpdates.Name, agentUpdates.gauge())
	if err != nil {
		return nil, err
	}
	u := &AgentUpdates{clusters}
	u.Set(0, 0, 0)
	return u, nil
}

// Set sets the numbers of clusters whose new agent is expected to connect, took too long, or waits for its turn.
func (u *AgentUpdates) Set(updating, lost, waiting int) {
	for state, n := range map[string]int{"updating": updating, "lost": lost, "waiting": waiting} {
		u.clusters.WithLabelValues(state).Set(float64(n))
	}
}
