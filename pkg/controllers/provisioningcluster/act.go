package provisioningcluster

import (
	"fmt"
	"slices"
	"time"

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

// prepare completes the cluster's metadata and pools. It writes once for a new cluster, and not again.
func (h *handler) prepare(seen *facts) (*provv1.Cluster, error) {
	cluster := seen.input.Cluster
	prepared, err := topology.Prepare(cluster, h.InstanceID, seen.input.Schemas)
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
	return prepared, nil
}

// apply takes ownership of the machine configs and writes the objects.
func (h *handler) apply(seen *facts) error {
	cluster := seen.input.Cluster
	for _, ref := range topology.ConfigRefs(cluster) {
		taken, err := topology.TakeConfig(cluster, seen.input.MachineConfigs[ref])
		if err != nil {
			return err
		}
		if taken == nil {
			continue
		}
		if taken, err = h.DynamicKinds.Update(h.ctx, taken); err != nil {
			return fmt.Errorf("take %s %s/%s: %w", ref.Kind, cluster.Namespace, ref.Name, err)
		}
		seen.input.MachineConfigs[ref] = taken
	}
	objects, err := topology.Desired(seen.input)
	if err != nil {
		return err
	}
	kinds := kindsWith(objects)
	planned := topology.Replacements(seen.deployments, objects, h.machineTemplate(cluster.Namespace))
	done, err := h.Apply.Apply(h.ctx, handlerName, cluster, applyset.NoOwnerRef, kinds, objects)
	h.countReplacements(planned, done)
	return err
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

// removal is the progress of deleting a cluster's objects.
type removal struct {
	// done means that nothing remains.
	done bool
	// waiting is the progress for users, err the problem.
	waiting *outcome.Waiting
	err     error
}

// remove deletes the cluster's objects in the order that Cluster API needs, and then releases the cluster.
func (h *handler) remove(seen *facts) (*provv1.Cluster, error) {
	cluster := seen.input.Cluster
	if !slices.Contains(cluster.Finalizers, provv1.RKEClusterFinalizer) {
		return cluster, nil
	}
	if admission.Protected(cluster.Annotations) {
		// The deletion started in spite of the admission policies, so everything stays unchanged.
		return h.reportRemoval(seen, removal{err: outcome.Stall(reasonProtected, "the cluster is protected and nothing of it is deleted: "+
			"remove annotation "+rkev1.ProtectAnnotation+" to go on with the deletion, which cannot be taken back")})
	}
	if err := h.gatherLeft(seen); err != nil {
		return cluster, err
	}
	if err := h.deleteNext(seen); err != nil {
		return cluster, err
	}
	progress := h.progress(seen)
	if !progress.done {
		return h.reportRemoval(seen, progress)
	}
	templates, served, err := h.templateKinds(cluster)
	if err != nil {
		return cluster, err
	}
	if !served {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, servedSoon)
		return cluster, nil
	}
	if err := h.sweep(cluster, templates); err != nil {
		return cluster, err
	}
	return h.release(cluster)
}

// deleteNext deletes the CAPI Cluster, which deletes all other objects. It may not exist, because it was never created
// or was deleted before Cluster API saw its control plane. Then this controller deletes the control plane, which waits
// for the machines.
func (h *handler) deleteNext(seen *facts) error {
	cluster := seen.input.Cluster
	var err error
	switch {
	case seen.capiCluster != nil && seen.capiCluster.DeletionTimestamp.IsZero() && inSet(cluster, seen.capiCluster):
		err = h.CAPIClusters.Delete(cluster.Namespace, cluster.Name, &metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(seen.capiCluster.UID)),
		})
	case alone(seen) && seen.controlPlane.DeletionTimestamp.IsZero() && inSet(cluster, seen.controlPlane):
		err = h.ControlPlanes.Delete(cluster.Namespace, cluster.Name, &metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(seen.controlPlane.UID)),
		})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the objects of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return nil
}

// alone reports whether there is a control plane that no other controller deletes. There is no CAPI Cluster, or it
// belongs to another owner and is not deleted with this cluster.
func alone(seen *facts) bool {
	if seen.capiCluster == nil {
		return seen.controlPlane != nil && len(seen.machines) == 0
	}
	return seen.controlPlane != nil && !goes(seen.input.Cluster, seen.capiCluster)
}

// inSet reports whether the object was made for the cluster.
func inSet(cluster *provv1.Cluster, object metav1.Object) bool {
	return applyset.Marked(object, handlerName, clusterKind, cluster.Namespace, cluster.Name)
}

// goes reports whether the object is being deleted, or will be deleted with the cluster.
func goes(cluster *provv1.Cluster, object metav1.Object) bool {
	return object.GetDeletionTimestamp() != nil || inSet(cluster, object)
}

// release removes the finalizer from the cluster.
func (h *handler) release(cluster *provv1.Cluster) (*provv1.Cluster, error) {
	patch, err := topology.ReleasePatch(cluster, provv1.RKEClusterFinalizer)
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

// progress returns what the deletion waits for. User interfaces and scripts read the texts
// (docs/wire/capi.md#deletion).
func (h *handler) progress(seen *facts) removal {
	// Wait only for objects that a controller deletes. Live objects of other owners with the same name are unrelated.
	cluster, core, plane := seen.input.Cluster, seen.capiCluster, seen.controlPlane
	if len(seen.machines) > 0 && (core == nil || goes(cluster, core)) {
		return h.machineProgress(seen.machines[0], seen.now)
	}
	if core != nil && goes(cluster, core) || plane != nil && goes(cluster, plane) {
		return removal{waiting: outcome.Wait("", "waiting for cluster-api cluster ["+cluster.Name+"] to delete", "Cluster API Cluster, RKEControlPlane")}
	}
	return removal{done: true}
}

func (h *handler) machineProgress(machine *clusterv1.Machine, now time.Time) removal {
	waiting := outcome.Wait("", "waiting for machine ["+machine.Name+"] to delete", "Machine")
	for _, condition := range machine.Status.Conditions {
		if condition.Type == clusterv1.MachineDeletingCondition && condition.Reason == clusterv1.MachineDeletingInternalErrorReason {
			return removal{err: outcome.Stall("", "error deleting machine ["+machine.Name+"], machine must be deleted manually")}
		}
	}
	if machine.DeletionTimestamp.IsZero() {
		return removal{waiting: waiting}
	}
	left := machine.DeletionTimestamp.Add(h.DeletionDeadline).Sub(now)
	if left <= 0 {
		return removal{err: outcome.Stall(reasonOverdue, waiting.Message+
			": it should be gone by now; its condition Deleting and its finalizers say what holds it")}
	}
	waiting.After = left
	return removal{waiting: waiting}
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
	return kinds, !slices.ContainsFunc(kinds, func(gvk schema.GroupVersionKind) bool { return !h.DynamicKinds.Synced(gvk) }), nil
}

// sweep deletes what Cluster API does not: objects that it never saw, and old machine templates, which the set itself
// keeps. They have no owner that deletes them. So sweep asks the API server, because a cache may lack the newest ones.
func (h *handler) sweep(cluster *provv1.Cluster, templateKinds []schema.GroupVersionKind) error {
	if err := h.Apply.PurgeLive(h.ctx, handlerName, clusterKind, cluster.Namespace, cluster.Name, setKinds()); err != nil {
		return err
	}
	return h.Apply.PurgeKept(h.ctx, handlerName, clusterKind, cluster.Namespace, cluster.Name, templateKinds)
}

// clusterKind is the kind of the owner of a cluster's set.
var clusterKind = provv1.SchemeGroupVersion.WithKind("Cluster")
