package unmanaged

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/hostremoval"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// leave cleans the host of a CustomMachine that is being deleted, and then removes the finalizer. Cluster API deletes
// the CustomMachine after the node is drained and the etcd member has left, and the host's credential only after it.
func (h *handler) leave(custom *rkev1.CustomMachine, s surroundings) (*rkev1.CustomMachine, error) {
	finalizers := topology.FormerFinalizers(customMachine, custom)
	if len(finalizers) == 0 {
		return custom, nil
	}
	facts, secret, err := h.gatherCleaning(custom, s)
	if err != nil {
		return custom, err
	}
	next := facts.Decide()
	if next.After > 0 {
		h.CustomMachines.EnqueueAfter(custom.Namespace, custom.Name, next.After)
	}
	switch next.Step {
	case hostremoval.StepRelease:
		return h.release(custom, finalizers)
	case hostremoval.StepDeliver:
		if err := h.deliverLast(s.machine, secret, facts.Home); err != nil {
			return custom, err
		}
	case hostremoval.StepWait, hostremoval.StepConclude:
	}
	return h.reportCleaning(custom, next.Condition)
}

// gatherCleaning reads caches only. The Secret is nil if no plan reaches the host.
func (h *handler) gatherCleaning(custom *rkev1.CustomMachine, s surroundings) (*hostremoval.Cleaning, *corev1.Secret,
	error) {
	c := &hostremoval.Cleaning{
		Concluded: hostremoval.IsConcluded(custom.Status.Conditions), Now: h.Now(),
		Alone: s.machine == nil || s.provisioning == nil || s.capi == nil,
	}
	if c.Alone {
		return c, nil, nil
	}
	c.Machine = s.machine.Annotations[rkev1.CleanHostAnnotation]
	c.Cluster = s.provisioning.Annotations[rkev1.CleanHostAnnotation]
	c.ClusterGoing = s.provisioning.DeletionTimestamp != nil || s.capi.DeletionTimestamp != nil
	c.Held = isHeld(s.machine)
	c.Windows = s.machine.Labels[rkev1.CattleOSLabel] == rkev1.OSWindows
	c.LostSince = planstore.NodeMissedSince(s.machine, s.capi)
	secret, found, err := h.plans.Find(s.machine.Namespace, s.machine.Spec.Bootstrap.ConfigRef.Name)
	if err != nil {
		return c, nil, err
	}
	if secret == nil || secret.DeletionTimestamp != nil {
		c.Alone = true
		return c, nil, nil
	}
	c.Delivered, c.DeliveredAt = hostremoval.IsLast(found.State.Plan), found.DeliveredAt
	c.Applied, c.Failed = found.State.InSync, found.State.Failed
	c.Home, err = h.homeOf(s.capi, found.State)
	return c, secret, err
}

// isHeld reports that Cluster API may not delete the host of a Machine yet. Until then the host is a part of its
// cluster: the last plan would end a member of etcd that the others still count.
func isHeld(machine *clusterv1.Machine) bool {
	if machine.DeletionTimestamp == nil {
		return true
	}
	for name := range machine.Annotations {
		if strings.HasPrefix(name, clusterv1.PreDrainDeleteHookAnnotationPrefix) ||
			strings.HasPrefix(name, clusterv1.PreTerminateDeleteHookAnnotationPrefix) {
			return true
		}
	}
	return false
}

// homeOf returns where a host has its programs: what its plan installed, else what its cluster would install.
func (h *handler) homeOf(cluster *clusterv1.Cluster, state nodeplan.State) (hostremoval.Home, error) {
	if home, known := hostremoval.HomeOf(state.Plan); known {
		return home, nil
	}
	spec := rkev1.RKEControlPlaneSpec{}
	if ref := cluster.Spec.ControlPlaneRef; ref.Kind == "RKEControlPlane" {
		controlPlane, err := clients.Optional(h.controlPlanes.Get(cluster.Namespace, ref.Name))
		if err != nil {
			return hostremoval.Home{}, fmt.Errorf("read RKEControlPlane %s/%s: %w", cluster.Namespace, ref.Name, err)
		}
		if controlPlane != nil {
			spec = controlPlane.Spec
		}
	}
	runtime := distro.RuntimeOf(spec.KubernetesVersion)
	home := hostremoval.Home{Runtime: runtime, Dirs: distro.DirsFor(runtime, spec.DataDirectories)}
	if installed, known := render.HomeOf(state.Plan); known {
		home.Runtime, home.Dirs.Data = installed.Runtime, installed.Dir
	}
	return home, nil
}

// deliverLast replaces the plan of a host by its last one. A conflict means that the cached Secret is old, and its
// event follows.
func (h *handler) deliverLast(machine *clusterv1.Machine, secret *corev1.Secret, home hostremoval.Home) error {
	last, err := nodeplan.Encode(hostremoval.Plan(home))
	if err != nil {
		return fmt.Errorf("encode the last plan of machine %s: %w", machine.Name, err)
	}
	_, err = h.plans.Deliver(secret, planner.DeliverPlan{
		Machine: machine.Name, Secret: secret.Name, Marks: planstore.ReadMarks(machine),
		Delivery: planner.Delivery{Plan: last, Checksum: nodeplan.Checksum(last), MaxFailures: hostremoval.Attempts,
			FailureThreshold: hostremoval.Attempts},
	}, h.Now())
	if isStale(err) {
		return nil
	}
	if err == nil {
		h.Log.WithField("namespace", machine.Namespace).WithField("machine", machine.Name).
			Info("Delivered the last plan of a host: it removes the distribution and the agent")
	}
	return err
}

// reportCleaning writes the condition HostCleaned if it differs. The event of that write requeues the CustomMachine.
func (h *handler) reportCleaning(custom *rkev1.CustomMachine, c conditions.Condition) (*rkev1.CustomMachine, error) {
	changed := custom.DeepCopy()
	if !conditions.Set(&changed.Status.Conditions, c, h.Now()) {
		return custom, nil
	}
	return h.writeStatus(custom, changed)
}

// release removes Drover's finalizer, and those of a former manager, from a CustomMachine that is being deleted.
func (h *handler) release(machine *rkev1.CustomMachine, finalizers []string) (*rkev1.CustomMachine, error) {
	patch, err := topology.ReleasePatch(machine, finalizers...)
	if err != nil {
		return machine, err
	}
	updated, err := h.CustomMachines.Patch(machine.Namespace, machine.Name, types.MergePatchType, patch)
	if isStale(err) {
		return machine, nil // an event follows
	}
	if err != nil {
		return machine, fmt.Errorf("release CustomMachine %s/%s: %w", machine.Namespace, machine.Name, err)
	}
	h.written.Replaced(machine.UID, machine.ResourceVersion, h.Now())
	return updated, nil
}
