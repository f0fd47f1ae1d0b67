package bootstrap

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/bootstrapdata"
	"github.com/drover-io/drover/pkg/naming"
	"github.com/drover-io/drover/pkg/planstore"
)

// restartTime is how long a member that is being restarted holds up others that leave. Etcd itself refuses what would break its quorum;
// this spares it the question, and covers the moments before it notices.
const restartTime = 10 * time.Minute

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
	r.Dependents = r.Dependents || !broken && joinedBy(staying, machine)
	if err := h.gatherGoing(r, machine, broken, staying, going); err != nil {
		return err
	}
	staying = slices.DeleteFunc(staying, func(peer *clusterv1.Machine) bool { return !isEtcd(peer.Labels) })
	r.OnlyTwo = len(staying) == 1 && len(going) == 0
	r.Coming = !broken && slices.ContainsFunc(staying, h.coming)
	if r.Last, err = h.last(broken, staying, going); err != nil {
		return err
	}
	for _, peer := range staying {
		if r.Behind, err = h.behindRestart(r.Behind, broken, peer); err != nil {
			return err
		}
	}
	return nil
}

// last reports that the data would go with a member: no other one works that stays, and this one is among those that work, or the only one that may.
func (h *handler) last(broken bool, staying, going []*clusterv1.Machine) (bool, error) {
	others := staying
	if broken {
		others = slices.Concat(staying, going)
	}
	for _, peer := range others {
		if works, err := h.works(peer); works || err != nil {
			return false, err
		}
	}
	return true, nil
}

// works reports that the member of a machine is known to work: there is a node, and the plan it has works with all its probes.
func (h *handler) works(machine *clusterv1.Machine) (bool, error) {
	if broken, err := h.broken(machine); broken || err != nil || machine.Status.NodeRef.Name == "" {
		return false, err
	}
	secret, err := h.planSecret(machine)
	return err == nil && secret != nil && planstore.Works(secret), err
}

// coming reports that a machine was made a moment ago and is no node yet.
func (h *handler) coming(machine *clusterv1.Machine) bool {
	return machine.Status.NodeRef.Name == "" && h.Now().Sub(machine.CreationTimestamp.Time) < restartTime
}

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

// gatherGoing finds out whether another machine that is deleted goes before. One that others are joined to does not: they are moved to
// another server when nobody is leaving, and so this one has to be gone first.
func (h *handler) gatherGoing(r *bootstrapdata.Removal, machine *clusterv1.Machine, broken bool, staying, going []*clusterv1.Machine) error {
	for _, peer := range going {
		other, err := h.broken(peer)
		if err != nil {
			return err
		}
		waits := !other && joinedBy(staying, peer)
		r.Behind = r.Behind || other && !broken || other == broken && !waits && goesBefore(peer, machine)
	}
	return nil
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

// goesBefore orders machines that are deleted: the one that was deleted first goes first.
func goesBefore(a, b *clusterv1.Machine) bool {
	if b.DeletionTimestamp == nil {
		return true
	}
	return cmp.Or(a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}
