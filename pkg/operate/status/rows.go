package status

import (
	"time"

	"github.com/drover-io/drover/pkg/decide/summary"
)

// State is the state of a cluster or a machine.
type State = summary.State

// The states, as package summary describes them.
const (
	Waiting   = summary.Waiting
	Ready     = summary.Ready
	Paused    = summary.Paused
	Failed    = summary.Failed
	Deleting  = summary.Deleting
	Creating  = summary.Creating
	Joining   = summary.Joining
	Running   = summary.Running
	Unhealthy = summary.Unhealthy
)

// Condition is a condition of an object. A condition that is as it should be has no reason and no message.
type Condition struct {
	Type string `json:"type"`
	// Status is True, False or Unknown.
	Status  string     `json:"status"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// Stage is a part of the time from creation to readiness.
type Stage struct {
	Name  string    `json:"name"`
	Begin time.Time `json:"begin"`
	// End is nil while the stage lasts.
	End *time.Time `json:"end,omitempty"`
}

// Pool is a machine pool in the spec of a cluster.
type Pool struct {
	Name string `json:"name"`
	// Roles are etcd, controlplane and worker.
	Roles []string `json:"roles"`
	// Wanted is the requested number of machines. Of a pool that an autoscaler or the user sizes, it is the lowest.
	Wanted int32 `json:"wanted"`
	// Scaled is true for a pool whose size is not in the spec.
	Scaled bool `json:"scaled,omitempty"`
	Paused bool `json:"paused,omitempty"`
}

// Cluster is the row of a provisioning.cattle.io Cluster.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// ID is the name of the management Cluster, such as c-m-abcdefgh.
	ID    string `json:"id,omitempty"`
	State State  `json:"state"`
	// Reason is the reason of the condition that decides the state, and Message what the cluster waits for. Both are
	// empty for a cluster that is Ready.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is the start of the state.
	Since *time.Time `json:"since,omitempty"`
	// Version is the requested Kubernetes version. It is empty for an imported cluster.
	Version string `json:"version,omitempty"`
	// Distribution is k3s or rke2, and empty for an imported cluster.
	Distribution string `json:"distribution,omitempty"`
	Imported     bool   `json:"imported,omitempty"`
	// Observed is the generation that the status belongs to. A Goal needs it.
	Observed int64 `json:"-"`
	// Pools are the requested pools. A cluster of existing hosts has none.
	Pools      []Pool      `json:"pools,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	// Stages run from creation to the first readiness: objects, until the objects of the cluster exist; bootstrap,
	// until its API answers; join, until all machines have their plans. A stage whose end is unknown is absent.
	Stages  []Stage   `json:"stages,omitempty"`
	Created time.Time `json:"created"`
}

// Machine is the row of a cluster.x-k8s.io Machine.
type Machine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Cluster   string `json:"cluster"`
	// Pool is empty for a machine on an existing host.
	Pool  string   `json:"pool,omitempty"`
	Roles []string `json:"roles,omitempty"`
	State State    `json:"state"`
	// Reason, Message and Since are those of the condition that decides the state. Reason and Message are empty for a
	// machine that is Running.
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	// Node is the name of the node; Version, OS and Runtime are what its kubelet reports.
	Node       string   `json:"node,omitempty"`
	Version    string   `json:"version,omitempty"`
	OS         string   `json:"os,omitempty"`
	Runtime    string   `json:"runtime,omitempty"`
	ProviderID string   `json:"providerID,omitempty"`
	Addresses  []string `json:"addresses,omitempty"`
	// Infrastructure is the kind of the infrastructure machine, and InfrastructureName its name.
	Infrastructure     string      `json:"infrastructure,omitempty"`
	InfrastructureName string      `json:"infrastructureName,omitempty"`
	Conditions         []Condition `json:"conditions,omitempty"`
	// Stages run from creation to the node: infrastructure, until the host exists; node, until the node is known.
	Stages  []Stage   `json:"stages,omitempty"`
	Created time.Time `json:"created"`
}
