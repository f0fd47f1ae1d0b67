package fakecapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// clonedFrom are the annotations by which a clone names its template.
const (
	clonedFromName = "cluster.x-k8s.io/cloned-from-name"
	clonedFromKind = "cluster.x-k8s.io/cloned-from-groupkind"
)

// deployment keeps one MachineSet for each machine template. The newest set gets the replicas, and older sets shrink as
// it grows.
func (c *Core) deployment(ctx context.Context, deployment *clusterv1.MachineDeployment) error {
	cluster := c.clusterOf(deployment.Namespace, deployment.Spec.ClusterName)
	if cluster == nil || deployment.DeletionTimestamp != nil || cluster.DeletionTimestamp != nil ||
		c.paused(cluster, deployment) {
		return nil
	}
	stored := c.get(deploymentKind, deployment.Namespace, deployment.Name)
	if err := c.update(ctx, stored, func(u *unstructured.Unstructured) {
		own(u, reference(cluster, "Cluster", false), cluster.Name)
	}); err != nil {
		return err
	}
	if err := c.ownTemplates(ctx, cluster, deployment.Spec.Template.Spec); err != nil {
		return err
	}
	sets := c.setsOf(deployment)
	current := slices.IndexFunc(sets, func(s *clusterv1.MachineSet) bool {
		return s.Spec.Template.Spec.InfrastructureRef == deployment.Spec.Template.Spec.InfrastructureRef
	})
	if current < 0 {
		return c.makeSet(ctx, deployment)
	}
	if err := c.scaleSets(ctx, deployment, sets, sets[current]); err != nil {
		return err
	}
	now := as[clusterv1.MachineDeployment](c.get(deploymentKind, deployment.Namespace, deployment.Name))
	now.Status.Replicas, now.Status.ReadyReplicas, now.Status.AvailableReplicas, now.Status.UpToDateReplicas = count(
		sets, sets[current])
	now.Status.ObservedGeneration = now.Generation
	return c.updateStatus(ctx, now, deploymentKind)
}

// ownTemplates makes the cluster an owner of its templates, so that they are deleted with it.
func (c *Core) ownTemplates(ctx context.Context, cluster *clusterv1.Cluster, spec clusterv1.MachineSpec) error {
	for _, ref := range []clusterv1.ContractVersionedObjectReference{spec.InfrastructureRef, spec.Bootstrap.ConfigRef} {
		if u := c.get(kindOf(ref), cluster.Namespace, ref.Name); u != nil {
			if err := c.update(ctx, u, func(u *unstructured.Unstructured) {
				own(u, reference(cluster, "Cluster", false), cluster.Name)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Core) setsOf(deployment *clusterv1.MachineDeployment) []*clusterv1.MachineSet {
	var sets []*clusterv1.MachineSet
	for _, u := range c.opts.API.Objects(setKind) {
		if metav1.IsControlledBy(u, deployment) && u.GetDeletionTimestamp() == nil {
			sets = append(sets, as[clusterv1.MachineSet](u))
		}
	}
	return sets
}

func (c *Core) makeSet(ctx context.Context, deployment *clusterv1.MachineDeployment) error {
	none := int32(0)
	labels := withLabels(deployment.Spec.Template.Labels, clusterv1.ClusterNameLabel, deployment.Spec.ClusterName,
		clusterv1.MachineDeploymentNameLabel, deployment.Name)
	template := *deployment.Spec.Template.DeepCopy()
	template.Labels = labels
	made := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace, GenerateName: deployment.Name + "-", Labels: labels,
			Annotations:     deployment.Annotations,
			OwnerReferences: []metav1.OwnerReference{reference(deployment, "MachineDeployment", true)},
		},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: deployment.Spec.ClusterName, Replicas: &none, Template: template,
			Selector: deployment.Spec.Selector,
		},
	}
	u := from(made, setKind)
	_, err := c.resource(u).Create(ctx, u, metav1.CreateOptions{})
	return err
}

// scaleSets gives the current set its replicas. It removes one machine from an older set for each machine of the
// current set that has a node.
func (c *Core) scaleSets(ctx context.Context, deployment *clusterv1.MachineDeployment, sets []*clusterv1.MachineSet,
	current *clusterv1.MachineSet) error {
	want := *deployment.Spec.Replicas
	if err := c.scale(ctx, current, want); err != nil {
		return err
	}
	keep := want - value(current.Status.ReadyReplicas)
	for _, old := range sets {
		if old == current {
			continue
		}
		n := max(0, min(keep, *old.Spec.Replicas))
		if err := c.scale(ctx, old, n); err != nil {
			return err
		}
		keep -= n
	}
	return nil
}

func (c *Core) scale(ctx context.Context, set *clusterv1.MachineSet, replicas int32) error {
	if *set.Spec.Replicas == replicas {
		return nil
	}
	return c.update(ctx, c.get(setKind, set.Namespace, set.Name), func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, int64(replicas), "spec", "replicas")
	})
}

func count(sets []*clusterv1.MachineSet, current *clusterv1.MachineSet) (all, ready, available, upToDate *int32) {
	all, ready, available = new(int32), new(int32), new(int32)
	for _, s := range sets {
		*all += value(s.Status.Replicas)
		*ready += value(s.Status.ReadyReplicas)
		*available += value(s.Status.AvailableReplicas)
	}
	n := value(current.Status.Replicas)
	return all, ready, available, &n
}

func value(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// set creates and deletes machines until their number matches the set's replicas.
func (c *Core) set(ctx context.Context, set *clusterv1.MachineSet) error {
	cluster := c.clusterOf(set.Namespace, set.Spec.ClusterName)
	if cluster == nil || set.DeletionTimestamp != nil || c.paused(cluster, set) {
		return nil
	}
	var machines []*unstructured.Unstructured
	ready := int32(0)
	for _, u := range c.opts.API.Objects(machineKind) {
		if metav1.IsControlledBy(u, set) && u.GetDeletionTimestamp() == nil {
			machines = append(machines, u)
			if nestedString(u, "status", "nodeRef", "name") != "" {
				ready++
			}
		}
	}
	want := int(*set.Spec.Replicas)
	for range want - len(machines) {
		if err := c.makeMachine(ctx, set); err != nil {
			return err
		}
	}
	slices.SortStableFunc(machines, deleteFirst)
	for i := range len(machines) - want {
		if err := c.delete(ctx, machines[i]); err != nil {
			return err
		}
	}
	n := int32(len(machines))
	set.Status.Replicas, set.Status.ReadyReplicas, set.Status.AvailableReplicas = &n, &ready, &ready
	return c.updateStatus(ctx, set, setKind)
}

// deleteFirst orders machines for deletion: machines marked for deletion first, then machines without a node, then
// newer machines.
func deleteFirst(a, b *unstructured.Unstructured) int {
	rank := func(u *unstructured.Unstructured) int {
		switch {
		case u.GetAnnotations()[clusterv1.DeleteMachineAnnotation] != "":
			return 0
		case nestedString(u, "status", "nodeRef", "name") == "":
			return 1
		}
		return 2
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	if d := b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time); d != 0 {
		return d
	}
	return strings.Compare(b.GetName(), a.GetName())
}

// makeMachine clones both templates and creates the Machine that refers to the clones.
func (c *Core) makeMachine(ctx context.Context, set *clusterv1.MachineSet) error {
	spec := set.Spec.Template.Spec
	name := fmt.Sprintf("%s-%05d", set.Name, c.opts.API.Changes())
	labels := withLabels(set.Spec.Template.Labels, clusterv1.MachineSetNameLabel, set.Name, clusterv1.ClusterNameLabel,
		set.Spec.ClusterName)
	for _, ref := range []*clusterv1.ContractVersionedObjectReference{&spec.InfrastructureRef,
		&spec.Bootstrap.ConfigRef} {
		template := c.get(kindOf(*ref), set.Namespace, ref.Name)
		if template == nil {
			return fmt.Errorf("template %s %s does not exist", ref.Kind, ref.Name)
		}
		clone := cloneOf(template, name, labels, reference(set, "MachineSet", false))
		if _, err := c.resource(clone).Create(ctx, clone, metav1.CreateOptions{}); err != nil {
			return err
		}
		ref.Kind, ref.Name = clone.GetKind(), name
	}
	made := from(&clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name, Labels: labels, Annotations: set.Spec.Template.Annotations,
			Finalizers:      []string{clusterv1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{reference(set, "MachineSet", true)},
		},
		Spec: spec,
	}, machineKind)
	_, err := c.resource(made).Create(ctx, made, metav1.CreateOptions{})
	return err
}

func cloneOf(template *unstructured.Unstructured, name string, labels map[string]string,
	owner metav1.OwnerReference) *unstructured.Unstructured {
	spec, _, _ := unstructured.NestedMap(template.Object, "spec", "template", "spec")
	metadataLabels, _, _ := unstructured.NestedStringMap(template.Object, "spec", "template", "metadata", "labels")
	clone := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	gvk := template.GroupVersionKind()
	clone.SetAnnotations(map[string]string{clonedFromName: template.GetName(),
		clonedFromKind: gvk.GroupKind().String()})
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "Template")
	clone.SetGroupVersionKind(gvk)
	clone.SetNamespace(template.GetNamespace())
	clone.SetName(name)
	all := maps.Clone(labels)
	maps.Copy(all, metadataLabels)
	clone.SetLabels(all)
	clone.SetOwnerReferences([]metav1.OwnerReference{owner})
	return clone
}

func withLabels(labels map[string]string, pairs ...string) map[string]string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}
