package planner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Snapshot is everything known about one cluster at one moment. It is read-only for Decide and may share memory with caches.
type Snapshot struct {
	// Now dates conditions, and tells whether a deadline has passed.
	Now time.Time `json:"now"`
	// Behind names the objects whose cached form is older than our own last write.
	Behind []string `json:"behind,omitempty"`
	// ControlPlane is the RKEControlPlane.
	ControlPlane ControlPlane `json:"controlPlane"`
	// Cluster is the owning CAPI Cluster, nil while it does not exist.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Connected is the management cluster's condition Connected: the cluster's API has answered.
	Connected bool `json:"connected,omitempty"`
	// AgentDeployed is its condition AgentDeployed: the agent inside the cluster was connected once. Nodes wait for no connection after that: a
	// plan may be what brings the agent back.
	AgentDeployed bool `json:"agentDeployed,omitempty"`
	// Machines of the cluster with an RKEBootstrap, in any order.
	Machines []Machine `json:"machines,omitempty"`
	// Tokens is the cluster state secret.
	Tokens Tokens `json:"tokens,omitzero"`
	// Snapshots are the ETCDSnapshots in the cluster's namespace that a restore names: the one asked for, and the one at work.
	Snapshots []ETCDSnapshot `json:"snapshots,omitempty"`
	// Release describes the Kubernetes version of the cluster.
	Release distro.Release `json:"release,omitzero"`
	// Objects are the Secrets and ConfigMaps that the configuration refers to, and those that Snapshots of the cluster do.
	Objects []Object `json:"objects,omitempty"`
	// Settings are server-wide.
	Settings render.Settings `json:"settings,omitzero"`
	// Roll is the command to move machines to another render version.
	Roll Roll `json:"roll,omitzero"`
	// Versions are the render versions there are; the zero value has those that the program knows.
	Versions render.Versions `json:"-"`
	// Memo remembers plans from one decision about the cluster to the next. It changes no decision, and may be nil.
	Memo *render.Memo `json:"-"`
	// AwaitsAgent is true while the manifest of the agent inside the cluster does not exist, although clusters that are made have one.
	AwaitsAgent bool `json:"awaitsAgent,omitempty"`
	// AgentProblem says why no manifest of that agent can be made now; empty when one can, and when clusters have none.
	AgentProblem string `json:"agentProblem,omitempty"`
	// ClusterAgent is the manifest of the agent inside the cluster.
	ClusterAgent render.ClusterAgent `json:"clusterAgent,omitzero"`
}

// ControlPlane is the RKEControlPlane.
type ControlPlane struct {
	Namespace   string                      `json:"namespace"`
	Name        string                      `json:"name"`
	Generation  int64                       `json:"generation"`
	Deleting    bool                        `json:"deleting,omitempty"`
	Labels      map[string]string           `json:"labels,omitempty"`
	Annotations map[string]string           `json:"annotations,omitempty"`
	Spec        rkev1.RKEControlPlaneSpec   `json:"spec"`
	Status      rkev1.RKEControlPlaneStatus `json:"status"`
}

// Cluster is the CAPI Cluster.
type Cluster struct {
	Deleting bool `json:"deleting,omitempty"`
	// Paused is spec.paused, or the annotation for it on the RKEControlPlane.
	Paused bool `json:"paused,omitempty"`
	// PausedBy is the operation that has set spec.paused, empty when nobody has or the user has.
	PausedBy string `json:"pausedBy,omitempty"`
	// InfrastructureProvisioned is status.initialization.infrastructureProvisioned.
	InfrastructureProvisioned bool `json:"infrastructureProvisioned,omitempty"`
	// Initialized is the condition ControlPlaneInitialized.
	Initialized bool `json:"initialized,omitempty"`
}

// Tokens is the cluster state secret.
type Tokens struct {
	// Exists is true when the secret exists and is usable.
	Exists bool `json:"exists,omitempty"`
	// Problem says why an existing secret cannot be used, without its content.
	Problem string `json:"problem,omitempty"`
	// Values are the tokens.
	Values render.Tokens `json:"values,omitzero"`
}

// Machine is one CAPI Machine with its RKEBootstrap and plan secret.
type Machine struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Labels of the Machine over those of the RKEBootstrap.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the RKEBootstrap.
	Annotations map[string]string `json:"annotations,omitempty"`
	Deleting    bool              `json:"deleting,omitempty"`
	// CreatedAt is when the Machine was made.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Phase is status.phase of the Machine.
	Phase string `json:"phase,omitempty"`
	// InfrastructureReady is the condition of that name: the host exists.
	InfrastructureReady bool `json:"infrastructureReady,omitempty"`
	// HasNode is true when CAPI has found the machine's Node; KubeletVersion is then what it reports.
	HasNode        bool   `json:"hasNode,omitempty"`
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	// NodeName is the name of that Node.
	NodeName string `json:"nodeName,omitempty"`
	// NodeLostSince is since when the Node has not been heard of, or is gone. Zero while it is heard of, and while nobody could look.
	NodeLostSince time.Time `json:"nodeLostSince,omitzero"`
	// NodeUnknown: nobody can look at the Node now, because the connection to the cluster is down. NodeLostSince is then what was seen last.
	NodeUnknown bool `json:"nodeUnknown,omitempty"`
	// NodeUnknownSince is since when NodeUnknown holds, zero when that is not known.
	NodeUnknownSince time.Time `json:"nodeUnknownSince,omitzero"`
	// Held: the machine is deleting, and its etcd member has not left yet.
	Held bool `json:"held,omitempty"`
	// PoolPaused: the machine pool is paused. Skip: an operator leaves the machine out of roll-outs.
	PoolPaused bool `json:"poolPaused,omitempty"`
	Skip       bool `json:"skip,omitempty"`
	// SkipDrain: an operator does not wait for the node to be drained, nor for the end of its drain.
	SkipDrain bool `json:"skipDrain,omitempty"`
	// SkipProof: an operator has the node restarted without its own proof that etcd can do without it.
	SkipProof bool `json:"skipProof,omitempty"`
	// Retry: an operator wants the node to go on trying a plan that it has given up.
	Retry bool `json:"retry,omitempty"`
	// Addresses are status.addresses of the Machine.
	Addresses []Address `json:"addresses,omitempty"`
	// Provisioned is true for machines made by a node driver; Driver is what the driver recorded, nil until it did.
	Provisioned bool           `json:"provisioned,omitempty"`
	Driver      *render.Driver `json:"driver,omitempty"`
	// Health sums up what others say about the Machine.
	Health Health `json:"health,omitzero"`
	// Reconciled is the planner's own condition on the Machine, zero when absent.
	Reconciled Condition `json:"reconciled,omitzero"`
	// ForceRemove is true when the machine may go without its etcd member being removed first.
	ForceRemove bool `json:"forceRemove,omitempty"`
	// Marks are the planner's own notes on the Machine.
	Marks Marks `json:"marks,omitzero"`
	// Plan is the plan secret, nil until the machine is registered.
	Plan *PlanSecret `json:"plan,omitempty"`
}

// Address is an address of a machine.
type Address struct {
	// Type is InternalIP, ExternalIP and so on, as Cluster API names them.
	Type    string `json:"type"`
	Address string `json:"address"`
}

// Health sums up the conditions that others set on a Machine.
type Health struct {
	// Failing: a condition reports an error. NotReady: the Machine is on its way to Ready.
	Failing  bool `json:"failing,omitempty"`
	NotReady bool `json:"notReady,omitempty"`
	// Message says why, in one line.
	Message string `json:"message,omitempty"`
}

// Condition is the part of a condition that is compared.
type Condition struct {
	Status  corev1.ConditionStatus `json:"status,omitempty"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
}

// Marks are the planner's notes on a Machine; see the package comment.
type Marks struct {
	// InitNode: the machine starts the cluster.
	InitNode bool `json:"initNode,omitempty"`
	// JoinURL is where others can join this server, empty until it can be joined.
	JoinURL string `json:"joinURL,omitempty"`
	// JoinedTo is the join URL in the plan last delivered, empty on the init node.
	JoinedTo string `json:"joinedTo,omitempty"`
	// RenderVersion is set before the first plan is delivered.
	RenderVersion string `json:"renderVersion,omitempty"`
	// Found tells what was there when a machine with a plan of another manager was adopted, as evidence tells it.
	Found string `json:"found,omitempty"`
	// Version is the Kubernetes version of the plan last delivered. It is the Machine's own spec.version, with which Cluster API compares the
	// node's to tell whether the machine is up to date. The templates of pools have none: to Cluster API another version is another machine.
	Version string `json:"version,omitempty"`
}

// PlanSecret is a machine's plan secret.
type PlanSecret struct {
	Name string `json:"name"`
	// JoinURL repeats the mark; it is compared to keep tools informed, never trusted.
	JoinURL string `json:"joinURL,omitempty"`
	// JoinedTo repeats the mark. It is read once, when a machine of another manager is adopted.
	JoinedTo string `json:"joinedTo,omitempty"`
	// ProbesPassed: all probes of the delivered plan have passed at least once.
	ProbesPassed bool `json:"probesPassed,omitempty"`
	// InitNode repeats the mark as a label.
	InitNode bool `json:"initNode,omitempty"`
	// DeliveredAt is when the plan was last written, zero when that is not known.
	DeliveredAt time.Time `json:"deliveredAt,omitzero"`
	// Drain is how far the node is with being drained.
	Drain Drain `json:"drain,omitzero"`
	// Evidence tells what the plan was rendered from, as it came with the plan. Nothing but causes in reports builds on it.
	Evidence string `json:"evidence,omitempty"`
	// Malformed says which data key is unreadable, empty when all are readable.
	Malformed string `json:"malformed,omitempty"`
	// State is the decoded content.
	State nodeplan.State `json:"state,omitzero"`
	// AppliedSize and ReportSize are the bytes that stay in the secret beside a new plan: the copy of the plan that was applied
	// last, and everything that the agent reports.
	AppliedSize int `json:"appliedSize,omitempty"`
	ReportSize  int `json:"reportSize,omitempty"`
}

// Drain is what planner and drainer told each other last. Requests and answers are DrainOptions as JSON with sorted keys.
type Drain struct {
	// Requested is what the planner asked for; Done repeats it once it was done.
	Requested string `json:"requested,omitempty"`
	Done      string `json:"done,omitempty"`
	// Uncordon is set when the planner wants the drain to end. The drainer then takes everything away.
	Uncordon string `json:"uncordon,omitempty"`
	// Since is when the last of these was asked for, zero when that is not known.
	Since time.Time `json:"since,omitzero"`
	// Error is why the drainer does not get on.
	Error string `json:"error,omitempty"`
}

// Object is a Secret or ConfigMap that the configuration refers to.
type Object struct {
	// Kind is Secret or ConfigMap.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Type of a Secret.
	Type        corev1.SecretType `json:"type,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Data is the data of a Secret; data and binaryData of a ConfigMap.
	Data map[string][]byte `json:"data,omitempty"`
	// Denied says why the configuration may not use a Secret, which is in another namespace. Empty: it may.
	Denied string `json:"denied,omitempty"`
}
