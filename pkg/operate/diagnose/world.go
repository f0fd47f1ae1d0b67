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

// World is everything that is known of a cluster and of what makes it work. What is nil does not exist, unless Unread says that it could not be read.
type World struct {
	// Now is the time by the clock of the API server.
	Now time.Time
	// Namespace and Name of the Cluster.
	Namespace, Name string
	// Unread says why kinds of objects could not be read, by their names in the plural.
	Unread map[string]string
	// MissingKinds are kinds that have to be served and are not.
	MissingKinds []string
	// Webhooks are those that the API server has to ask about objects of ours, and gets no answer from.
	Webhooks []Webhook
	// Unasked are webhooks of Drover's own that the API server does without, because it cannot ask them.
	Unasked []Webhook
	// Lease is the one for which replicas of the server compete.
	Lease *coordinationv1.Lease
	// Instances are the servers that have published their settings here, by identity.
	Instances []string
	// Leads is the instance whose replica holds the Lease, or what else is known of it; empty when the Lease does not say.
	Leads string

	Cluster    *provv1.Cluster
	Management *mgmtv3.Cluster
	Core       *clusterv1.Cluster
	// Infrastructure is the RKECluster. It is not asked for when the Cluster brings other infrastructure.
	Infrastructure *rkev1.RKECluster
	ControlPlane   *rkev1.RKEControlPlane
	// Decision is what the planner makes of the cluster, nil while there is no control plane.
	Decision *planner.Explanation
	// Kubeconfig tells whether the Secret with the kubeconfig of the cluster is there.
	Kubeconfig bool
	// ReachedByAgent is true for a cluster to which only its agent leads.
	ReachedByAgent bool

	// Credentials are the Secrets that the Cluster and its pools refer to as credentials of clouds.
	Credentials []Credential
	// Drivers are those that its pools need.
	Drivers     []Driver
	Deployments []*clusterv1.MachineDeployment
	Sets        []*clusterv1.MachineSet
	// Machines are those of the cluster, sorted by name.
	Machines []Machine
	// Events are warnings of objects of the cluster.
	Events []Event
	// Secrets are values that nothing that is told may hold.
	Secrets *redact.Secrets
}

// Webhook is one that does not answer.
type Webhook struct {
	// Name is the kind and name of its configuration, and its own.
	Name string
	// Problem says what is missing.
	Problem string
}

// Credential is a Secret that is referred to.
type Credential struct {
	// Reference as the field has it, and the field.
	Reference, Field string
	Exists           bool
}

// Driver is a node driver that is needed.
type Driver struct {
	// Name by which pools ask for it.
	Name string
	// Driver is nil when there is none of that name.
	Driver *mgmtv3.NodeDriver
	// Kinds are those of its machines that are not served.
	MissingKinds []string
}

// Machine is a machine with its parts.
type Machine struct {
	*clusterv1.Machine
	Bootstrap *rkev1.RKEBootstrap
	// Host is the infrastructure machine.
	Host *Host
	// Job is the newest one of the host, with its pods.
	Job  *batchv1.Job
	Pods []*corev1.Pod
	// Known is what the planner knows of the machine, nil when it does not know it.
	Known *planner.Machine
	// Explained is what the planner says about it.
	Explained *planner.ExplainedMachine
	// TokenUsed is when the machine's install script has asked for something last, zero when it has not.
	TokenUsed time.Time
}

// Host is an infrastructure machine.
type Host struct {
	metav1.ObjectMeta
	Kind string
	// Driven is true when a node driver makes it.
	Driven     bool
	ProviderID string
	Status     rkev1.RKEMachineStatus
}

// Event is a warning.
type Event struct {
	// Kind and Name of the object it is about.
	Kind, Name      string
	Reason, Message string
	Last            time.Time
}

// lastWarning is the newest Event of an object, nil when there is none.
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

// deleting reports that the cluster is being removed.
func (w *World) deleting() bool { return w.Cluster != nil && w.Cluster.DeletionTimestamp != nil }
