package fakecapi

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func (c *Core) machine(ctx context.Context, machine *clusterv1.Machine) error {
	cluster := c.clusterOf(machine.Namespace, machine.Spec.ClusterName)
	if cluster == nil || c.paused(cluster, machine) {
		return nil
	}
	if machine.DeletionTimestamp != nil {
		return c.removeMachine(ctx, cluster, machine)
	}
	stored := c.get(machineKind, machine.Namespace, machine.Name)
	if err := c.update(ctx, stored, func(u *unstructured.Unstructured) {
		withFinalizer(u, clusterv1.MachineFinalizer)
	}); err != nil {
		return err
	}
	bootstrap, err := c.half(ctx, machine, machine.Spec.Bootstrap.ConfigRef)
	if err != nil {
		return err
	}
	infrastructure, err := c.half(ctx, machine, machine.Spec.InfrastructureRef)
	if err != nil {
		return err
	}
	if err := c.copyToSpec(ctx, machine, bootstrap, infrastructure); err != nil {
		return err
	}
	return c.machineStatus(ctx, cluster, machine, bootstrap, infrastructure)
}

// half adopts the bootstrap configuration or the infrastructure of a machine. It returns nil while that does not exist.
func (c *Core) half(ctx context.Context, machine *clusterv1.Machine,
	ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	u := c.get(kindOf(ref), machine.Namespace, ref.Name)
	if u == nil {
		return nil, nil
	}
	return u, c.update(ctx, u, func(u *unstructured.Unstructured) {
		own(u, reference(machine, "Machine", true), machine.Spec.ClusterName)
	})
}

// copyToSpec copies the name of the bootstrap data and, once the infrastructure is provisioned, its provider ID.
func (c *Core) copyToSpec(ctx context.Context, machine *clusterv1.Machine, bootstrap,
	infrastructure *unstructured.Unstructured) error {
	return c.update(ctx, c.get(machineKind, machine.Namespace, machine.Name), func(u *unstructured.Unstructured) {
		if bootstrap != nil && nestedBool(bootstrap, "status", "initialization", "dataSecretCreated") {
			if name := nestedString(bootstrap, "status", "dataSecretName"); name != "" {
				_ = unstructured.SetNestedField(u.Object, name, "spec", "bootstrap", "dataSecretName")
			}
		}
		if infrastructure != nil && nestedBool(infrastructure, "status", "initialization", "provisioned") {
			if id := nestedString(infrastructure, "spec", "providerID"); id != "" {
				_ = unstructured.SetNestedField(u.Object, id, "spec", "providerID")
			}
		}
	})
}

func (c *Core) machineStatus(ctx context.Context, cluster *clusterv1.Cluster, machine *clusterv1.Machine, bootstrap,
	infrastructure *unstructured.Unstructured) error {
	now := as[clusterv1.Machine](c.get(machineKind, machine.Namespace, machine.Name))
	status := &now.Status
	if now.Spec.Bootstrap.DataSecretName != nil {
		status.Initialization.BootstrapDataSecretCreated = truth()
	}
	// The core treats infrastructure as provisioned when its status says so and it has a provider ID.
	if infrastructure != nil && now.Spec.ProviderID != "" {
		status.Initialization.InfrastructureProvisioned = truth()
		status.Addresses = addresses(infrastructure)
	}
	if status.NodeRef.Name == "" {
		if node := c.findNode(ctx, cluster, now.Spec.ProviderID); node != nil {
			status.NodeRef = clusterv1.MachineNodeReference{Name: node.Name}
		} else {
			c.seeking = true
		}
	}
	if was := status.Phase; was != phase(status) {
		status.Phase, status.LastUpdated = phase(status), metav1.Now()
	}
	set(&status.Conditions, clusterv1.BootstrapConfigReadyCondition, bootstrap != nil &&
		isTrue(status.Initialization.BootstrapDataSecretCreated), now.Generation)
	set(&status.Conditions, clusterv1.InfrastructureReadyCondition,
		ready(infrastructure, isTrue(status.Initialization.InfrastructureProvisioned)), now.Generation)
	set(&status.Conditions, clusterv1.MachineNodeReadyCondition, status.NodeRef.Name != "", now.Generation)
	set(&status.Conditions, clusterv1.MachineReadyCondition, status.NodeRef.Name != "", now.Generation)
	return c.updateStatus(ctx, now, machineKind)
}

// ready mirrors the condition Ready of the infrastructure. Without that condition it uses the fallback.
func ready(infrastructure *unstructured.Unstructured, fallback bool) bool {
	if infrastructure == nil {
		return false
	}
	list, _, _ := unstructured.NestedSlice(infrastructure.Object, "status", "conditions")
	for _, entry := range list {
		if m, ok := entry.(map[string]any); ok && m["type"] == clusterv1.ReadyCondition {
			return m["status"] == "True"
		}
	}
	return fallback
}

func phase(status *clusterv1.MachineStatus) string {
	switch {
	case status.NodeRef.Name != "":
		return string(clusterv1.MachinePhaseRunning)
	case isTrue(status.Initialization.InfrastructureProvisioned):
		return string(clusterv1.MachinePhaseProvisioned)
	case isTrue(status.Initialization.BootstrapDataSecretCreated):
		return string(clusterv1.MachinePhaseProvisioning)
	}
	return string(clusterv1.MachinePhasePending)
}

func addresses(infrastructure *unstructured.Unstructured) clusterv1.MachineAddresses {
	list, _, _ := unstructured.NestedSlice(infrastructure.Object, "status", "addresses")
	var out clusterv1.MachineAddresses
	for _, entry := range list {
		if m, ok := entry.(map[string]any); ok {
			kind, _ := m["type"].(string)
			address, _ := m["address"].(string)
			out = append(out, clusterv1.MachineAddress{Type: clusterv1.MachineAddressType(kind), Address: address})
		}
	}
	return out
}

// findNode returns the node with that provider ID, or nil.
func (c *Core) findNode(ctx context.Context, cluster *clusterv1.Cluster, providerID string) *corev1.Node {
	downstream := c.opts.Downstream(cluster.Namespace, cluster.Name)
	if providerID == "" || downstream == nil {
		return nil
	}
	nodes, err := downstream.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range nodes.Items {
		if nodes.Items[i].Spec.ProviderID == providerID {
			return &nodes.Items[i]
		}
	}
	return nil
}

// removeMachine deletes a machine in the core's order: hooks, infrastructure, bootstrap configuration, node.
func (c *Core) removeMachine(ctx context.Context, cluster *clusterv1.Cluster, machine *clusterv1.Machine) error {
	if hasHook(machine.Annotations, clusterv1.PreDrainDeleteHookAnnotationPrefix) ||
		hasHook(machine.Annotations, clusterv1.PreTerminateDeleteHookAnnotationPrefix) {
		return nil
	}
	for _, ref := range []clusterv1.ContractVersionedObjectReference{machine.Spec.InfrastructureRef,
		machine.Spec.Bootstrap.ConfigRef} {
		if u := c.get(kindOf(ref), machine.Namespace, ref.Name); u != nil {
			return c.delete(ctx, u)
		}
	}
	if node := c.findNode(ctx, cluster, machine.Spec.ProviderID); node != nil && cluster.DeletionTimestamp == nil {
		err := c.opts.Downstream(cluster.Namespace, cluster.Name).CoreV1().Nodes().Delete(ctx, node.Name,
			metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return c.update(ctx, c.get(machineKind, machine.Namespace, machine.Name), func(u *unstructured.Unstructured) {
		u.SetFinalizers(nil)
	})
}
