package machinejob

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Snapshot is everything that matters for one machine. It is a value: what is not there is nil or false.
type Snapshot struct {
	Machine Machine
	// CAPI is the Machine of Cluster API that owns the infrastructure machine. Nil when there is none.
	CAPI *CAPIMachine
	// Cluster is the cluster of the Machine. Nil when it is not there.
	Cluster *ClusterState
	// Protected is true when the cluster is protected, and the machine goes because the cluster does, or Cluster API's cluster, which is being
	// deleted or gone; or for no reason, since its Machine stays.
	Protected bool
	// BootstrapReady is true when the bootstrap object reports its data.
	BootstrapReady bool
	// Driver is the node driver. Its error says why there is none that can be used.
	Driver      Driver
	DriverError string
	// Credential is the data of the Secret that the machine refers to. Its error says why it cannot be used.
	Credential      map[string][]byte
	CredentialError string
	// CredentialDenied is true when the error is that the cluster may not use the Secret, which is in another namespace.
	CredentialDenied bool
	// State is what the state Secret holds.
	State StateSecret
	// Create is the Job that makes the machine; Removes are those that remove it, sorted by attempt.
	Create  JobState
	Removes []JobState
	// PoolFailures is how many machines of the same pool, made in the same way, could not be made, one after the other, and PoolTurn when the next one may be.
	PoolFailures int
	PoolTurn     time.Time
	// PullSecrets are the contents of the settings' pull secrets that are there and can be used.
	PullSecrets map[types.NamespacedName][]byte
	Settings    Settings
	Now         time.Time
}

// CAPIMachine is a Machine of Cluster API.
type CAPIMachine struct {
	Name string
	// BootstrapSecret is the Secret with the install script, empty until known.
	BootstrapSecret string
	Deleting        bool
	// Protection is the value of its annotation drover.io/protect.
	Protection string
}

// ClusterState is a cluster with what gates its machines.
type ClusterState struct {
	Cluster
	Paused, InfrastructureReady bool
	// Kept is true while it is paused by somebody, and not by an operation of ours, in which machines may go.
	Kept bool
}

// StateSecret is what is known of a machine's state Secret.
type StateSecret struct {
	// Exists is true when there is such a Secret.
	Exists bool
	// Written is true when rancher-machine has written to it at least once.
	Written bool
	// Holds is true when a virtual machine may exist.
	Holds bool
}

// ActionKind is one of the few things that can be done to a machine.
type ActionKind string

// The kinds of actions. Each is one call, or one set, and may be repeated.
const (
	// ActionConfirmGone goes on only when the API server has neither the Job nor the state Secret that are named: caches may
	// be older than our own last write.
	ActionConfirmGone ActionKind = "ConfirmGone"
	// ActionMark writes the finalizer and the label with the name of the Machine.
	ActionMark ActionKind = "Mark"
	// ActionEnsure writes the Secrets and the rights that a Job needs.
	ActionEnsure ActionKind = "Ensure"
	// ActionRun makes a Job, unless it exists.
	ActionRun ActionKind = "Run"
	// ActionDeleteJob deletes a Job with its pods.
	ActionDeleteJob ActionKind = "DeleteJob"
	// ActionTakeBack deletes a Job whose pod has never run. The API server is asked, as above.
	ActionTakeBack ActionKind = "TakeBack"
	// ActionTidy deletes everything but the state Secret.
	ActionTidy ActionKind = "Tidy"
	// ActionReplace deletes the Machine of Cluster API, so that another one is made.
	ActionReplace ActionKind = "Replace"
	// ActionRelease takes the finalizer away. Everything that belongs to the machine goes with it.
	ActionRelease ActionKind = "Release"
)

// Action is one thing to do.
type Action struct {
	Kind ActionKind
	// Name is that of the Job of Run, DeleteJob and TakeBack, and of the Machine of Mark and Replace. For Release it is a Job that must
	// not exist, when it is not empty: caches may be older than our own last write, so the API server is asked.
	Name string
	// StateSecret, for ConfirmGone, must not exist; for Release, and when it is not empty, it must not hold a machine; the API server is asked, as above.
	StateSecret string
	// Objects are what Ensure writes and the Job of Run.
	Objects Objects
}

// Decision is what to do now.
type Decision struct {
	// Actions in order. The first that fails ends the pass.
	Actions []Action
	// Status is what the machine reports after the actions succeeded.
	Status rkev1.RKEMachineStatus
	// Wait says in words what happens next, for logs. Empty when there is nothing to wait for.
	Wait string
	// After is when to look again without any event. Zero means that only events matter.
	After time.Duration
}
