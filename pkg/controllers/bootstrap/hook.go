package bootstrap

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/kube/clients"
)

const (
	// downstreamTimeout limits requests to a cluster, because a worker that all clusters share waits for them.
	downstreamTimeout = 3 * time.Second
	// downAgain is the retry delay for a cluster that did not answer.
	downAgain = 15 * time.Second
	// downPatience covers the seconds for which the API server is silent while an etcd member leaves.
	downPatience = 30 * time.Second
)

// onHook holds an etcd machine until its member has left. It runs while the bootstrap object exists, because Cluster
// API deletes that only after the hook is removed. The finalizer covers a bootstrap object that is deleted alone.
func (h *handler) onHook(_ string, bootstrap *rkev1.RKEBootstrap) (*rkev1.RKEBootstrap, error) {
	if bootstrap == nil || h.written.Behind(bootstrap, h.Now()) {
		return bootstrap, nil
	}
	machine, err := h.machineOf(bootstrap)
	if err != nil {
		return bootstrap, err
	}
	if ours, err := h.ours(bootstrap.Namespace, clusterOf(bootstrap, machine)); err != nil || !ours {
		return bootstrap, err
	}
	if machine == nil {
		return h.guard(bootstrap, false)
	}
	removal, err := h.gatherRemoval(bootstrap, machine)
	if err != nil {
		return bootstrap, err
	}
	return h.removal(bootstrap, machine, removal)
}

// removal carries out the decision about an etcd machine's member.
func (h *handler) removal(bootstrap *rkev1.RKEBootstrap, machine *clusterv1.Machine,
	removal bootstrapdata.Removal) (*rkev1.RKEBootstrap, error) {
	action, wait, after := bootstrapdata.DecideHook(removal)
	if action == bootstrapdata.HookLook {
		// Between reading the members and asking one to leave, no other machine of the cluster may be asked.
		cluster := machine.Namespace + "/" + machine.Spec.ClusterName
		if !h.queries.begin(cluster) {
			h.Bootstraps.EnqueueAfter(bootstrap.Namespace, bootstrap.Name, busyRetry)
			return bootstrap, nil
		}
		defer h.queries.end(cluster)
		found, err := h.member(machine, removal.Elsewhere)
		if err != nil {
			return h.down(bootstrap, machine, err)
		}
		h.queries.answered(cluster)
		removal.NodeName, removal.Member, removal.OtherLeaving = cmp.Or(found.node, removal.NodeName), found.state,
			found.otherLeaving
		removal.Last = !slices.ContainsFunc(removal.Keepers, func(node string) bool {
			return slices.Contains(found.stay, node)
		})
		action, wait, after = bootstrapdata.DecideHook(removal)
	}
	if after > 0 {
		h.Bootstraps.EnqueueAfter(bootstrap.Namespace, bootstrap.Name, after)
	}
	return h.carryOut(bootstrap, machine, action, wait, removal.NodeName)
}

// carryOut carries out one action on the hook, and reports what it waits for.
func (h *handler) carryOut(bootstrap *rkev1.RKEBootstrap, machine *clusterv1.Machine, action bootstrapdata.HookAction,
	wait, node string) (*rkev1.RKEBootstrap, error) {
	if action == bootstrapdata.HookAsk {
		if err := h.askToLeave(machine, node); err != nil {
			return h.down(bootstrap, machine, err)
		}
	}
	bootstrap, err := h.reportWait(bootstrap, wait)
	if err != nil || action != bootstrapdata.HookEnsure && action != bootstrapdata.HookDrop {
		return bootstrap, err
	}
	present := action == bootstrapdata.HookEnsure
	if err := h.setHook(machine, present); err != nil {
		return bootstrap, err
	}
	return h.guard(bootstrap, present)
}

// down waits for a cluster that does not answer. It returns no error: the work queue's growing back-off would hold the
// machine long after the cluster answers again. The reported text is the same for every error.
func (h *handler) down(bootstrap *rkev1.RKEBootstrap, machine *clusterv1.Machine, err error) (*rkev1.RKEBootstrap,
	error) {
	h.Log.WithField("controller", hookHandler).WithField("namespace", machine.Namespace).WithField("machine",
		machine.Name).
		WithField("cluster", machine.Spec.ClusterName).WithError(err).Info(
		"The Machine waits for its etcd member, but the cluster does not answer")
	h.Bootstraps.EnqueueAfter(bootstrap.Namespace, bootstrap.Name, downAgain)
	if h.queries.failed(machine.Namespace+"/"+machine.Spec.ClusterName, h.Now()) < h.patience {
		return bootstrap, nil
	}
	return h.reportWait(bootstrap, bootstrapdata.WaitDown)
}

func isEtcd(labels map[string]string) bool {
	return labels[rkev1.EtcdRoleLabel] == rkev1.RoleLabelValue
}

func (h *handler) gatherRemoval(bootstrap *rkev1.RKEBootstrap, machine *clusterv1.Machine) (bootstrapdata.Removal,
	error) {
	r := bootstrapdata.Removal{
		Etcd:            isEtcd(bootstrap.Labels),
		Forced:          strings.EqualFold(bootstrap.Annotations[rkev1.ForceRemoveEtcdAnnotation], "true"),
		MachineDeleting: machine.DeletionTimestamp != nil, BootstrapDeleting: bootstrap.DeletionTimestamp != nil,
		NodeName: machine.Status.NodeRef.Name, Now: h.Now(),
	}
	if !r.Etcd || !r.MachineDeleting && !r.BootstrapDeleting {
		return r, nil
	}
	r.DeletedAt = deletedAt(machine.DeletionTimestamp, bootstrap.DeletionTimestamp)
	controlPlane, err := h.liveControlPlane(bootstrap)
	if err != nil || controlPlane == nil {
		r.ClusterGoing = err == nil
		return r, err
	}
	r.Began = r.NodeName != "" || began(controlPlane)
	if r.Planned, err = h.planned(bootstrap.Name, machine); err != nil {
		return r, err
	}
	if r.Elsewhere, err = h.keepsDataElsewhere(machine); err != nil {
		return r, err
	}
	return r, h.gatherPeers(&r, machine)
}

// liveControlPlane returns the machine's control plane. It returns nil if the whole cluster is being deleted or no
// longer exists.
func (h *handler) liveControlPlane(bootstrap *rkev1.RKEBootstrap) (*rkev1.RKEControlPlane, error) {
	cluster, err := clients.Optional(h.capiClusters.Get(bootstrap.Namespace, bootstrap.Spec.ClusterName))
	if err != nil || cluster == nil || cluster.DeletionTimestamp != nil {
		return nil, err
	}
	controlPlane, err := h.controlPlaneOf(cluster)
	if err != nil || controlPlane == nil || controlPlane.DeletionTimestamp != nil {
		return nil, err
	}
	return controlPlane, nil
}

// began reports whether the cluster has ever started. A restore resets the condition Bootstrapped, and counts as well.
func began(controlPlane *rkev1.RKEControlPlane) bool {
	status := &controlPlane.Status
	return conditions.IsTrue(status.Conditions, rkev1.ConditionBootstrapped) || status.ConfigGeneration > 0 ||
		ptr.Deref(status.Initialization.ControlPlaneInitialized, false)
}

func deletedAt(times ...*metav1.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if t != nil && (first.IsZero() || t.Before(&metav1.Time{Time: first})) {
			first = t.Time
		}
	}
	return first
}

// setHook adds or removes the annotation that Cluster API waits for. It does not add the annotation again before the
// caches show it, because others write to a new Machine all the time.
func (h *handler) setHook(machine *clusterv1.Machine, present bool) error {
	value, has := machine.Annotations[rkev1.PreTerminateAnnotation]
	done := "hook/" + string(machine.UID)
	if has == present && (!present || value == rkev1.PreTerminateAnnotationValue) {
		h.written.Shown(done)
		return nil
	}
	if left := h.written.Left(done, h.Now()); present && left > 0 {
		h.Bootstraps.EnqueueAfter(machine.Namespace, machine.Spec.Bootstrap.ConfigRef.Name, left)
		return nil
	}
	annotations := map[string]any{rkev1.PreTerminateAnnotation: nil}
	if present {
		annotations[rkev1.PreTerminateAnnotation] = rkev1.PreTerminateAnnotationValue
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = h.Machines.Patch(machine.Namespace, machine.Name, types.MergePatchType, patch)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the pre-terminate hook of Machine %s/%s: %w", machine.Namespace, machine.Name, err)
	}
	if present {
		h.written.Did(done, h.Now())
	}
	return nil
}

// guard adds or removes Drover's finalizer on the bootstrap object of an etcd machine.
func (h *handler) guard(bootstrap *rkev1.RKEBootstrap, present bool) (*rkev1.RKEBootstrap, error) {
	has := slices.Contains(bootstrap.Finalizers, rkev1.BootstrapEtcdRemovalFinalizer)
	if has == present || present && bootstrap.DeletionTimestamp != nil {
		return bootstrap, nil
	}
	next := bootstrap.DeepCopy()
	if present {
		next.Finalizers = append(next.Finalizers, rkev1.BootstrapEtcdRemovalFinalizer)
	} else {
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool {
			return f == rkev1.BootstrapEtcdRemovalFinalizer
		})
	}
	updated, err := h.Bootstraps.Update(next)
	if err != nil {
		return bootstrap, fmt.Errorf("write finalizer of RKEBootstrap %s/%s: %w", bootstrap.Namespace, bootstrap.Name,
			err)
	}
	h.written.Replaced(bootstrap.UID, bootstrap.ResourceVersion, h.Now())
	return updated, nil
}

// memberAnnotations returns the annotation that asks a distribution to remove a member, and its confirmation.
func memberAnnotations(kubernetesVersion string) (remove, removed string) {
	if distro.RuntimeOf(kubernetesVersion) == distro.K3s {
		return rkev1.RemoveK3sEtcdMemberAnnotation, rkev1.RemovedK3sEtcdMemberAnnotation
	}
	return rkev1.RemoveRKE2EtcdMemberAnnotation, rkev1.RemovedRKE2EtcdMemberAnnotation
}

func (h *handler) versionOf(machine *clusterv1.Machine) (string, error) {
	cluster, err := h.capiClusters.Get(machine.Namespace, machine.Spec.ClusterName)
	if err != nil {
		return "", fmt.Errorf("read the cluster: %w", err)
	}
	controlPlane, err := h.controlPlaneOf(cluster)
	if err != nil || controlPlane == nil {
		return "", err
	}
	return controlPlane.Spec.KubernetesVersion, nil
}

func (h *handler) askToLeave(machine *clusterv1.Machine, node string) error {
	version, err := h.versionOf(machine)
	if err != nil {
		return err
	}
	remove, _ := memberAnnotations(version)
	ctx, cancel := context.WithTimeout(h.ctx, downstreamTimeout)
	defer cancel()
	client, err := h.Downstream.Client(ctx, types.NamespacedName{Namespace: machine.Namespace,
		Name: machine.Spec.ClusterName})
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	patch, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"annotations": map[string]string{remove: "true"}}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ask node %s to leave etcd: %w", node, err)
	}
	return nil
}
