package distro

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// removeMembers removes members from etcd whose nodes request it, and records that on the node, as the real
// distributions' controller does (docs/wire/names.md#leaving-etcd). Every server runs it, and the first server does the
// work.
func (r *run) removeMembers(ctx context.Context, client kubernetes.Interface) error {
	return every(ctx, time.Second, func() error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: etcdRole + "=true"})
		if err != nil {
			return nil //nolint:nilerr // the API server restarts
		}
		for i := range nodes.Items {
			node := &nodes.Items[i]
			if node.Annotations[r.annotation("remove")] != "true" ||
				node.Annotations[r.annotation("removed-node-name")] != "" {
				continue
			}
			if err := r.removeMember(ctx, client, node.Name, node.Annotations[r.annotation("node-name")]); err != nil {
				fmt.Fprintf(r.Log, "remove the etcd member of %s: %v\n", node.Name, err)
			}
		}
		return nil
	})
}

func (r *run) removeMember(ctx context.Context, client kubernetes.Interface, node, member string) error {
	if err := localMembers(r.layout).remove(ctx, node, member); err != nil {
		return err
	}
	patch, err := json.Marshal(
		map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{r.annotation("removed-node-name"): member}}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// annotation returns the key of a Node's annotation about etcd.
func (r *run) annotation(name string) string {
	return "etcd." + string(r.Runtime) + ".cattle.io/" + name
}
