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

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// keptFor is how long a request is there after this process has first seen it, which is long enough to answer what can be answered. Who waits for its answer
// waits less than twice as long, and makes it again.
const keptFor = time.Minute

// maxWaiting is how many registered servers of a cluster may have no node yet, and how many other hosts. Who has the token of a cluster may make up identities, and
// each is a dozen objects for ever: without a limit that fills the datastore of all clusters. Racks that are switched on together have fewer hosts. Workers get no node
// before there are servers, which are counted apart, lest they never get in. Hosts that ask at the same moment may be a few more, as many as are made until the caches
// show them.
const maxWaiting = 100

// tooMany is for the administrator of a host that is one more.
var tooMany = fmt.Sprintf("%d hosts like this one have registered with this cluster and have no node yet; delete the Machines of those that will not come, or wait", maxWaiting)

// facts are what is known of one request.
type facts struct {
	request *corev1.Secret
	// host is what the request says, and wrong why no machine can be made of that; nil when one can.
	host  registration.Host
	wrong error
	// clusters are those that say that the namespace of the request is that of their management cluster.
	clusters   []*provv1.Cluster
	instanceID string
	// capi is the cluster for Cluster API; nil while there is none.
	capi *clusterv1.Cluster
	// machines have the identity of the host, wherever they are.
	machines []*clusterv1.Machine
	// named are the objects in the namespace of the cluster that have the name of the host's; nil for those that are not there.
	named objects
	// made tells that we have made the Machine a moment ago, and the cache does not show it yet.
	made bool
	// claimed tells that a machine of that identity is being made for another cluster.
	claimed bool
	// waiting are so many hosts of the cluster that have registered and have no node yet: servers if the host wants to be one, or else the others.
	waiting int
	// since is when this process has first seen the request.
	since, now time.Time
}

// objects are what a host is.
type objects struct {
	bootstrap *rkev1.RKEBootstrap
	custom    *rkev1.CustomMachine
	machine   *clusterv1.Machine
}

// what is to be done with a request.
type what string

const (
	// leave does nothing, not even later.
	leave what = "leave"
	// keep does nothing until the request is to be deleted.
	keep what = "keep"
	// remove deletes the request.
	remove what = "remove"
	// wait takes away what was answered to something else.
	wait what = "wait"
	// answer answers the request.
	answer what = "answer"
	// register makes what is missing of the machine, and then answers with it.
	register what = "register"
)

// decision is what follows from facts.
type decision struct {
	do     what
	answer registration.Answer
	// again is when the request is to be looked at again in any case; zero for never.
	again time.Duration
}

// Sentences for the administrator of a host.
const (
	noCluster      = "the cluster of this token is not there any more: copy the command from the cluster that the host is to join"
	manyClusters   = "more than one Cluster says that this token is for it: who operates Drover has to look at status.clusterName of the Clusters"
	goingCluster   = "the cluster is being deleted"
	importedOne    = "the cluster was imported, and machines of it are not made here: join the host with the tools by which the cluster was made"
	wrongName      = "the request does not have the name that follows from the identity of the host"
	elsewhere      = "the identity of this host is that of a machine of another cluster: it is registered there, or its disk is a copy of that machine's. " + newIdentity
	twoMachines    = "the identity of this host is that of more than one Machine of the cluster: delete those that are not this host, and run the command again"
	pooled         = "the identity of this host is that of a machine that Drover has made from a pool: its disk is a copy of that machine's. " + newIdentity
	leaving        = "the machine of this host is being removed; run the command again once it is gone"
	takenName      = "another object has the name that the machine of this host would get. " + newIdentity
	newIdentity    = "To give the host an identity of its own, run the uninstall script, delete /etc/rancher/agent/cattle-id, and run the command again"
	machineSetKind = "MachineSet"
)

// decide says what to do with a request.
func decide(f facts) decision {
	if f.ofOthers() {
		return decision{do: leave}
	}
	left := f.since.Add(keptFor).Sub(f.now)
	if left <= 0 {
		return decision{do: remove}
	}
	d := f.decide()
	d.again = left
	return d
}

// ofOthers reports that somebody else answers the request. One that no Cluster stands behind and that has another kind of name is for clusters that are
// managed without one.
func (f *facts) ofOthers() bool {
	if len(f.clusters) == 0 {
		return !isName(f.request.Name)
	}
	return slices.ContainsFunc(f.clusters, func(c *provv1.Cluster) bool { return topology.Owner(c, f.instanceID, true) != topology.Ours })
}

// decide is for a request that is ours, and not too old.
func (f *facts) decide() decision {
	if given := registration.ReadAnswer(f.request); given != nil && given.Refusal == "" {
		return decision{do: keep}
	}
	if refusal := f.refusesAll(); refusal != "" {
		return refused(refusal)
	}
	if f.capi == nil || isPaused(f.capi) {
		return decision{do: wait}
	}
	if machine, refusal := f.known(); refusal != "" {
		return refused(refusal)
	} else if machine != nil {
		return decision{do: answer, answer: registration.Answer{Namespace: machine.Namespace, Name: machine.Name}}
	}
	made := registration.Answer{Namespace: f.clusters[0].Namespace, Name: f.host.MachineName()}
	if f.made {
		return decision{do: answer, answer: made}
	}
	if refusal := f.refusesNew(); refusal != "" {
		return refused(refusal)
	}
	return decision{do: register, answer: made}
}

func refused(refusal string) decision {
	return decision{do: answer, answer: registration.Answer{Refusal: refusal}}
}

// refusesAll says why no host of that request gets into the cluster; empty when there is no reason.
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

// known is the Machine of the cluster that the host already is, or why it may not be that; nil when there is none. What the host says besides counts for
// nothing then.
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
	return registration.IsHost(machine) && machine.Labels[rkev1.MachinePoolNameLabel] == "" && !isOwnedBy(machine, machineSetKind)
}

// isWaiting reports whether a Machine is that of a registered host whose node is still to come.
func isWaiting(machine *clusterv1.Machine) bool {
	return isCustom(machine) && machine.DeletionTimestamp == nil && !machine.Status.NodeRef.IsDefined()
}

// waitingKey is the key of those of a cluster in the index: of its servers, which have etcd or the control plane, or of its other hosts.
func waitingKey(cluster types.NamespacedName, servers bool) string {
	if servers {
		return cluster.String() + "/servers"
	}
	return cluster.String()
}

// isOwnedBy reports whether a kind of Cluster API's owns an object.
func isOwnedBy(object metav1.Object, kind string) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.Kind == kind && schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group == clusterv1.GroupVersion.Group
	})
}

// refusesNew says why no machine is made of a host that is none yet; empty when one is.
func (f *facts) refusesNew() string {
	switch {
	case len(f.machines) > 0 || f.claimed: // of another cluster: known has looked at those of this one
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
	if f.waiting >= maxWaiting {
		return tooMany
	}
	return ""
}

// refusesHalf says why an object without a Machine cannot be completed: it is what is left of one that is gone, or somebody else's.
func (f *facts) refusesHalf(object metav1.Object, cluster string) string {
	switch {
	case object.GetDeletionTimestamp() != nil, isOwnedBy(object, "Machine"):
		return leaving
	case cluster != f.clusters[0].Name, object.GetLabels()[rkev1.MachineIDLabel] != f.host.ID:
		return takenName
	}
	return ""
}
