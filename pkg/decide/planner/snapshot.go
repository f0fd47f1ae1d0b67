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

// Snapshot is everything that is known about one cluster at one moment. Decide only reads it, so it may share memory
// with caches.
type Snapshot struct {
	// Now dates conditions and is compared with deadlines.
	Now time.Time `json:"now"`
	// Behind names the objects whose cached version is older than Drover's own last write.
	Behind []string `json:"behind,omitempty"`
	// ControlPlane is the RKEControlPlane.
	ControlPlane ControlPlane `json:"controlPlane"`
	// Cluster is the owning CAPI Cluster, nil while it does not exist.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Connected is the management cluster's condition Connected: the API of the cluster has answered.
	Connected bool `json:"connected,omitempty"`
	// AgentDeployed is its condition AgentDeployed: the agent inside the cluster has connected once. After that, nodes
	// do not wait for a connection, because a plan may be what brings the agent back.
	AgentDeployed bool `json:"agentDeployed,omitempty"`
	// Machines of the cluster that have an RKEBootstrap, in any order.
	Machines []Machine `json:"machines,omitempty"`
	// Tokens is the cluster state Secret.
	Tokens Tokens `json:"tokens,omitzero"`
	// Snapshots are the ETCDSnapshots in the cluster's namespace that a restore names: the requested one, and the one
	// that a running restore uses.
	Snapshots []ETCDSnapshot `json:"snapshots,omitempty"`
	// Release describes the Kubernetes version of the cluster.
	Release distro.Release `json:"release,omitzero"`
	// Objects are the Secrets and ConfigMaps that the configuration or one of the Snapshots of the cluster refers to.
	Objects []Object `json:"objects,omitempty"`
	// Settings are the settings of the Drover server.
	Settings render.Settings `json:"settings,omitzero"`
	// Roll is the command to move machines to another render version.
	Roll Roll `json:"roll,omitzero"`
	// Agents are the requests to upgrade the agents of the nodes.
	Agents AgentRequests `json:"agents,omitzero"`
	// Versions are the available render versions. The zero value has those that the program knows.
	Versions render.Versions `json:"-"`
	// Memo remembers plans from one decision about the cluster to the next. It changes no decision, and may be nil.
	Memo *render.Memo `json:"-"`
	// AwaitsAgent is true while the manifest of the agent inside the cluster does not exist, although new clusters get
	// one.
	AwaitsAgent bool `json:"awaitsAgent,omitempty"`
	// AgentProblem says why no manifest of that agent can be made now. It is empty when one can be made, and when
	// clusters have no agent.
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
	// Paused is spec.paused, or the pause annotation on the RKEControlPlane.
	Paused bool `json:"paused,omitempty"`
	// PausedBy is the operation that has set spec.paused. It is empty when the cluster is not paused, or the user
	// paused it.
	PausedBy string `json:"pausedBy,omitempty"`
	// InfrastructureProvisioned is status.initialization.infrastructureProvisioned.
	InfrastructureProvisioned bool `json:"infrastructureProvisioned,omitempty"`
	// Initialized is the condition ControlPlaneInitialized.
	Initialized bool `json:"initialized,omitempty"`
}

// Tokens is the cluster state Secret.
type Tokens struct {
	// Exists is true when the Secret exists and is usable.
	Exists bool `json:"exists,omitempty"`
	// Problem says why an existing Secret cannot be used. It does not show the content.
	Problem string `json:"problem,omitempty"`
	// Values are the tokens.
	Values render.Tokens `json:"values,omitzero"`
}

// Machine is one CAPI Machine with its RKEBootstrap and plan Secret.
type Machine struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Labels are those of the Machine and the RKEBootstrap. The Machine's win.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are those of the RKEBootstrap.
	Annotations map[string]string `json:"annotations,omitempty"`
	Deleting    bool              `json:"deleting,omitempty"`
	// CreatedAt is when the Machine was created.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Phase is status.phase of the Machine.
	Phase string `json:"phase,omitempty"`
	// InfrastructureReady is the condition of that name: the host exists.
	InfrastructureReady bool `json:"infrastructureReady,omitempty"`
	// HasNode is true when Cluster API has found the machine's Node. KubeletVersion is what that Node reports.
	HasNode        bool   `json:"hasNode,omitempty"`
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	// NodeName is the name of that Node.
	NodeName string `json:"nodeName,omitempty"`
	// NodeLostSince is since when the Node is out of reach or gone. It is zero while the Node reports, and until Drover
	// has been able to see it.
	NodeLostSince time.Time `json:"nodeLostSince,omitzero"`
	// NodeUnknown is true while the connection to the cluster is down, so the Node cannot be seen. NodeLostSince is
	// then the last known value.
	NodeUnknown bool `json:"nodeUnknown,omitempty"`
	// NodeUnknownSince is since when NodeUnknown is true, zero when that is not known.
	NodeUnknownSince time.Time `json:"nodeUnknownSince,omitzero"`
	// NodeProblem is why Cluster API reports the Node as unhealthy, in one line. It is empty while it reports no
	// problem.
	NodeProblem string `json:"nodeProblem,omitempty"`
	// Paused is true while Cluster API does not look at the Machine. ResumedAt is when it began again, zero when it was
	// never paused.
	Paused    bool      `json:"paused,omitempty"`
	ResumedAt time.Time `json:"resumedAt,omitzero"`
	// PausedByUser is true when the user has paused the Machine itself.
	PausedByUser bool `json:"pausedByUser,omitempty"`
	// Held is true when the machine is deleting and its etcd member has not left yet.
	Held bool `json:"held,omitempty"`
	// PoolPaused is true when the machine pool is paused. Skip is true when an operator leaves the machine out of
	// rollouts.
	PoolPaused bool `json:"poolPaused,omitempty"`
	Skip       bool `json:"skip,omitempty"`
	// SkipDrain is true when an operator does not wait for the drain of the node, nor for the end of its drain.
	SkipDrain bool `json:"skipDrain,omitempty"`
	// SkipProof is true when an operator lets the node restart without its own proof that etcd can do without it.
	SkipProof bool `json:"skipProof,omitempty"`
	// Retry is true when an operator wants the node to try a plan again that it has given up.
	Retry bool `json:"retry,omitempty"`
	// Addresses are status.addresses of the Machine.
	Addresses []Address `json:"addresses,omitempty"`
	// Provisioned is true for machines of a node driver. Driver is what the driver recorded, nil until it has.
	Provisioned bool           `json:"provisioned,omitempty"`
	Driver      *render.Driver `json:"driver,omitempty"`
	// Health sums up what other controllers report about the Machine.
	Health Health `json:"health,omitzero"`
	// Reconciled is the planner's own condition on the Machine, zero when absent.
	Reconciled Condition `json:"reconciled,omitzero"`
	// ForceRemove is true when the machine may go before its etcd member is removed.
	ForceRemove bool `json:"forceRemove,omitempty"`
	// Marks are the planner's own notes on the Machine.
	Marks Marks `json:"marks,omitzero"`
	// Plan is the plan Secret, nil until the machine is registered.
	Plan *PlanSecret `json:"plan,omitempty"`
}

// Address is an address of a machine.
type Address struct {
	// Type is InternalIP, ExternalIP and so on, as Cluster API names them.
	Type    string `json:"type"`
	Address string `json:"address"`
}

// Health sums up the conditions that other controllers set on a Machine.
type Health struct {
	// Failing is true when a condition reports an error. NotReady is true while the Machine is on its way to Ready.
	Failing  bool `json:"failing,omitempty"`
	NotReady bool `json:"notReady,omitempty"`
	// Message says why, in one line.
	Message string `json:"message,omitempty"`
}

// Condition holds the compared fields of a condition.
type Condition struct {
	Status  corev1.ConditionStatus `json:"status,omitempty"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
}

// Marks are the planner's notes on a Machine; see the package comment.
type Marks struct {
	// InitNode is true for the machine that starts the cluster.
	InitNode bool `json:"initNode,omitempty"`
	// JoinURL is where others can join this server, empty until it can be joined.
	JoinURL string `json:"joinURL,omitempty"`
	// JoinedTo is the join URL in the last delivered plan, empty on the init node.
	JoinedTo string `json:"joinedTo,omitempty"`
	// RenderVersion is set before the first plan is delivered.
	RenderVersion string `json:"renderVersion,omitempty"`
	// Found is the evidence of the state in which a machine with a plan of another manager was adopted.
	Found string `json:"found,omitempty"`
	// AgentPin is the agent that the machine should run, see [render.AgentPin]. It is empty until an upgrade.
	AgentPin string `json:"agentPin,omitempty"`
	// Version is the Kubernetes version of the last delivered plan. It is spec.version of the Machine. Cluster API
	// compares it with the version of the node to see whether the machine is up to date. The templates of pools have no
	// version: for Cluster API, another version means another machine.
	Version string `json:"version,omitempty"`
}

// PlanSecret is a machine's plan Secret.
type PlanSecret struct {
	Name string `json:"name"`
	// JoinURL repeats the mark. It is compared to keep tools informed, and never trusted.
	JoinURL string `json:"joinURL,omitempty"`
	// JoinedTo repeats the mark. It is read once, when a machine of another manager is adopted.
	JoinedTo string `json:"joinedTo,omitempty"`
	// ProbesPassed is true when all probes of the delivered plan have passed at least once.
	ProbesPassed bool `json:"probesPassed,omitempty"`
	// InitNode repeats the mark as a label.
	InitNode bool `json:"initNode,omitempty"`
	// DeliveredAt is when the plan was last written, zero when that is not known.
	DeliveredAt time.Time `json:"deliveredAt,omitzero"`
	// Drain is the progress of the node's drain.
	Drain Drain `json:"drain,omitzero"`
	// Evidence says what the plan was rendered from. It was written with the plan. Only the causes in reports depend on
	// it.
	Evidence string `json:"evidence,omitempty"`
	// Malformed says which data key is unreadable, empty when all are readable.
	Malformed string `json:"malformed,omitempty"`
	// State is the decoded content.
	State nodeplan.State `json:"state,omitzero"`
	// AppliedSize and ReportSize are the bytes in the Secret that remain next to a new plan: the copy of the last
	// applied plan, and everything that the agent reports.
	AppliedSize int `json:"appliedSize,omitempty"`
	ReportSize  int `json:"reportSize,omitempty"`
}

// Drain holds the last requests of the planner and answers of the drainer. Both are DrainOptions as JSON with sorted
// keys.
type Drain struct {
	// Requested is what the planner requested. Done repeats it when the drain is done.
	Requested string `json:"requested,omitempty"`
	Done      string `json:"done,omitempty"`
	// Uncordon is set when the planner wants the drain to end. The drainer then removes all of these.
	Uncordon string `json:"uncordon,omitempty"`
	// Since is when the last of these was requested, zero when that is not known.
	Since time.Time `json:"since,omitzero"`
	// Error is why the drainer makes no progress.
	Error string `json:"error,omitempty"`
}

// Object is a Secret or ConfigMap that the configuration refers to.
type Object struct {
	// Kind is Secret or ConfigMap.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Type is the type of a Secret.
	Type        corev1.SecretType `json:"type,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Data is the data of a Secret, or data and binaryData of a ConfigMap.
	Data map[string][]byte `json:"data,omitempty"`
	// Denied says why the configuration may not use this Secret of another namespace. It is empty when it may.
	Denied string `json:"denied,omitempty"`
}
