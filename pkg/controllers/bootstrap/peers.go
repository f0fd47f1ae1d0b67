package bootstrap

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/bootstrapdata"
	"github.com/drover-io/drover/pkg/conditions"
	"github.com/drover-io/drover/pkg/naming"
	"github.com/drover-io/drover/pkg/planstore"
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
	broken, err := h.broken(machine)
	if err != nil {
		return err
	}
	staying, going := peersOf(machine, machines)
	self := leaver{machine: machine, broken: broken, waits: !broken && joinedBy(staying, machine)}
	r.Dependents = r.Dependents || self.waits
	after, err := h.gatherGoing(r, self, staying, going)
	if err != nil {
		return err
	}
	staying = slices.DeleteFunc(staying, func(peer *clusterv1.Machine) bool { return !isEtcd(peer.Labels) })
	r.OnlyTwo = len(staying) == 1 && len(going) == 0
	r.Coming = !broken && h.Now().Sub(r.DeletedAt) < comingTime && slices.ContainsFunc(staying, h.coming)
	if r.Keepers, err = h.keepers(slices.Concat(staying, after)); err != nil {
		return err
	}
	for _, peer := range staying {
		if r.Behind, err = h.behindRestart(r.Behind, broken, peer); err != nil {
			return err
		}
	}
	return nil
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

// leaver is a machine that is deleted, with what decides when its member leaves.
type leaver struct {
	machine *clusterv1.Machine
	// broken: it does not work. waits: others are joined to it.
	broken, waits bool
}

// before is the order in which members leave. What does not work goes first. One that others are joined to goes last: they are moved to
// another server when nobody is leaving, and so all others have to be gone.
func (l leaver) before(other leaver) bool {
	switch {
	case l.broken != other.broken:
		return l.broken
	case l.waits != other.waits:
		return other.waits
	}
	return goesBefore(l.machine, other.machine)
}

// gatherGoing finds out whether another machine that is deleted goes before, and returns those that go after: they keep the data until their turn comes.
// Both are told by the same order, so that of two never each counts on the other.
func (h *handler) gatherGoing(r *bootstrapdata.Removal, self leaver, staying, going []*clusterv1.Machine) (after []*clusterv1.Machine, err error) {
	for _, peer := range going {
		broken, err := h.broken(peer)
		if err != nil {
			return nil, err
		}
		other := leaver{machine: peer, broken: broken, waits: !broken && joinedBy(staying, peer)}
		if !other.before(self) {
			after = append(after, peer)
			continue
		}
		r.Behind = true
	}
	return after, nil
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
	if a.DeletionTimestamp == nil || b.DeletionTimestamp == nil {
		return b.DeletionTimestamp == nil
	}
	return cmp.Or(a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}
