package reach

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

func (w *world) secret(namespace, name string) (*corev1.Secret, error) {
	return w.upstream.CoreV1().Secrets(namespace).Get(w.Context(), name, metav1.GetOptions{})
}
