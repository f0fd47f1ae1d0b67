package bootstrapdata

import (
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Removal is the input for the decision whether an etcd machine may be deleted. Its etcd member has to leave the
// cluster first, otherwise the cluster loses quorum. An annotation, the hook, makes Cluster API wait with the deletion.
type Removal struct {
	// Etcd is true for a machine with an etcd member, and false for a server that keeps its data elsewhere. Forced is
	// true when the user gave the member up.
	Etcd, Forced bool
	// MachineDeleting and BootstrapDeleting are true for the objects that are being deleted. DeletedAt is the time of
	// the earlier deletion.
	MachineDeleting, BootstrapDeleting bool
	DeletedAt                          time.Time
	// ClusterGoing is true when the whole cluster is being deleted, or when the objects that describe it are gone.
	ClusterGoing bool
	// Planned is true when the machine ever got a plan. A machine without a plan cannot have joined.
	Planned bool
	// NodeName is the machine's node. An empty name does not prove that there is no node: members join etcd before
	// Cluster API finds their nodes.
	NodeName string
	// Began is true when the cluster has ever started, so that other members and data may exist. It does not say
	// whether the cluster answers now.
	Began bool
	// Dependents is true while another machine is joined to this one and can be moved to another server.
	Dependents bool
	// OnlyTwo is true when there are exactly two etcd machines and the other one is not being deleted.
	OnlyTwo bool
	// Behind is true while the member of another deleted machine has not left yet. Members leave one at a time.
	Behind bool
	// Keepers are the nodes of other machines that work and do not leave before this one. They keep the data.
	Keepers []string
	// Last is true while the cluster knows none of the Keepers as a member. The data would be lost with this machine.
	Last bool
	// Coming is true while another etcd machine has just been created and has not joined.
	Coming bool
	// OtherLeaving is another node whose member was asked to leave and has not left; empty when there is none.
	// Deletions may be observed in another order than they were made.
	OtherLeaving string
	// Elsewhere is true when the machine was configured to keep the cluster's data in a datastore other than etcd. Its
	// node says whether there is a member.
	Elsewhere bool
	// Member is the progress of the member's removal.
	Member MemberState
	Now    time.Time
}

// MemberState is the progress of the removal of a node's etcd member, as its distribution reports it on the node.
type MemberState int

// The states of a member.
const (
	// MemberUnknown means that the node has not been read yet.
	MemberUnknown MemberState = iota
	// MemberPresent means that the member has not been asked to leave.
	MemberPresent
	// MemberLeaving means that the member was asked to leave.
	MemberLeaving
	// MemberGone means that the member has left, or that the node does not exist.
	MemberGone
)

// HookAction is what the caller does with the hook.
type HookAction string

// The actions.
const (
	// HookKeep leaves the hook as it is.
	HookKeep HookAction = "Keep"
	// HookEnsure sets the hook.
	HookEnsure HookAction = "Ensure"
	// HookDrop removes the hook: the machine may be deleted.
	HookDrop HookAction = "Drop"
	// HookLook reads the member's state from the node.
	HookLook HookAction = "Look"
	// HookAsk asks the distribution, by an annotation on the node, to remove the member.
	HookAsk HookAction = "Ask"
)

const (
	// settleTime is how long the second to last member is kept after its deletion began. A user may delete both members
	// at once, and does not have to wait for a quorum that cannot exist.
	settleTime = 20 * time.Second
	// lookAgain is the interval of checks that no event triggers.
	lookAgain = 5 * time.Second
)

// ReasonEtcdMemberHeld is the reason of condition EtcdMemberLeft on an RKEBootstrap while its machine is held.
const ReasonEtcdMemberHeld = "EtcdMemberHeld"

// Waits that the user may have to end.
const (
	waitLast = "no other healthy etcd member has the cluster's data: another machine with etcd must join or become " +
		"healthy first. To give up the data, " +
		"annotate the RKEBootstrap " + rkev1.ForceRemoveEtcdAnnotation +
		"=true, and restore a snapshot on other machines"
	// WaitDown is the wait for a cluster that does not answer.
	WaitDown = "the cluster does not answer, so Drover cannot check that the etcd member has left. If the cluster's " +
		"hosts are gone, annotate the RKEBootstrap " +
		rkev1.ForceRemoveEtcdAnnotation + "=true, and restore a snapshot on other machines"
	waitJoined = "other machines use this machine as their server and must move to another server first: condition " +
		"Ready of the Cluster has the reason of the wait"
	waitComing = "another machine must join etcd first. If it cannot join, delete it; Drover waits for it at most " +
		"half an hour"
	waitBehind = "the etcd member of another machine must leave or restart first: condition Ready of the Cluster and " +
		"condition " + rkev1.ConditionEtcdMemberLeft +
		" of the other RKEBootstraps have the reason of the wait"
	// waitGone completes the messages that wait for the member of a node.
	waitGone = ". If its host is lost, delete the Node in the cluster; this also removes the member"
)

// DecideHook returns the action for a machine's hook, the reason for the wait, and the time until the next check. The
// first rule that applies decides.
//
// A machine without a known node is released in two cases: it never got a plan, or its cluster answered that it has no
// such node. A member that stays behind would count toward the quorum forever. The check misses only a member whose
// node has not registered yet, which takes seconds while a server joins. A cluster that never answers again holds the
// machine until the user gives the member up. Neither a Machine without a node reference nor a missing kubeconfig
// Secret proves that there is no member. Both may come late, be lost, or be absent from the cache.
//
// The last working member stays until another member works that is not being deleted. The user may delete all machines
// because others replace them. If no replacement is created while they exist, all but the last leave, and then the
// replacements are created.
func DecideHook(r Removal) (action HookAction, wait string, after time.Duration) {
	switch {
	case !r.Etcd, r.Forced:
		return HookDrop, "", 0
	case !r.MachineDeleting && !r.BootstrapDeleting:
		return HookEnsure, "", 0
	case r.ClusterGoing, !r.Began, r.neverJoined(), r.Elsewhere && r.Member == MemberGone:
		return HookDrop, "", 0
	case (r.NodeName == "" || r.Elsewhere) && r.Member == MemberUnknown:
		// This check comes first, so that a machine without a member does not wait for the checks below. Most machines
		// for which Cluster API knows no node have none, and neither has a machine that keeps its data elsewhere.
		return HookLook, "Drover must find out whether the machine has a node and an etcd member", lookAgain
	case r.Dependents:
		return HookKeep, waitJoined, lookAgain
	case r.OnlyTwo && r.Now.Sub(r.DeletedAt) < settleTime:
		return HookKeep, "the second to last etcd member must stay for a few seconds",
			r.DeletedAt.Add(settleTime).Sub(r.Now)
	}
	return r.memberHook()
}

// neverJoined reports whether the machine is known to have no node.
func (r Removal) neverJoined() bool {
	return r.NodeName == "" && (!r.Planned || r.Member == MemberGone)
}

// memberHook decides when only the member's state matters.
func (r Removal) memberHook() (action HookAction, wait string, after time.Duration) {
	wait = "the etcd member of node " + r.NodeName + " must leave" + waitGone
	switch {
	case r.Member == MemberGone:
		return HookDrop, "", 0
	case r.Member == MemberPresent && r.Last:
		return HookKeep, waitLast, lookAgain
	case r.Member == MemberPresent && r.Coming:
		return HookKeep, waitComing, lookAgain
	case r.Member == MemberPresent && r.OtherLeaving != "":
		return HookKeep, "the etcd member of node " + r.OtherLeaving + " must leave first" + waitGone, lookAgain
	case r.Member == MemberPresent && r.Behind:
		return HookKeep, waitBehind, lookAgain
	case r.Member == MemberPresent:
		return HookAsk, wait, lookAgain
	case r.Member == MemberLeaving:
		return HookKeep, wait, lookAgain
	default:
		return HookLook, wait, lookAgain
	}
}
