package provisioningcluster

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/admission"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// setKinds returns the kinds of Cluster API objects, desired or not, in the order in which they are written.
func setKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		rkev1.SchemeGroupVersion.WithKind("RKECluster"),
		rkev1.SchemeGroupVersion.WithKind("RKEControlPlane"),
		clusterv1.GroupVersion.WithKind("Cluster"),
		rkev1.SchemeGroupVersion.WithKind("RKEBootstrapTemplate"),
		clusterv1.GroupVersion.WithKind("MachineDeployment"),
		clusterv1.GroupVersion.WithKind("MachineHealthCheck"),
	}
}

// result is what a pass has done.
type result struct {
	// cluster is the Cluster after the writes.
	cluster *provv1.Cluster
	// identity says how the making of the management objects ended.
	identity error
	// translation says how the making of the Cluster API objects ended. untried means that there is no end to report:
	// the cluster is imported, has no name, or waits for a moment.
	translation error
	untried     bool
	// waits means that the pass has written what the Cluster API objects refer to. The event of the write starts the
	// next pass.
	waits bool
}

// act claims the cluster, names it, and makes its objects. A problem of the management objects does not stop the
// Cluster API objects, as soon as the cluster has a name.
func (h *handler) act(facts *Facts, d decision) (result, error) {
	if d.step == translate {
		refused, err := h.putBack(facts)
		if err != nil {
			return result{}, err
		}
		if refused != nil {
			d.step, d.end = hold, refused
		}
	}
	if d.step == hold {
		facts.input.Cluster = facts.stored
	}
	cluster, err := h.claim(facts, d)
	if err != nil {
		return result{}, err
	}
	done := result{translation: d.end}
	done.cluster, done.identity = h.identify(cluster, facts, d)
	if apierrors.IsConflict(done.identity) {
		return done, done.identity
	}
	if d.step == translate && cluster.Spec.RKEConfig != nil && done.cluster.Status.ClusterName != "" {
		facts.input.Cluster = done.cluster
		if done.waits, done.translation = h.keepPodSecurity(facts); !done.waits && done.translation == nil {
			done.translation = h.translate(facts)
		}
		return done, nil
	}
	done.untried = d.end == nil
	return done, nil
}

// claim completes the cluster's metadata and pools. It writes once for a new cluster, and not again. A pool of a
// refused spec gets no copy of a driver's schema, because the user may correct the driver.
func (h *handler) claim(facts *Facts, d decision) (*provv1.Cluster, error) {
	cluster, schemas := facts.input.Cluster, facts.input.Schemas
	if d.step == hold {
		schemas = nil
	}
	prepared, err := topology.Prepare(cluster, h.InstanceID, schemas)
	if err != nil {
		return nil, err
	}
	if prepared == nil {
		return cluster, nil
	}
	patch, err := topology.PreparePatch(cluster, prepared)
	if err != nil {
		return nil, err
	}
	if prepared, err = h.Clusters.Patch(cluster.Namespace, cluster.Name, types.JSONPatchType, patch); err != nil {
		return nil, fmt.Errorf("prepare cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.Statuses.Replaced(cluster, prepared, h.Now())
	return prepared, nil
}

// translate takes ownership of the machine configs and writes the Cluster API objects.
func (h *handler) translate(facts *Facts) error {
	cluster := facts.input.Cluster
	for _, ref := range topology.ConfigRefs(cluster) {
		taken, err := topology.TakeConfig(cluster, facts.input.MachineConfigs[ref])
		if err != nil {
			return err
		}
		if taken == nil {
			continue
		}
		if taken, err = h.DynamicKinds.Update(h.ctx, taken); err != nil {
			return fmt.Errorf("take %s %s/%s: %w", ref.Kind, cluster.Namespace, ref.Name, err)
		}
		facts.input.MachineConfigs[ref] = taken
	}
	objects, err := topology.Desired(facts.input)
	if err != nil {
		return err
	}
	planned := topology.Replacements(facts.deployments, objects, h.machineTemplate(cluster.Namespace))
	var kept []applyset.Field
	for _, name := range topology.Sized(facts.input) {
		kept = append(kept, applyset.Field{Kind: clusterv1.GroupVersion.WithKind("MachineDeployment"),
			Namespace: cluster.Namespace, Name: name, Path: "/spec/replicas"})
	}
	done, err := h.Apply.Apply(applyset.KeepFields(h.ctx, kept...), handlerName, cluster, applyset.NoOwnerRef,
		kindsWith(objects), objects)
	h.countReplacements(planned, done)
	if err != nil {
		return err
	}
	return h.dropPodSecurity(facts)
}

// kindsWith returns the kinds of the set, with those of the objects.
func kindsWith(objects []runtime.Object) []schema.GroupVersionKind {
	kinds := setKinds()
	for _, object := range objects {
		if gvk := object.GetObjectKind().GroupVersionKind(); !slices.Contains(kinds, gvk) {
			kinds = append(kinds, gvk)
		}
	}
	return kinds
}

// remove deletes the cluster's objects in the order that Cluster API needs. It deletes the management objects last,
// because the machines that are being removed still need them. Then it releases the cluster.
func (h *handler) remove(facts *Facts) (*provv1.Cluster, error) {
	cluster := facts.input.Cluster
	if slices.Contains(cluster.Finalizers, provv1.RKEClusterFinalizer) {
		progress, err := h.removeTranslation(facts)
		if err != nil {
			return cluster, err
		}
		if progress.end != nil {
			return h.reportRemoval(facts, progress.end)
		}
		if !progress.done {
			h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, servedSoon)
			return cluster, nil
		}
	} else if !slices.Contains(cluster.Finalizers, provv1.ProvisioningClusterFinalizer) {
		return h.release(cluster) // an earlier release of Drover kept the finalizers of a former manager
	}
	if err := h.removeSecrets(cluster); err != nil {
		return cluster, err
	}
	if err := h.removeIdentity(cluster); err != nil {
		return cluster, err
	}
	return h.release(cluster)
}

// removeTranslation deletes the Cluster API objects.
func (h *handler) removeTranslation(facts *Facts) (removal, error) {
	cluster := facts.input.Cluster
	if admission.Protected(cluster.Annotations) {
		// The deletion started in spite of the admission policies, so everything stays unchanged.
		return removal{end: outcome.Stall(reasonProtected, "the cluster is protected and nothing of it is deleted: "+
			"remove annotation "+rkev1.ProtectAnnotation+
			" to go on with the deletion, which cannot be taken back")}, nil
	}
	if err := h.gatherLeft(facts); err != nil {
		return removal{}, err
	}
	if err := h.deleteNext(facts); err != nil {
		return removal{}, err
	}
	progress := facts.progress(h.DeletionDeadline)
	if !progress.done {
		return progress, nil
	}
	templates, served, err := h.templateKinds(cluster)
	switch {
	case err != nil:
		return removal{}, err
	case !served && cluster.Status.ClusterName == "" && !facts.hasChildren():
		return progress, nil // a cluster gets its name before its first object
	case !served:
		return removal{}, nil
	}
	return progress, h.sweep(cluster, templates)
}

// deleteNext deletes the CAPI Cluster, which deletes all other objects. It may not exist, because it was never created
// or was deleted before Cluster API saw its control plane. Then this controller deletes the control plane, which waits
// for the machines.
func (h *handler) deleteNext(facts *Facts) error {
	cluster := facts.input.Cluster
	var err error
	switch {
	case facts.capiCluster != nil && facts.capiCluster.DeletionTimestamp.IsZero() && inSet(cluster, facts.capiCluster):
		err = h.CAPIClusters.Delete(cluster.Namespace, cluster.Name, &metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(facts.capiCluster.UID)),
		})
	case facts.alone() && facts.controlPlane.DeletionTimestamp.IsZero() && inSet(cluster, facts.controlPlane):
		err = h.ControlPlanes.Delete(cluster.Namespace, cluster.Name, &metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(facts.controlPlane.UID)),
		})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the objects of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return nil
}

// templateKinds returns the kinds of machine templates that a cluster may have: all served kinds, and those of its
// pools. served is false while the cache of one of them is not filled. A deleted driver has no templates.
func (h *handler) templateKinds(cluster *provv1.Cluster) (kinds []schema.GroupVersionKind, served bool, err error) {
	for _, gvk := range h.DynamicKinds.Kinds() {
		if isTemplate(gvk) {
			kinds = append(kinds, gvk)
		}
	}
	in := topology.Input{Cluster: cluster}
	if err := h.gatherSchemas(&in); err != nil {
		return nil, false, err
	}
	for _, ref := range topology.ConfigRefs(cluster) {
		if gvk := ref.TemplateGVK(); in.Schemas[ref.SchemaName()] != nil && !slices.Contains(kinds, gvk) {
			kinds = append(kinds, gvk)
		}
	}
	return kinds, !slices.ContainsFunc(kinds, func(gvk schema.GroupVersionKind) bool {
		return !h.DynamicKinds.Synced(gvk)
	}), nil
}

// isTemplate matches the kinds of node drivers' machine templates.
func isTemplate(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "rke-machine.cattle.io" && strings.HasSuffix(gvk.Kind, "MachineTemplate")
}

// sweep deletes what Cluster API does not: objects that it never saw, and old machine templates, which the set itself
// keeps. They have no owner that deletes them. So sweep asks the API server, because a cache may lack the newest ones.
func (h *handler) sweep(cluster *provv1.Cluster, templateKinds []schema.GroupVersionKind) error {
	if err := h.Apply.PurgeLive(h.ctx, handlerName, clusterKind, cluster.Namespace, cluster.Name,
		setKinds()); err != nil {
		return err
	}
	return h.Apply.PurgeKept(h.ctx, handlerName, clusterKind, cluster.Namespace, cluster.Name, templateKinds)
}

// release removes Drover's finalizers from the cluster, and those of a former manager. Their work is done: the objects
// of the cluster are deleted.
func (h *handler) release(cluster *provv1.Cluster) (*provv1.Cluster, error) {
	finalizers := append(topology.FormerFinalizers(clusterKind.GroupKind(), cluster), provv1.RKEClusterFinalizer,
		provv1.ProvisioningClusterFinalizer)
	if !slices.ContainsFunc(finalizers, func(f string) bool { return slices.Contains(cluster.Finalizers, f) }) {
		return cluster, nil
	}
	patch, err := topology.ReleasePatch(cluster, finalizers...)
	if err != nil {
		return cluster, err
	}
	updated, err := h.Clusters.Patch(cluster.Namespace, cluster.Name, types.MergePatchType, patch)
	if apierrors.IsNotFound(err) {
		return cluster, nil
	}
	if err != nil {
		return cluster, fmt.Errorf("release cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return updated, nil
}
