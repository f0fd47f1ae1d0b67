package server

import (
	"fmt"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/observe/events"
)

const (
	// component is who says so, in the column FROM of kubectl describe.
	component = "drover"
	// eventsPerSecond and eventsAtOnce bound the requests for events: they never take the API server from the controllers. What comes
	// faster waits in a queue of a thousand, and then is dropped.
	eventsPerSecond, eventsAtOnce = 20, 100
	// sameAtOnce is how many events of one reason about one object are told in a row, before one in five minutes.
	sameAtOnce = 10
	// remembered is of how many events it is known whether they come again: each takes a kilobyte or more, in several places.
	remembered = 1024
)

// announcer records what changes tell.
type announcer struct {
	record.EventRecorder
	lookup
}

// announce makes what records events until stop is called. The API is that of core/v1: kubectl describe and Cluster API use it, and its
// recorder counts what repeats, combines what is alike and limits each object, which that of events.k8s.io does not. Recording waits for
// nothing and reports no failure: an event that is lost is lost.
func (s *Server) announce(c *clients.Clients, in lookup) (a *announcer, stop func(), err error) {
	if s.opts.EventRecorder != nil {
		return &announcer{s.opts.EventRecorder, in}, func() {}, nil
	}
	config := rest.CopyConfig(c.Config)
	config.QPS, config.Burst = eventsPerSecond, eventsAtOnce
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make client of events: %w", err)
	}
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{BurstSize: sameAtOnce, SpamKeyFunc: sameKey, LRUCacheSize: remembered})
	broadcaster.StartRecordingToSink(&sink{EventSink: &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}})
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component})
	return &announcer{recorder, in}, broadcaster.Shutdown, nil
}

// sink writes events.
type sink struct {
	record.EventSink
	written atomic.Uint64
}

// Create implements record.EventSink. The recorder names an event by the name of its object and the time: that of two objects of one name, such
// as a Machine and its host, is one name at one moment, and the second event would be lost. Events of a namespace that goes, or is gone, are
// no loss and no error.
func (s *sink) Create(event *corev1.Event) (*corev1.Event, error) {
	named := *event
	named.Name += fmt.Sprintf(".%x", s.written.Add(1))
	created, err := s.EventSink.Create(&named)
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return event, nil
	}
	return created, err
}

// sameKey limits what is said about an object for each reason apart: many machines that go do not hide that the cluster is not ready.
func sameKey(event *corev1.Event) string {
	of := event.InvolvedObject
	return strings.Join([]string{of.Kind, of.Namespace, of.Name, string(of.UID), of.APIVersion, event.Reason}, "/")
}

// tell records events.
func (a *announcer) tell(told []events.Event) {
	for i := range told {
		a.Event(&told[i].Object, told[i].Type, string(told[i].Reason), told[i].Message)
	}
}

func (a *announcer) clusterChanged(before, after *provv1.Cluster) {
	if a.cluster(after.Namespace, after.Name) != nil {
		a.tell(events.ClusterChanged(before, after))
	}
}

func (a *announcer) controlPlaneChanged(before, after *rkev1.RKEControlPlane) {
	if cluster := a.cluster(after.Namespace, after.Name); cluster != nil {
		a.tell(events.ControlPlaneChanged(cluster, before, after))
	}
}

func (a *announcer) machineCreated(machine *clusterv1.Machine) {
	if a.cluster(machine.Namespace, machine.Spec.ClusterName) != nil {
		a.tell(events.MachineCreated(machine))
	}
}

func (a *announcer) machineChanged(before, after *clusterv1.Machine) {
	if cluster := a.cluster(after.Namespace, after.Spec.ClusterName); cluster != nil {
		a.tell(events.MachineChanged(cluster, before, after))
	}
}

func (a *announcer) machineRemoved(machine *clusterv1.Machine) {
	if cluster := a.cluster(machine.Namespace, machine.Spec.ClusterName); cluster != nil {
		a.tell(events.MachineRemoved(cluster, machine))
	}
}

func (a *announcer) planChanged(before, after *corev1.Secret) {
	if machine := a.machineOf(after); machine != nil {
		a.tell(events.PlanChanged(machine, a.ticket(machine), before, after))
	}
}

func (a *announcer) poolChanged(before, after *clusterv1.MachineDeployment) {
	if cluster := a.cluster(after.Namespace, after.Spec.ClusterName); cluster != nil {
		a.tell(events.PoolChanged(cluster, before, after))
	}
}

func (a *announcer) infrastructureChanged(before, after *unstructured.Unstructured) {
	if a.cluster(after.GetNamespace(), after.GetLabels()[clusterv1.ClusterNameLabel]) != nil {
		a.tell(events.InfrastructureChanged(before, after))
	}
}

func (a *announcer) driverChanged(before, after *mgmtv3.NodeDriver) {
	a.tell(events.DriverChanged(before, after))
}
