package unmanaged

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/hostremoval"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

const (
	// downstreamTimeout limits requests to a cluster, because a worker that all clusters share waits for them.
	downstreamTimeout = 3 * time.Second
	// askAgain is the delay after a cluster did not confirm that a node is away.
	askAgain = time.Minute
)

// removeIfMissing deletes the Machine of a host that was away for longer than its cluster allows. Cluster API and the
// other controllers then remove it like any other.
func (h *handler) removeIfMissing(custom *rkev1.CustomMachine, s surroundings) error {
	if s.machine == nil || s.capi == nil || s.provisioning == nil || h.Downstream == nil || !isCustom(s.machine) {
		return nil
	}
	facts, err := h.gatherMissing(s)
	if err != nil {
		return err
	}
	isMissing, again := facts.Decide()
	if isMissing {
		again, err = h.confirmAndRemove(s.machine, facts)
	}
	if again > 0 {
		h.CustomMachines.EnqueueAfter(custom.Namespace, custom.Name, again)
	}
	return err
}

// confirmAndRemove asks the cluster for the node, and deletes the Machine if the node is away. It returns the delay
// until the next look.
func (h *handler) confirmAndRemove(machine *clusterv1.Machine, facts *hostremoval.Missing) (time.Duration, error) {
	removal := "missing/" + string(machine.UID)
	if left := h.written.Left(removal, h.Now()); left > 0 {
		return left, nil
	}
	log := h.Log.WithField("namespace", machine.Namespace).WithField("machine", machine.Name).
		WithField("node", machine.Status.NodeRef.Name)
	away, err := h.isNodeAway(machine)
	if err != nil || !away {
		log.WithError(err).Info("A host seems to be missing, but its cluster does not confirm that")
		return askAgain, nil
	}
	err = h.Machines.Delete(machine.Namespace, machine.Name,
		&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(machine.UID))})
	if isStale(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("delete Machine %s/%s, whose host is missing: %w", machine.Namespace, machine.Name, err)
	}
	h.written.Did(removal, h.Now())
	log.Infof("Deleted the Machine of a host that was away since %s, longer than annotation %s allows (%s)",
		facts.AwaySince.UTC().Format(time.RFC3339), rkev1.DeleteMissingCustomMachinesAfterAnnotation, facts.After)
	if h.Disruptions != nil {
		h.Disruptions.Count(disruption.HealthHostMissing, 1)
	}
	return 0, nil
}

// gatherMissing reads caches only.
func (h *handler) gatherMissing(s surroundings) (*hostremoval.Missing, error) {
	roles := topology.RolesOf(s.machine.Labels)
	facts := &hostremoval.Missing{
		Etcd:         roles.Etcd,
		ControlPlane: roles.ControlPlane,
		Deleting: s.machine.DeletionTimestamp != nil || s.provisioning.DeletionTimestamp != nil ||
			s.capi.DeletionTimestamp != nil || s.machine.Annotations[rkev1.ProtectAnnotation] == "true",
		Now: h.Now(),
	}
	var err error
	if facts.After, err = h.missingAfter(s.capi); err != nil || facts.After == 0 {
		return facts, err
	}
	_, facts.Reachable = planstore.SeenSince(s.capi)
	if s.machine.Status.NodeRef.IsDefined() {
		facts.AwaySince = planstore.NodeMissedSince(s.machine, s.capi)
	}
	if facts.AwaySince.IsZero() {
		return facts, nil
	}
	facts.Others, err = h.membersExcept(s)
	return facts, err
}

// missingAfter returns how long a host of a cluster may be away, zero for ever. The cluster's condition reports an
// invalid value.
func (h *handler) missingAfter(cluster *clusterv1.Cluster) (time.Duration, error) {
	ref := cluster.Spec.InfrastructureRef
	if ref.Kind != "RKECluster" {
		return 0, nil
	}
	infra, err := clients.Optional(h.rkeClusters.Get(cluster.Namespace, ref.Name))
	if err != nil {
		return 0, fmt.Errorf("read RKECluster %s/%s: %w", cluster.Namespace, ref.Name, err)
	}
	if infra == nil {
		return 0, nil
	}
	after, err := hostremoval.ParseAfter(infra.Annotations[rkev1.DeleteMissingCustomMachinesAfterAnnotation])
	if err != nil {
		return 0, nil //nolint:nilerr // topology.WithoutEffect shows it
	}
	return after, nil
}

func (h *handler) membersExcept(s surroundings) ([]hostremoval.Member, error) {
	machines, err := planstore.MachinesOf(h.machines, s.machine.Namespace, s.machine.Spec.ClusterName)
	if err != nil {
		return nil, err
	}
	var members []hostremoval.Member
	for _, machine := range machines {
		if machine.UID == s.machine.UID {
			continue
		}
		secret, err := h.planSecret(machine)
		if err != nil {
			return nil, err
		}
		member, err := planstore.MemberOf(machine, secret, func() (bool, error) {
			return planstore.APIServerAnswers(s.capi, machines, h.planSecret)
		})
		if err != nil {
			return nil, err
		}
		roles := topology.RolesOf(machine.Labels)
		members = append(members, hostremoval.Member{
			Etcd:         roles.Etcd,
			ControlPlane: roles.ControlPlane,
			Deleting:     machine.DeletionTimestamp != nil,
			EtcdServes:   member.EtcdServes(),
			NodeSeen: machine.Status.NodeRef.IsDefined() && planstore.NodeLostSince(machine).IsZero() &&
				!planstore.NodeUnknown(machine, s.capi),
		})
	}
	return members, nil
}

func (h *handler) planSecret(machine *clusterv1.Machine) (*corev1.Secret, error) {
	secret, err := clients.Optional(h.secrets.Get(machine.Namespace,
		naming.PlanSecret(machine.Spec.Bootstrap.ConfigRef.Name)))
	if err != nil {
		return nil, fmt.Errorf("read the plan Secret of machine %s: %w", machine.Name, err)
	}
	return secret, nil
}

// isNodeAway asks the cluster. A node is away when it is gone, is that of another machine, or does not report. Facts
// from caches are not enough: the manager may have been down while the host came back.
func (h *handler) isNodeAway(machine *clusterv1.Machine) (bool, error) {
	ctx, cancel := context.WithTimeout(h.ctx, downstreamTimeout)
	defer cancel()
	cluster := types.NamespacedName{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}
	_, node, err := h.readNode(ctx, cluster, machine.Status.NodeRef.Name)
	if err != nil || node == nil {
		return err == nil, err
	}
	if owner := node.Labels[rkev1.MachineUIDLabel]; owner != "" && owner != string(planstore.UID(machine)) {
		return true, nil
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionUnknown, nil
		}
	}
	return false, nil // it has never reported
}
