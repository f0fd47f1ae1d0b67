package fakecapi

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/conditions"
)

func (c *Core) cluster(ctx context.Context, cluster *clusterv1.Cluster) error {
	if c.paused(cluster, cluster) {
		return nil
	}
	stored := c.get(clusterKind, cluster.Namespace, cluster.Name)
	if cluster.DeletionTimestamp != nil {
		return c.removeCluster(ctx, stored, cluster)
	}
	if err := c.update(ctx, stored, func(u *unstructured.Unstructured) {
		withFinalizer(u, clusterv1.ClusterFinalizer)
	}); err != nil {
		return err
	}
	infrastructure, err := c.adopt(ctx, cluster, cluster.Spec.InfrastructureRef)
	if err != nil || infrastructure == nil {
		return err
	}
	controlPlane, err := c.adopt(ctx, cluster, cluster.Spec.ControlPlaneRef)
	if err != nil || controlPlane == nil {
		return err
	}
	if err := c.copyEndpoint(ctx, cluster, infrastructure); err != nil {
		return err
	}
	now := as[clusterv1.Cluster](c.get(clusterKind, cluster.Namespace, cluster.Name))
	status := &now.Status
	// Both fields are one-way: an initialized cluster stays initialized.
	if nestedBool(infrastructure, "status", "initialization", "provisioned") {
		status.Initialization.InfrastructureProvisioned = truth()
	}
	if nestedBool(controlPlane, "status", "initialization", "controlPlaneInitialized") {
		status.Initialization.ControlPlaneInitialized = truth()
	}
	status.Phase = string(clusterv1.ClusterPhaseProvisioning)
	if isTrue(status.Initialization.InfrastructureProvisioned) {
		status.Phase = string(clusterv1.ClusterPhaseProvisioned)
	}
	set(&status.Conditions, "InfrastructureReady", isTrue(status.Initialization.InfrastructureProvisioned),
		now.Generation)
	set(&status.Conditions, "ControlPlaneInitialized", isTrue(status.Initialization.ControlPlaneInitialized),
		now.Generation)
	return c.updateStatus(ctx, now, clusterKind)
}

// adopt makes the cluster the controller owner of the object that it refers to. It returns nil while the object does
// not exist.
func (c *Core) adopt(ctx context.Context, cluster *clusterv1.Cluster,
	ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	u := c.get(kindOf(ref), cluster.Namespace, ref.Name)
	if u == nil {
		return nil, nil
	}
	return u, c.update(ctx, u, func(u *unstructured.Unstructured) {
		own(u, reference(cluster, "Cluster", true), cluster.Name)
	})
}

func (c *Core) copyEndpoint(ctx context.Context, cluster *clusterv1.Cluster,
	infrastructure *unstructured.Unstructured) error {
	if cluster.Spec.ControlPlaneEndpoint.Host != "" || nestedString(infrastructure, "spec", "controlPlaneEndpoint",
		"host") == "" {
		return nil
	}
	endpoint, _, _ := unstructured.NestedMap(infrastructure.Object, "spec", "controlPlaneEndpoint")
	return c.update(ctx, c.get(clusterKind, cluster.Namespace, cluster.Name), func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedMap(u.Object, endpoint, "spec", "controlPlaneEndpoint")
	})
}

// removeCluster deletes the objects of a cluster, one kind after the other. It removes the finalizer when no object is
// left.
func (c *Core) removeCluster(ctx context.Context, stored *unstructured.Unstructured, cluster *clusterv1.Cluster) error {
	for _, kind := range []schema.GroupVersionKind{deploymentKind, setKind, machineKind} {
		left := false
		for _, u := range c.opts.API.Objects(kind) {
			if u.GetNamespace() != cluster.Namespace || nestedString(u, "spec", "clusterName") != cluster.Name {
				continue
			}
			left = true
			if err := c.delete(ctx, u); err != nil {
				return err
			}
		}
		if left {
			return nil
		}
	}
	for _, ref := range []clusterv1.ContractVersionedObjectReference{cluster.Spec.ControlPlaneRef,
		cluster.Spec.InfrastructureRef} {
		if u := c.get(kindOf(ref), cluster.Namespace, ref.Name); u != nil {
			return c.delete(ctx, u)
		}
	}
	return c.update(ctx, stored, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
}

func set(list *[]metav1.Condition, name string, value bool, generation int64) {
	status := "False"
	if value {
		status = "True"
	}
	conditions.SetMeta(list, conditions.Condition{Type: name, Status: status, Reason: name}, generation, time.Now())
}

func truth() *bool {
	yes := true
	return &yes
}

func isTrue(b *bool) bool { return b != nil && *b }
