package unmanaged

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// keptFor is how long a request is kept after this process has first seen it. That is long enough for every possible
// answer. A host waits less than twice that time, and asks again.
const keptFor = time.Minute

// tooMany is the message to the administrator of a host beyond the limit.
func tooMany(limit int) string {
	return fmt.Sprintf("%d hosts like this one have registered with this cluster and have no node yet; delete the "+
		"Machines of hosts that will not become nodes, or wait", limit)
}

// facts holds the facts about one request.
type facts struct {
	request *corev1.Secret
	// host is the decoded request; wrong says why it cannot become a machine, nil if it can.
	host  registration.Host
	wrong error
	// clusters holds the Clusters that name the request's namespace as their management cluster.
	clusters   []*provv1.Cluster
	instanceID string
	// capi is the CAPI Cluster, nil if it does not exist yet.
	capi *clusterv1.Cluster
	// machines holds all Machines with the host's identity, in any cluster.
	machines []*clusterv1.Machine
	// named holds the objects in the cluster's namespace with the names of the host's objects, nil for absent ones.
	named objects
	// made means that this process has just created the Machine, and the cache does not show it yet.
	made bool
	// leaver means that another Machine, whose node has the name of the host's node, is being deleted.
	leaver bool
	// claimed means that a machine with that identity is being created for another cluster.
	claimed bool
	// waiting counts the cluster's registered hosts without a node: servers if the host is to be one, otherwise the
	// others. There may be maxWaiting.
	waiting, maxWaiting int
	// tokenName is the name of the ClusterRegistrationToken with which the host registers; empty for a request of an
	// earlier release. token is that object, nil if it does not exist yet.
	tokenName string
	token     *mgmtv3.ClusterRegistrationToken
	// since is when this process has first seen the request.
	since, now time.Time
}

// objects are the objects of a host.
type objects struct {
	bootstrap *rkev1.RKEBootstrap
	custom    *rkev1.CustomMachine
	machine   *clusterv1.Machine
}

// action is what to do with a request.
type action string

const (
	// leave ignores the request and does not requeue it.
	leave action = "leave"
	// keep does nothing until the request's deletion is due.
	keep action = "keep"
	// remove deletes the request.
	remove action = "remove"
	// wait removes an answer to earlier content.
	wait action = "wait"
	// answer answers the request.
	answer action = "answer"
	// register creates the missing objects of the machine, and then answers.
	register action = "register"
)

// decision is the result of decide.
type decision struct {
	do     action
	answer registration.Answer
	// record means that the token's status must have the host before anything else happens.
	record bool
	// again is when to reconsider the request at the latest; zero means never.
	again time.Duration
}

// Messages to the administrator of a host.
const (
	noCluster = "the cluster of this token no longer exists: copy the command of the cluster that the host " +
		"should join"
	manyClusters = "more than one Cluster claims this token: ask the administrator of Drover to compare " +
		"status.clusterName of the Clusters"
	goingCluster = "the cluster is being deleted"
	importedOne  = "the cluster was imported, so Drover creates no machines for it: join the host with the tools " +
		"that created the cluster"
	wrongName = "the name of the request does not match the identity of the host"
	elsewhere = "a machine of another cluster has the identity of this host: this host is registered there, or " +
		"its disk is a copy of that machine's disk. " + newIdentity
	twoMachines = "several Machines of the cluster have the identity of this host: delete those of other hosts, " +
		"and run the command again"
	pooled = "a machine of a pool has the identity of this host: its disk is a copy of that machine's disk. " +
		newIdentity
	leaving     = "the Machine of this host is being deleted; run the command again after the deletion"
	takenName   = "another object has the name of this host's Machine. " + newIdentity
	newIdentity = "To give the host its own identity, run the uninstall script, delete " +
		"/etc/rancher/agent/cattle-id, and run the command again"
	machineSetKind = "MachineSet"
)

// decide returns the action on a request.
func decide(f facts) decision {
	if f.ofOthers() {
		return decision{do: leave}
	}
	left := f.since.Add(keptFor).Sub(f.now)
	if left <= 0 {
		return decision{do: remove}
	}
	d := f.decide()
	if d.again == 0 || left < d.again {
		d.again = left
	}
	return d
}

// ofOthers reports that another manager answers the request. A request without a Cluster and with another form of name
// is for clusters that are managed without a Cluster.
func (f *facts) ofOthers() bool {
	if len(f.clusters) == 0 {
		return !isName(f.request.Name)
	}
	return slices.ContainsFunc(f.clusters, func(c *provv1.Cluster) bool { return !topology.IsOurs(c, f.instanceID) })
}

// decide handles a request of this instance that is not too old.
func (f *facts) decide() decision {
	if given := registration.ReadAnswer(f.request); given != nil && given.Refusal == "" {
		return decision{do: keep}
	}
	if refusal := f.refusesAll(); refusal != "" {
		return refused(refusal)
	}
	if f.awaits() {
		return decision{do: wait}
	}
	machine, refusal := f.known()
	if refusal == "" {
		refusal = f.refuses(machine)
	}
	if refusal != "" {
		return refused(refusal)
	}
	if machine == nil && !f.made && f.leaver {
		return decision{do: wait, again: shortly} // its deletion would delete the new node
	}
	return f.accepts(machine)
}

// awaits reports that the cluster is not there or paused. Or the token was revoked, or the cache is behind.
func (f *facts) awaits() bool {
	return f.capi == nil || topology.IsPaused(f.capi) || f.tokenName != "" && f.token == nil
}

// refuses returns why the host may not register, "" if it may. machine is nil for a host without a Machine.
func (f *facts) refuses(machine *clusterv1.Machine) string {
	isNew := machine == nil && !f.made
	if isNew {
		if refusal := f.refusesNew(); refusal != "" {
			return refusal
		}
	}
	if f.token != nil {
		if refusal := registration.RefusesHost(f.token, &f.host, machine); refusal != "" {
			return refusal
		}
	}
	if isNew && f.waiting >= f.maxWaiting {
		return tooMany(f.maxWaiting)
	}
	return ""
}

// accepts answers with the Machine of the host, or makes it.
func (f *facts) accepts(machine *clusterv1.Machine) decision {
	d := decision{do: register, record: f.token != nil && !registration.Admitted(f.token, f.host.ID)}
	d.answer = registration.Answer{Namespace: f.clusters[0].Namespace, Name: f.host.MachineName()}
	switch {
	case machine != nil:
		d.do, d.answer = answer, registration.Answer{Namespace: machine.Namespace, Name: machine.Name}
	case f.made:
		d.do = answer
	}
	return d
}

func refused(refusal string) decision {
	return decision{do: answer, answer: registration.Answer{Refusal: refusal}}
}

// refusesAll returns why the cluster accepts no host with that request, "" without a reason.
func (f *facts) refusesAll() string {
	switch {
	case len(f.clusters) == 0:
		return noCluster
	case len(f.clusters) > 1:
		return manyClusters
	case f.clusters[0].DeletionTimestamp != nil, f.capi != nil && f.capi.DeletionTimestamp != nil:
		return goingCluster
	case f.clusters[0].Spec.RKEConfig == nil:
		return importedOne
	case f.host.ID == "" && f.wrong != nil:
		return f.wrong.Error()
	case f.request.Name != f.host.MachineName():
		return wrongName
	}
	return ""
}

// known returns the Machine of the cluster that the host already is, nil without one, or why it may not use that
// Machine. For a known host the rest of the request is ignored.
func (f *facts) known() (*clusterv1.Machine, string) {
	var here []*clusterv1.Machine
	for _, machine := range f.machines {
		switch {
		case machine.Namespace != f.clusters[0].Namespace || machine.Spec.ClusterName != f.clusters[0].Name:
		case machine.Name == f.host.MachineName():
			here = append([]*clusterv1.Machine{machine}, here...)
		default:
			here = append(here, machine)
		}
	}
	switch {
	case len(here) == 0:
		return nil, ""
	case len(here) > 1 && here[0].Name != f.host.MachineName():
		return nil, twoMachines
	case !isCustom(here[0]):
		return nil, pooled
	case here[0].DeletionTimestamp != nil:
		return nil, leaving
	}
	return here[0], ""
}

func isCustom(machine *clusterv1.Machine) bool {
	return registration.IsHost(machine) && machine.Labels[rkev1.MachinePoolNameLabel] == "" &&
		!isOwnedBy(machine, machineSetKind)
}

// isWaiting reports whether a Machine is a registered host without a node.
func isWaiting(machine *clusterv1.Machine) bool {
	return isCustom(machine) && machine.DeletionTimestamp == nil && !machine.Status.NodeRef.IsDefined()
}

// waitingKey returns a cluster's key in the index: for its servers, which have the etcd or control-plane role, or for
// its other hosts.
func waitingKey(cluster types.NamespacedName, servers bool) string {
	if servers {
		return cluster.String() + "/servers"
	}
	return cluster.String()
}

// isOwnedBy reports whether an object of that Cluster API kind owns the object.
func isOwnedBy(object metav1.Object, kind string) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.Kind == kind &&
			schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group == clusterv1.GroupVersion.Group
	})
}

// refusesNew returns why a new host cannot become a machine, "" if it can.
func (f *facts) refusesNew() string {
	switch {
	case len(f.machines) > 0 || f.claimed: // of another cluster, because known has checked this one
		return elsewhere
	case f.named.machine != nil && f.named.machine.DeletionTimestamp != nil:
		return leaving
	case f.named.machine != nil:
		return takenName
	}
	if bootstrap := f.named.bootstrap; bootstrap != nil {
		if refusal := f.refusesHalf(bootstrap, bootstrap.Spec.ClusterName); refusal != "" {
			return refusal
		}
	}
	if custom := f.named.custom; custom != nil {
		if refusal := f.refusesHalf(custom, clusterLabel(custom)); refusal != "" {
			return refusal
		}
	}
	if f.wrong != nil {
		return f.wrong.Error()
	}
	return ""
}

// refusesHalf returns why an object without a Machine cannot be completed. It is left from a deleted machine, or
// belongs to another owner.
func (f *facts) refusesHalf(object metav1.Object, cluster string) string {
	switch {
	case object.GetDeletionTimestamp() != nil, isOwnedBy(object, "Machine"):
		return leaving
	case cluster != f.clusters[0].Name, object.GetLabels()[rkev1.MachineIDLabel] != f.host.ID:
		return takenName
	}
	return ""
}
