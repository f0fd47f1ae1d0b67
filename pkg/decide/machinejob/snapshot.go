package machinejob

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Snapshot is all input for the decision about one machine. It is a value: absent objects are nil or false.
type Snapshot struct {
	Machine Machine
	// CAPI is the Cluster API Machine that owns the infrastructure machine. Nil when there is none.
	CAPI *CAPIMachine
	// Cluster is the cluster of the Machine. Nil when it does not exist.
	Cluster *ClusterState
	// Protected is true for a machine of a protected cluster that is deleted with its cluster, or while its Cluster API
	// cluster is being deleted or gone. It is also true when the machine is deleted and its Machine stays.
	Protected bool
	// BootstrapReady is true when the bootstrap object reports its data.
	BootstrapReady bool
	// Driver is the node driver. DriverError says why no driver is usable.
	Driver      Driver
	DriverError string
	// Credential is the data of the Secret that the machine refers to. CredentialError says why it is unusable.
	Credential      map[string][]byte
	CredentialError string
	// CredentialDenied is true when the error is that the cluster may not use the Secret of another namespace.
	CredentialDenied bool
	// Given is the environment of the last Job, with its credential. Nil when its Secret does not exist.
	Given map[string][]byte
	// State is the content of the state Secret.
	State StateSecret
	// Create is the Job that creates the machine. Removes are the Jobs that remove it, sorted by attempt.
	Create  JobState
	Removes []JobState
	// Incomplete is true when the last removal runs, and caches lack an object that its pods need.
	Incomplete bool
	// PoolFailures is the number of consecutive failed creations of machines of the same pool and the same
	// configuration. PoolTurn is the earliest time of the next creation, and PoolCause the output of the last failure.
	PoolFailures int
	PoolTurn     time.Time
	PoolCause    string
	// PullSecrets are the contents of the settings' pull secrets that exist and are usable.
	PullSecrets map[types.NamespacedName][]byte
	// Extended is true when the namespace has ExtensionRole, or when the role is already bound to the Job's account. A
	// Job that caches do not show yet keeps the binding.
	Extended bool
	Settings Settings
	Now      time.Time
}

// CAPIMachine is a Machine of Cluster API.
type CAPIMachine struct {
	Name string
	// BootstrapSecret is the Secret with the install script, empty until known.
	BootstrapSecret string
	Deleting        bool
	// Protection is the value of the Machine's annotation drover.io/protect.
	Protection string
}

// ClusterState is a cluster with the facts that gate its machines.
type ClusterState struct {
	Cluster
	Paused, InfrastructureReady bool
	// Kept is true while the cluster is paused, except by an operation of Drover. Machines may be deleted during an
	// operation.
	Kept bool
}

// StateSecret is the known state of a machine's state Secret.
type StateSecret struct {
	// Exists is true when the Secret exists.
	Exists bool
	// Written is true when rancher-machine has written to it at least once.
	Written bool
	// Holds is true when a virtual machine may exist.
	Holds bool
	// Unidentified is true when the driver does not find the virtual machine by the content, if one exists.
	Unidentified bool
}

// ActionKind is the kind of an action on a machine.
type ActionKind string

// The kinds of actions. Each is one call or one set of calls, and is idempotent.
const (
	// ActionConfirmGone continues only when the API server has neither the named Job nor the named state Secret. Caches
	// may be older than Drover's own last write.
	ActionConfirmGone ActionKind = "ConfirmGone"
	// ActionMark writes the finalizer and the label with the name of the Machine.
	ActionMark ActionKind = "Mark"
	// ActionEnsure writes the Secrets and the rights that a Job needs.
	ActionEnsure ActionKind = "Ensure"
	// ActionRestore is ActionEnsure for a Job that runs. It waits while caches may be older than the last write.
	ActionRestore ActionKind = "Restore"
	// ActionRun creates a Job, unless it exists.
	ActionRun ActionKind = "Run"
	// ActionDeleteJob deletes a Job with its pods.
	ActionDeleteJob ActionKind = "DeleteJob"
	// ActionTakeBack deletes a Job whose pod has never run. It reads from the API server, like ActionConfirmGone.
	ActionTakeBack ActionKind = "TakeBack"
	// ActionTidy deletes everything but the state Secret and the output.
	ActionTidy ActionKind = "Tidy"
	// ActionReplace deletes the Cluster API Machine, so that another one is created.
	ActionReplace ActionKind = "Replace"
	// ActionRelease removes the finalizer. Garbage collection deletes everything that belongs to the machine.
	ActionRelease ActionKind = "Release"
)

// Action is one action.
type Action struct {
	Kind ActionKind
	// Name is the Job of Run, DeleteJob and TakeBack, and the Machine of Mark and Replace. For Release, it is a Job
	// that must not exist, unless it is empty. The check reads from the API server, because caches may be older than
	// Drover's own last write.
	Name string
	// StateSecret must not exist, for ConfirmGone. For Release, it must not hold a machine, unless it is empty. The
	// check reads from the API server.
	StateSecret string
	// Objects are the objects of Ensure and Restore, and the Job of Run.
	Objects Objects
}

// Decision is what to do now.
type Decision struct {
	// Actions are in order. The first failure ends the pass.
	Actions []Action
	// Status is the machine's status after the actions succeeded.
	Status rkev1.RKEMachineStatus
	// Wait says in words what happens next, for logs. Empty when there is nothing to wait for.
	Wait string
	// After is the time until the next check without an event. Zero means that only events matter.
	After time.Duration
}
