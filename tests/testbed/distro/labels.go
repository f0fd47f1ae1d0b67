package distro

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// roleLabels are the labels by which kubectl shows a server's roles. A kubelet may not give them to itself; in the real distributions a
// controller of the server does.
func roleLabels(config Config) map[string]string {
	labels := map[string]string{}
	if !config.DisableEtcd {
		labels["node-role.kubernetes.io/etcd"] = "true"
	}
	if !config.DisableAPIServer {
		labels["node-role.kubernetes.io/control-plane"] = "true"
	}
	return labels
}

// labelRoles labels this server's node once it is there.
func (r *run) labelRoles(ctx context.Context, client kubernetes.Interface) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": roleLabels(r.config)}})
	if err != nil {
		return fmt.Errorf("label node: %w", err)
	}
	nodes := client.CoreV1().Nodes()
	// An error is the node not being there yet, or the API server restarting: asking again is right for both.
	_ = poll(ctx, func() bool {
		_, err := nodes.Patch(ctx, r.node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err == nil
	})
	return nil
}
