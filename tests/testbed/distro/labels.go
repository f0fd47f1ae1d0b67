package distro

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Labels by which kubectl shows a server's roles. A kubelet may not give them to itself; in the real distributions a
// controller of the server does.
const (
	etcdRole         = "node-role.kubernetes.io/etcd"
	controlPlaneRole = "node-role.kubernetes.io/control-plane"
)

func roleLabels(config Config) map[string]string {
	labels := map[string]string{}
	if !config.DisableEtcd {
		labels[etcdRole] = "true"
	}
	if !config.DisableAPIServer {
		labels[controlPlaneRole] = "true"
	}
	return labels
}

// labelRoles labels this server's node once it is there, and notes which member of etcd it is, if it is one.
func (r *run) labelRoles(ctx context.Context, client kubernetes.Interface, member string) error {
	annotations := map[string]string{}
	if member != "" {
		annotations[r.annotation("node-name")] = member
		annotations[r.annotation("node-address")] = r.node.IP.String()
	}
	if err := r.encryption.annotate(annotations); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": roleLabels(r.config), "annotations": annotations}})
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
