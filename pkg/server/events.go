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
	// component is the source of Events, in the column FROM of kubectl describe.
	component = "drover"
	// eventsPerSecond and eventsAtOnce bound the requests for Events, so that the controllers keep their share of the
	// API server. More Events wait in a queue of a thousand. Drover drops those that do not fit.
	eventsPerSecond, eventsAtOnce = 20, 100
	// sameAtOnce is how many Events with the same reason and object are recorded in a row. After that the limit is one
	// in five minutes.
	sameAtOnce = 10
	// remembered is the number of Events whose repetitions are counted. Each takes a kilobyte or more, in several
	// places.
	remembered = 1024
)

// announcer records changes as Events.
type announcer struct {
	record.EventRecorder
	lookup
	steps *steps
}

func newAnnouncer(recorder record.EventRecorder, in lookup) *announcer {
	a := &announcer{EventRecorder: recorder, lookup: in}
	a.steps = newSteps(a.record)
	return a
}

// announce creates the recorder of Events, which works until stop is called. It uses the API of core/v1, which kubectl
// describe and Cluster API use. Its recorder counts repetitions, combines similar Events and limits each object. The
// recorder of events.k8s.io does not. Recording neither blocks nor reports failures: Drover accepts the loss of an
// Event.
func (s *Server) announce(c *clients.Clients, in lookup) (a *announcer, stop func(), err error) {
	if s.opts.EventRecorder != nil {
		a = newAnnouncer(s.opts.EventRecorder, in)
		return a, a.steps.end, nil
	}
	config := rest.CopyConfig(c.Config)
	config.QPS, config.Burst = eventsPerSecond, eventsAtOnce
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("create the client for events: %w", err)
	}
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{BurstSize: sameAtOnce,
		SpamKeyFunc: sameKey, LRUCacheSize: remembered})
	broadcaster.StartRecordingToSink(
		&sink{EventSink: &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}})
	a = newAnnouncer(broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component}), in)
	return a, func() { a.steps.end(); broadcaster.Shutdown() }, nil
}

// sink writes Events to the API server.
type sink struct {
	record.EventSink
	written atomic.Uint64
}

// Create implements record.EventSink. It makes names unique. The recorder builds the name of an Event from the object's
// name and the time. Two objects with the same name, such as a Machine and its host, can get the same Event name, and
// the second Event would be lost. Create ignores the error for an Event in a namespace that is deleted.
func (s *sink) Create(event *corev1.Event) (*corev1.Event, error) {
	named := *event
	named.Name += fmt.Sprintf(".%x", s.written.Add(1))
	created, err := s.EventSink.Create(&named)
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return event, nil
	}
	return created, err
}

// sameKey gives every reason of an object its own limit, so that many deleted machines do not hide that the cluster is
// not ready.
func sameKey(event *corev1.Event) string {
	of := event.InvolvedObject
	return strings.Join([]string{of.Kind, of.Namespace, of.Name, string(of.UID), of.APIVersion, event.Reason}, "/")
}

// tell records Events, the steps of machines a little later.
func (a *announcer) tell(told []events.Event) {
	for _, event := range told {
		if event.Step != nil {
			a.steps.add(event)
			continue
		}
		a.record(event)
	}
}

func (a *announcer) record(event events.Event) {
	a.Event(&event.Object, event.Type, string(event.Reason), event.Message)
}

func (a *announcer) clusterChanged(before, after *provv1.Cluster) {
	if a.cluster(after.Namespace, after.Name) != nil {
		a.tell(events.ClusterChanged(before, after))
	}
}

func (a *announcer) managementChanged(before, after *mgmtv3.Cluster) {
	if after.Annotations[rkev1.InstanceAnnotation] == a.instanceID { // its Cluster may be gone
		a.tell(events.ManagementChanged(before, after))
	}
}

func (a *announcer) customMachineChanged(before, after *rkev1.CustomMachine) {
	if cluster := a.cluster(after.Namespace, after.Labels[clusterv1.ClusterNameLabel]); cluster != nil {
		a.tell(events.CustomMachineChanged(cluster, before, after))
	}
}

func (a *announcer) controlPlaneChanged(before, after *rkev1.RKEControlPlane) {
	if cluster := a.cluster(after.Namespace, after.Name); cluster != nil {
		a.tell(events.ControlPlaneChanged(cluster, before, after))
	}
}

func (a *announcer) machineCreated(machine *clusterv1.Machine) {
	if cluster := a.cluster(machine.Namespace, machine.Spec.ClusterName); cluster != nil {
		a.tell(events.MachineCreated(cluster, machine))
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
	machine := a.machineOf(after)
	if machine == nil {
		return
	}
	if cluster := a.cluster(machine.Namespace, machine.Spec.ClusterName); cluster != nil {
		a.tell(events.PlanChanged(cluster, machine, a.ticket(machine), before, after))
	}
}

func (a *announcer) poolChanged(before, after *clusterv1.MachineDeployment) {
	if cluster := a.cluster(after.Namespace, after.Spec.ClusterName); cluster != nil {
		a.tell(events.PoolChanged(cluster, before, after))
	}
}

func (a *announcer) infrastructureChanged(before, after *unstructured.Unstructured) {
	cluster := a.cluster(after.GetNamespace(), after.GetLabels()[clusterv1.ClusterNameLabel])
	if cluster != nil {
		a.tell(events.InfrastructureChanged(cluster, before, after))
	}
}

func (a *announcer) driverChanged(before, after *mgmtv3.NodeDriver) {
	a.tell(events.DriverChanged(before, after))
}

func (a *announcer) workspaceChanged(before, after *mgmtv3.FleetWorkspace) {
	a.tell(events.WorkspaceChanged(before, after))
}

func (a *announcer) managedChartChanged(before, after *mgmtv3.ManagedChart) {
	a.tell(events.ManagedChartChanged(before, after))
}
