package diagnose

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// World is the known state of a cluster and of what it depends on. An object that is nil does not exist, unless Unread
// says that it could not be read.
type World struct {
	// Now is the time by the API server's clock.
	Now time.Time
	// Namespace and Name of the Cluster.
	Namespace, Name string
	// Unread maps plural names of kinds to the reason why they could not be read.
	Unread map[string]string
	// MissingKinds are required kinds that are not served.
	MissingKinds []string
	// Webhooks are webhooks that do not answer although the API server must call them for Drover's objects.
	Webhooks []Webhook
	// Unasked are webhooks of Drover that the API server skips because it cannot call them.
	Unasked []Webhook
	// Lease is the leader election lease of the server's replicas.
	Lease *coordinationv1.Lease
	// Instances are the identities of the servers that have published their settings here.
	Instances []string
	// Leads is the instance of the replica that holds the Lease, or another hint at it. It is empty if the Lease does
	// not say.
	Leads string

	Cluster    *provv1.Cluster
	Management *mgmtv3.Cluster
	Core       *clusterv1.Cluster
	// Infrastructure is the RKECluster. It is not read if the Cluster has another infrastructureRef.
	Infrastructure *rkev1.RKECluster
	ControlPlane   *rkev1.RKEControlPlane
	// Decision is the planner's decision, nil without a control plane.
	Decision *planner.Explanation
	// Kubeconfig reports whether the Secret with the cluster's kubeconfig exists.
	Kubeconfig bool
	// ReachedByAgent is true if the cluster's agent is the only connection to the cluster.
	ReachedByAgent bool

	// Credentials are the Secrets that the Cluster and its pools name as cloud credentials.
	Credentials []Credential
	// MissingProviders are kinds of other infrastructure providers that the Cluster names and that are not served, as
	// KIND.GROUP.
	MissingProviders []string
	// Drivers are the node drivers of the pools.
	Drivers     []Driver
	Deployments []*clusterv1.MachineDeployment
	Sets        []*clusterv1.MachineSet
	// Machines of the cluster, sorted by name.
	Machines []Machine
	// Events are warnings about objects of the cluster.
	Events []Event
	// Secrets are values that a report must not contain.
	Secrets *redact.Secrets
}

// Webhook is a webhook that does not answer.
type Webhook struct {
	// Name is the kind and name of the webhook's configuration, followed by its own name.
	Name string
	// Problem says what is missing.
	Problem string
}

// Credential is a Secret that the cluster names.
type Credential struct {
	// Reference as the field has it, and the path of the field.
	Reference, Field string
	Exists           bool
}

// Driver is a node driver that a pool needs.
type Driver struct {
	// Name is the pool's name for the driver.
	Name string
	// Driver is nil if no driver has that name.
	Driver *mgmtv3.NodeDriver
	// MissingKinds are the kinds of the driver's machines that are not served.
	MissingKinds []string
}

// Machine is a machine with its parts.
type Machine struct {
	*clusterv1.Machine
	Bootstrap *rkev1.RKEBootstrap
	// Host is the infrastructure machine.
	Host *Host
	// Job is the newest Job of the host, with its pods.
	Job  *batchv1.Job
	Pods []*corev1.Pod
	// Known is the planner's knowledge about the machine, nil if the planner does not know it.
	Known *planner.Machine
	// Explained is the planner's explanation for the machine.
	Explained *planner.ExplainedMachine
	// TokenUsed is the last request of the machine's install script, zero if there was none.
	TokenUsed time.Time
}

// Host is an infrastructure machine.
type Host struct {
	metav1.ObjectMeta
	Kind string
	// Driven is true if a node driver creates the host.
	Driven     bool
	ProviderID string
	Status     rkev1.RKEMachineStatus
}

// Event is a warning.
type Event struct {
	// Kind and Name of the object.
	Kind, Name      string
	Reason, Message string
	Last            time.Time
}

// lastWarning returns the newest Event of an object, nil if there is none.
func (w *World) lastWarning(kind, name string) *Event {
	var newest *Event
	for i := range w.Events {
		e := &w.Events[i]
		if e.Kind != kind || e.Name != name {
			continue
		}
		if newest == nil || e.Last.After(newest.Last) {
			newest = e
		}
	}
	return newest
}

// deleting reports whether the cluster is being deleted.
func (w *World) deleting() bool { return w.Cluster != nil && w.Cluster.DeletionTimestamp != nil }
