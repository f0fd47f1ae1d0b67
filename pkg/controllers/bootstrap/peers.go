package bootstrap

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// restartTime is how long a restarting member delays others that leave. Etcd itself refuses to break its quorum. The
// delay avoids that refusal, and covers the moments before etcd notices the restart.
const restartTime = 10 * time.Minute

// comingTime limits how long a leaving member waits for new machines: for each of them and in total. Without a total, a
// series of failing and replaced machines would never end.
const comingTime = 30 * time.Minute

// gatherPeers reads the other machines of the cluster. It takes the joins from the Machines. Plan Secrets also have
// them, but a node that can write there could hold or release another node.
//
// A broken member leaves first and does not wait. It counts towards the quorum until it is removed. Restarting a
// machine that is joined to it, to join it to another, would break that quorum.
func (h *handler) gatherPeers(r *bootstrapdata.Removal, machine *clusterv1.Machine) error {
	machines, err := planstore.MachinesOf(h.machines, machine.Namespace, machine.Spec.ClusterName)
	if err != nil {
		return err
	}
	staying, going := peersOf(machine, machines)
	members := slices.DeleteFunc(slices.Clone(staying), func(peer *clusterv1.Machine) bool {
		return !isEtcd(peer.Labels)
	})
	if r.Keepers, err = h.keepers(members); err != nil {
		return err
	}
	self, err := h.gatherGoing(r, machine, staying, going)
	if err != nil {
		return err
	}
	r.OnlyTwo = len(members) == 1 && len(going) == 0
	r.Coming = !self.broken && h.Now().Sub(r.DeletedAt) < comingTime && slices.ContainsFunc(members, h.coming)
	for _, peer := range members {
		if r.Behind, err = h.behindRestart(r.Behind, self.broken, peer); err != nil {
			return err
		}
	}
	return nil
}

// gatherGoing finds out whether other deleted machines leave before this one. It adds those that leave later to
// Keepers, because they keep the data until then. On entry, Keepers holds those that stay.
func (h *handler) gatherGoing(r *bootstrapdata.Removal, machine *clusterv1.Machine, staying,
	going []*clusterv1.Machine) (leaver, error) {
	kept := len(r.Keepers) > 0
	self, err := h.leaverOf(machine, staying, kept)
	if err != nil {
		return self, err
	}
	r.Dependents = self.waits
	for _, peer := range going {
		other, err := h.leaverOf(peer, staying, kept)
		switch {
		case err != nil:
			return self, err
		case other.before(self):
			r.Behind = true
		case other.works:
			r.Keepers = append(r.Keepers, peer.Status.NodeRef.Name)
		}
	}
	return self, nil
}

// keepers returns the nodes of the machines whose members work.
func (h *handler) keepers(machines []*clusterv1.Machine) ([]string, error) {
	var nodes []string
	for _, peer := range machines {
		works, err := h.works(peer)
		if err != nil {
			return nil, err
		}
		if works {
			nodes = append(nodes, peer.Status.NodeRef.Name)
		}
	}
	return nodes, nil
}

// works reports that a machine's member is known to work, by the planner's rule: it has a node, and the last report
// says so.
func (h *handler) works(machine *clusterv1.Machine) (bool, error) {
	if machine.Status.NodeRef.Name == "" {
		return false, nil
	}
	member, err := h.memberOf(machine)
	return err == nil && member.EtcdServes(), err
}

// coming reports that a machine is new, has no node yet, and is not known to have failed.
func (h *handler) coming(machine *clusterv1.Machine) bool {
	return machine.Status.NodeRef.Name == "" && h.Now().Sub(machine.CreationTimestamp.Time) < comingTime &&
		!hasFailed(machine)
}

// hasFailed reports that the machine gets no host until it is replaced or a person fixes it.
func hasFailed(machine *clusterv1.Machine) bool {
	for _, kind := range []string{clusterv1.MachineInfrastructureReadyCondition,
		clusterv1.MachineBootstrapConfigReadyCondition} {
		c := conditions.GetMeta(machine.Status.Conditions, kind)
		if c != nil && c.Status == metav1.ConditionFalse && slices.Contains(failures, c.Reason) {
			return true
		}
	}
	return false
}

// failures are the reasons with which a machine's infrastructure or bootstrap reports such a failure.
var failures = []string{rkev1.ReasonCreateError, rkev1.ReasonError, bootstrapdata.ReasonBadInput}

// joinedBy reports that one of the machines is joined to a server.
func joinedBy(machines []*clusterv1.Machine, server *clusterv1.Machine) bool {
	joinURL := planstore.ReadMarks(server).JoinURL
	return joinURL != "" && slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool {
		return planstore.ReadMarks(m).JoinedTo == joinURL
	})
}

// peersOf returns the other machines that stay, and the deleted etcd machines that are held.
func peersOf(machine *clusterv1.Machine, machines []*clusterv1.Machine) (staying, going []*clusterv1.Machine) {
	for _, peer := range machines {
		switch {
		case peer.Name == machine.Name, peer.Spec.Bootstrap.ConfigRef.Name == "":
		case peer.DeletionTimestamp == nil:
			staying = append(staying, peer)
		case isEtcd(peer.Labels) && peer.Annotations[rkev1.PreTerminateAnnotation] != "":
			going = append(going, peer)
		}
	}
	return staying, going
}

// leaver is a deleted machine, with the facts that decide when its member leaves. All machines compute the same values
// for it.
type leaver struct {
	machine *clusterv1.Machine
	// broken means that it does not work, and waits for no other. works means that it is known to work. A new node is
	// neither, and one that refuses its plan is both.
	broken, works bool
	// joined means that machines that stay are joined to it. waits means that they can move to a working member that
	// stays, and it waits for that.
	joined, waits bool
}

// leaverOf gathers the facts about a deleted machine. kept means that a working member stays.
func (h *handler) leaverOf(machine *clusterv1.Machine, staying []*clusterv1.Machine, kept bool) (leaver, error) {
	broken, err := h.broken(machine)
	if err != nil {
		return leaver{}, err
	}
	works, err := h.works(machine)
	return newLeaver(machine, broken, works, joinedBy(staying, machine), kept), err
}

// newLeaver returns a leaver. It waits for the machines joined to it only if they can move to a member that stays.
// Otherwise it would wait forever.
func newLeaver(machine *clusterv1.Machine, broken, works, joined, kept bool) leaver {
	return leaver{machine: machine, broken: broken, works: works, joined: joined, waits: joined && !broken && kept}
}

// before is the order in which members leave. It is strict, so that two never rely on each other, and one can leave
// while another keeps the data. Broken members leave first. One that waits for others to move leaves last, because they
// move only while no member is leaving. A working member stays longer, because one that is not known to work keeps no
// data. So does one that others are joined to, if possible.
func (l leaver) before(other leaver) bool {
	mine, others := l.leaveOrder(), other.leaveOrder()
	for i := range mine {
		if mine[i] != others[i] {
			return others[i]
		}
	}
	return leavesBefore(l.machine, other.machine)
}

// leaveOrder returns the reasons to leave later, the strongest first.
func (l leaver) leaveOrder() [5]bool {
	return [5]bool{
		l.works || !l.broken,
		// Only its bootstrap object is deleted, so the others see it as a member that stays.
		l.works && l.machine.DeletionTimestamp == nil,
		l.waits,
		l.works,
		l.joined,
	}
}

// behindRestart reports that a working member waits for one that just got a plan. A restart and a removal at the same
// time would remove two members.
func (h *handler) behindRestart(already, broken bool, peer *clusterv1.Machine) (bool, error) {
	if already || broken {
		return already, nil
	}
	member, err := h.memberOf(peer)
	return err == nil && member.Restarting(h.Now(), restartTime), err
}

// broken reports that a machine's member does not work.
func (h *handler) broken(machine *clusterv1.Machine) (bool, error) {
	member, err := h.memberOf(machine)
	return err == nil && member.Broken(h.Now(), restartTime), err
}

func (h *handler) memberOf(machine *clusterv1.Machine) (planstore.Member, error) {
	secret, err := h.planSecret(machine)
	if err != nil {
		return planstore.Member{}, err
	}
	return planstore.MemberOf(machine, secret, func() (bool, error) { return h.apiServerAnswers(machine) })
}

// apiServerAnswers reports that an API server of the machine's cluster answers.
func (h *handler) apiServerAnswers(machine *clusterv1.Machine) (bool, error) {
	cluster, err := clients.Optional(h.capiClusters.Get(machine.Namespace, machine.Spec.ClusterName))
	if err != nil || cluster == nil {
		return false, err
	}
	machines, err := planstore.MachinesOf(h.machines, machine.Namespace, machine.Spec.ClusterName)
	if err != nil {
		return false, err
	}
	return planstore.APIServerAnswers(cluster, machines, h.planSecret)
}

func (h *handler) planSecret(machine *clusterv1.Machine) (*corev1.Secret, error) {
	return clients.Optional(h.secrets.Get(machine.Namespace, naming.PlanSecret(machine.Spec.Bootstrap.ConfigRef.Name)))
}

// leavesBefore orders deleted machines by the time of deletion, then by name. Those with only a deleted bootstrap
// object come last.
func leavesBefore(a, b *clusterv1.Machine) bool {
	switch goingA, goingB := a.DeletionTimestamp != nil, b.DeletionTimestamp != nil; {
	case goingA != goingB:
		return goingA
	case goingA && !a.DeletionTimestamp.Equal(b.DeletionTimestamp):
		return a.DeletionTimestamp.Before(b.DeletionTimestamp)
	}
	return a.Name < b.Name
}
