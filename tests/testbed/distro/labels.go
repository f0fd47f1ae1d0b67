package distro

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Labels with which kubectl shows a server's roles. A kubelet may not set them on its own node. In the real
// distributions, a controller of the server does.
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

// labelRoles waits for this server's node and labels it. If the server is an etcd member, it also annotates the node
// with the member.
func (r *run) labelRoles(ctx context.Context, client kubernetes.Interface, member string) error {
	annotations := map[string]string{}
	if member != "" {
		annotations[r.annotation(annotationName)] = member
		annotations[r.annotation(annotationAddress)] = r.node.IP.String()
	}
	if err := r.encryption.annotate(annotations); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": roleLabels(r.config),
		"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("label node: %w", err)
	}
	nodes := client.CoreV1().Nodes()
	// On an error the node does not exist yet, or the API server restarts. Both need a retry.
	_ = poll(ctx, func() bool {
		_, err := nodes.Patch(ctx, r.node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err == nil
	})
	return nil
}
