package reach

import "fmt"

// agentLeft lists the objects of the agent's installation that are left in the cluster. It returns "" if there are
// none.
func (w *world) agentLeft() string {
	w.Helper()
	for _, objects := range [][]string{
		{"deployments,replicasets,pods,secrets,poddisruptionbudgets"},
		{"clusterroles/drover-cluster-agent", "clusterrolebindings/drover-cluster-agent",
			"clusterrolebindings/drover-cluster-admin", "serviceaccounts/cattle"},
	} {
		args := append([]string{"-n", "cattle-system", "get", "--ignore-not-found", "-o", "name"}, objects...)
		if out, err := w.kubectl(w.downstream.Kubeconfig(), "", args...); err != nil || out != "" {
			return fmt.Sprintf("of the agent, this remains: %s: %v", out, err)
		}
	}
	return ""
}
