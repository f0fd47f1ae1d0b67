package distro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	corev1 "k8s.io/api/core/v1"
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
			if err := r.followRemoval(ctx, client, &nodes.Items[i]); err != nil {
				fmt.Fprintf(r.Log, "remove the etcd member of %s: %v\n", nodes.Items[i].Name, err)
			}
		}
		return nil
	})
}

// Annotations of a Node about its etcd member, without their prefix.
const (
	annotationRemove  = "remove"
	annotationRemoved = "removed-node-name"
	annotationName    = "node-name"
	annotationAddress = "node-address"
)

// followRemoval removes the member of a node if the node requests it. Afterwards the node has the request and the
// answer, but no longer the name and address of the member. When the node has a new member, the request and answer of
// the former member are removed. etcd refuses to remove its only member, and the request is removed too.
func (r *run) followRemoval(ctx context.Context, client kubernetes.Interface, node *corev1.Node) error {
	request, requested := node.Annotations[r.annotation(annotationRemove)]
	if !requested {
		return nil
	}
	removed, wasRemoved := node.Annotations[r.annotation(annotationRemoved)]
	member, hasMember := node.Annotations[r.annotation(annotationName)]
	switch {
	case wasRemoved && hasMember && removed != member:
		return r.annotate(ctx, client, node.Name, map[string]any{annotationRemove: nil, annotationRemoved: nil})
	case wasRemoved, !strings.EqualFold(request, "true"):
		return nil
	case !hasMember:
		return errors.New("the node does not name its member")
	}
	err := r.leave(ctx, node.Name, member)
	if errors.Is(err, rpctypes.ErrMemberNotEnoughStarted) {
		return errors.Join(err, r.annotate(ctx, client, node.Name, map[string]any{annotationRemove: nil}))
	}
	if err != nil {
		return err
	}
	return r.annotate(ctx, client, node.Name, map[string]any{
		annotationRemoved: member, annotationName: nil, annotationAddress: nil,
	})
}

// annotate changes annotations of a node about etcd. It removes those with the value nil.
func (r *run) annotate(ctx context.Context, client kubernetes.Interface, node string, changes map[string]any) error {
	annotations := map[string]any{}
	for name, value := range changes {
		annotations[r.annotation(name)] = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// annotation returns the key of a Node's annotation about etcd.
func (r *run) annotation(name string) string {
	return "etcd." + string(r.Runtime) + ".cattle.io/" + name
}
