package bootstrap

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// restartTime is how long a member that is being restarted holds up others that leave. Etcd itself refuses what would break its quorum;
// this spares it the question, and covers the moments before it notices.
const restartTime = 10 * time.Minute

// comingTime is how long a member that leaves waits for machines that come: for one of them, which may take long to be made, and in all. Where each
// of them fails and is replaced there is always one that was just made.
const comingTime = 30 * time.Minute

// gatherPeers looks at the other machines of the cluster. Who joined whom is read off the Machines: plan secrets say it too, but
// a node that could write it there could hold or release another one.
//
// A member that does not work goes first and waits for nobody. It counts towards the quorum until it is gone: each machine that is
// joined to it would break that when it is restarted to join another one.
func (h *handler) gatherPeers(r *bootstrapdata.Removal, machine *clusterv1.Machine) error {
	machines, err := h.machines.GetByIndex(indexMachinesByCluster, machine.Namespace+"/"+machine.Spec.ClusterName)
	if err != nil {
		return fmt.Errorf("list machines of the cluster: %w", err)
	}
	staying, going := peersOf(machine, machines)
	members := slices.DeleteFunc(slices.Clone(staying), func(peer *clusterv1.Machine) bool { return !isEtcd(peer.Labels) })
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

// gatherGoing finds out whether other machines that are deleted go before this one, and which of them go after it and keep the data until then. Before, Keepers are those
// that stay.
func (h *handler) gatherGoing(r *bootstrapdata.Removal, machine *clusterv1.Machine, staying, going []*clusterv1.Machine) (leaver, error) {
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

// keepers are the nodes of those machines whose members work.
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

// works reports that the member of a machine is known to work, as the planner sees it too: there is a node, and its last report says so.
func (h *handler) works(machine *clusterv1.Machine) (bool, error) {
	if machine.Status.NodeRef.Name == "" {
		return false, nil
	}
	secret, err := h.planSecret(machine)
	return err == nil && planstore.EtcdServes(machine, secret), err
}

// coming reports that a machine was made a moment ago and is no node yet, and that nobody has said that it never will be.
func (h *handler) coming(machine *clusterv1.Machine) bool {
	return machine.Status.NodeRef.Name == "" && h.Now().Sub(machine.CreationTimestamp.Time) < comingTime && !hasFailed(machine)
}

// hasFailed reports that no host of a machine comes up before it is replaced, or a person has helped.
func hasFailed(machine *clusterv1.Machine) bool {
	for _, kind := range []string{clusterv1.MachineInfrastructureReadyCondition, clusterv1.MachineBootstrapConfigReadyCondition} {
		c := conditions.GetMeta(machine.Status.Conditions, kind)
		if c != nil && c.Status == metav1.ConditionFalse && slices.Contains(failures, c.Reason) {
			return true
		}
	}
	return false
}

// failures are the reasons with which the two halves of a machine say so.
var failures = []string{rkev1.ReasonCreateError, rkev1.ReasonError, bootstrapdata.ReasonBadInput}

// joinedBy reports that one of the machines is joined to a server.
func joinedBy(machines []*clusterv1.Machine, server *clusterv1.Machine) bool {
	joinURL := planstore.ReadMarks(server).JoinURL
	return joinURL != "" && slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool { return planstore.ReadMarks(m).JoinedTo == joinURL })
}

// peersOf are the other machines that stay, and those with etcd that go and are held for that.
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

// leaver is a machine that is deleted, with what decides when its member leaves. All of it is the same whoever of them looks.
type leaver struct {
	machine *clusterv1.Machine
	// broken: it does not work, and waits for nobody. works: it is known to work. A node that was just made is neither, and one that refuses its plan both.
	broken, works bool
	// joined: others that stay are joined to it. waits: they can be moved to a member that works and stays, and it waits for that.
	joined, waits bool
}

// leaverOf finds out about a machine that is deleted. kept says that a member stays and works.
func (h *handler) leaverOf(machine *clusterv1.Machine, staying []*clusterv1.Machine, kept bool) (leaver, error) {
	broken, err := h.broken(machine)
	if err != nil {
		return leaver{}, err
	}
	works, err := h.works(machine)
	return newLeaver(machine, broken, works, joinedBy(staying, machine), kept), err
}

// newLeaver is a leaver that waits for those that are joined to it only when they can be moved to a member that stays, or it would wait for ever.
func newLeaver(machine *clusterv1.Machine, broken, works, joined, kept bool) leaver {
	return leaver{machine: machine, broken: broken, works: works, joined: joined, waits: joined && !broken && kept}
}

// before is the order in which members leave, so that of two never each counts on the other, and somebody can go as long as there is somebody to keep the data.
// What does not work goes first. One that waits until others are moved away goes last: they are moved when nobody is leaving. What is not known
// to work keeps nothing, so who works stays longer; and one that others are joined to, if it can.
func (l leaver) before(other leaver) bool {
	mine, others := l.lateness(), other.lateness()
	for i := range mine {
		if mine[i] != others[i] {
			return others[i]
		}
	}
	return goesBefore(l.machine, other.machine)
}

// lateness are the reasons to go later than others, the strongest first.
func (l leaver) lateness() [5]bool {
	return [5]bool{
		l.works || !l.broken,
		l.works && l.machine.DeletionTimestamp == nil, // only its bootstrap object is deleted: all others see it as one that stays
		l.waits,
		l.works,
		l.joined,
	}
}

// behindRestart reports that a member which works waits for one that was just given a plan: its restart and the removal together would
// take two members away.
func (h *handler) behindRestart(already, broken bool, peer *clusterv1.Machine) (bool, error) {
	if already || broken {
		return already, nil
	}
	secret, err := h.planSecret(peer)
	return err == nil && secret != nil && planstore.Restarting(secret, h.Now(), restartTime), err
}

// broken reports that the member of a machine does not work.
func (h *handler) broken(machine *clusterv1.Machine) (bool, error) {
	secret, err := h.planSecret(machine)
	return err == nil && planstore.Broken(machine, secret, h.Now(), restartTime), err
}

func (h *handler) planSecret(machine *clusterv1.Machine) (*corev1.Secret, error) {
	return orNil(h.secrets.Get(machine.Namespace, naming.PlanSecret(machine.Spec.Bootstrap.ConfigRef.Name)))
}

// goesBefore orders machines that are deleted: the one that was deleted first goes first, and last one of which only the bootstrap object was.
func goesBefore(a, b *clusterv1.Machine) bool {
	switch goingA, goingB := a.DeletionTimestamp != nil, b.DeletionTimestamp != nil; {
	case goingA != goingB:
		return goingA
	case goingA && !a.DeletionTimestamp.Equal(b.DeletionTimestamp):
		return a.DeletionTimestamp.Before(b.DeletionTimestamp)
	}
	return a.Name < b.Name
}
