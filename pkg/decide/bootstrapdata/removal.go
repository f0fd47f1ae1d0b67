package bootstrapdata

import (
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Removal is what decides whether an etcd machine may go: its member has to leave the cluster first, or the cluster loses
// quorum. The machine is held by an annotation that Cluster API waits for, the hook.
type Removal struct {
	// Etcd is true for a machine that is a member of etcd, and not one whose server keeps the data elsewhere; Forced when somebody gave its member up.
	Etcd, Forced bool
	// MachineDeleting and BootstrapDeleting say what is going. DeletedAt is since when, of the one that went first.
	MachineDeleting, BootstrapDeleting bool
	DeletedAt                          time.Time
	// ClusterGoing is true when the cluster is deleted as a whole, or what describes it is gone.
	ClusterGoing bool
	// Planned is true when the machine ever got a plan. Without one it can have joined nothing.
	Planned bool
	// NodeName is the node of the machine. Empty while none is known, which is not to say that there is none: Cluster API finds
	// nodes late, and members join etcd before.
	NodeName string
	// Began is true when the cluster has begun at some time, so that there may be other members and data. Whether it answers now is another
	// question, which only asking it answers.
	Began bool
	// Dependents is true while another machine is still joined to this one, and there is a server that it can be moved to.
	Dependents bool
	// OnlyTwo is true when there are exactly two etcd machines and the other is not going.
	OnlyTwo bool
	// Behind is true while the member of another machine that goes has not left yet: they go one at a time.
	Behind bool
	// Keepers are the nodes of other machines that work and do not leave before this one, so that the data are there when it has left.
	Keepers []string
	// Last is true while none of the Keepers is known to the cluster as a member, and the data would go with this one.
	Last bool
	// Coming is true while another machine with etcd has just been made, and has not joined.
	Coming bool
	// OtherLeaving is another node whose member was asked to leave and has not left, empty when there is none: deletions may come to be known
	// in another order than they were made in.
	OtherLeaving string
	// Elsewhere is true when the machine was told to keep the cluster's data in another datastore than etcd: whether there is a member, its node says.
	Elsewhere bool
	// Member is how far the node's member is.
	Member MemberState
	Now    time.Time
}

// MemberState is how far the removal of a node's etcd member is, as its distribution says on the node.
type MemberState int

// The states of a member.
const (
	// MemberUnknown is before anybody looked.
	MemberUnknown MemberState = iota
	// MemberPresent has not been asked to leave.
	MemberPresent
	// MemberLeaving was asked to leave.
	MemberLeaving
	// MemberGone has left, or there is no such node.
	MemberGone
)

// HookAction is what to do about the hook.
type HookAction string

// The actions.
const (
	// HookKeep leaves the hook as it is.
	HookKeep HookAction = "Keep"
	// HookEnsure sets it.
	HookEnsure HookAction = "Ensure"
	// HookDrop takes it away: the machine may go.
	HookDrop HookAction = "Drop"
	// HookLook asks the node how far its member is.
	HookLook HookAction = "Look"
	// HookAsk asks the distribution, on the node, to remove the member.
	HookAsk HookAction = "Ask"
)

const (
	// settleTime is how long the last but one member is kept after its deletion began: an operator who deletes both in one
	// go does not want to wait for a quorum that will not be.
	settleTime = 20 * time.Second
	// lookAgain is when to look again at what no event announces.
	lookAgain = 5 * time.Second
)

// ReasonEtcdMemberHeld goes with condition EtcdMemberLeft of an RKEBootstrap while its machine is held.
const ReasonEtcdMemberHeld = "EtcdMemberHeld"

// Waits that a person may have to end.
const (
	waitLast = "no other member of etcd works that could keep the cluster's data: another machine with etcd has to join, or to work again. To give the data up, " +
		"annotate the RKEBootstrap " + rkev1.ForceRemoveEtcdAnnotation + "=true, and restore a snapshot on other machines"
	// WaitDown is the wait for a cluster that does not answer.
	WaitDown = "the cluster does not answer whether the etcd member has left. If its hosts are gone, annotate the RKEBootstrap " +
		rkev1.ForceRemoveEtcdAnnotation + "=true, and restore a snapshot on other machines"
	waitJoined = "other machines are joined to this one, and have to move to another server first: condition Ready of the Cluster says what that waits for"
	waitComing = "another machine has to join etcd first. If it never will, delete it; after half an hour nobody waits for it any more"
	waitBehind = "the etcd member of another machine has to leave or to be restarted first: condition Ready of the Cluster, and " + rkev1.ConditionEtcdMemberLeft +
		" of the other RKEBootstraps, say what that waits for"
	// waitGone goes with the wait for the member of a node.
	waitGone = ". If its host is gone for good, delete the Node in the cluster, and its member goes with it"
)

// DecideHook returns what to do about the hook of a machine, in words what it waits for, and when to look again. The first
// rule that applies decides.
//
// A machine without a known node is let go only when it never got a plan, or when its cluster was asked and has no node of it:
// a member that stays behind counts towards the quorum for ever. What cannot be seen is a member whose node has not registered
// yet; that lasts for seconds while a server joins. A cluster that never answers again holds the machine until somebody
// gives the member up, as it does for one with a known node. Neither a Machine without a node reference nor a missing
// Secret with a kubeconfig proves that there is no member: both may come late, be lost, or be absent from the cache.
//
// The last member that works stays until another one does that stays: machines may all be deleted because others take their place. Where none
// come as long as those are there, all but the last leave, which brings the others.
func DecideHook(r Removal) (action HookAction, wait string, after time.Duration) {
	switch {
	case !r.Etcd, r.Forced:
		return HookDrop, "", 0
	case !r.MachineDeleting && !r.BootstrapDeleting:
		return HookEnsure, "", 0
	case r.ClusterGoing, !r.Began, r.neverJoined(), r.Elsewhere && r.Member == MemberGone:
		return HookDrop, "", 0
	case (r.NodeName == "" || r.Elsewhere) && r.Member == MemberUnknown:
		// Asked before the questions below: most machines that Cluster API knows no node of have none, and need not wait, as those whose data are elsewhere.
		return HookLook, "it has to be known whether the machine became a node, and has an etcd member", lookAgain
	case r.Dependents:
		return HookKeep, waitJoined, lookAgain
	case r.OnlyTwo && r.Now.Sub(r.DeletedAt) < settleTime:
		return HookKeep, "the last but one etcd member is kept for a moment", r.DeletedAt.Add(settleTime).Sub(r.Now)
	}
	return r.memberHook()
}

// neverJoined is true when the machine is known to have no node.
func (r Removal) neverJoined() bool {
	return r.NodeName == "" && (!r.Planned || r.Member == MemberGone)
}

// memberHook is what to do when everything depends on the member alone.
func (r Removal) memberHook() (action HookAction, wait string, after time.Duration) {
	wait = "the etcd member of node " + r.NodeName + " has to leave" + waitGone
	switch {
	case r.Member == MemberGone:
		return HookDrop, "", 0
	case r.Member == MemberPresent && r.Last:
		return HookKeep, waitLast, lookAgain
	case r.Member == MemberPresent && r.Coming:
		return HookKeep, waitComing, lookAgain
	case r.Member == MemberPresent && r.OtherLeaving != "":
		return HookKeep, "the etcd member of node " + r.OtherLeaving + " has to leave first" + waitGone, lookAgain
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
