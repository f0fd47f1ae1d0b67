package server

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/drover-io/drover/pkg/clients"
	"github.com/drover-io/drover/pkg/events"
	"github.com/drover-io/drover/pkg/metrics"
	"github.com/drover-io/drover/pkg/planstore"
	"github.com/drover-io/drover/pkg/wakeup"
)

const (
	// component is who says so, in the column FROM of kubectl describe.
	component = "drover"
	// eventsPerSecond and eventsAtOnce bound the requests for events: they never take the API server from the controllers. What comes
	// faster waits in a queue of a thousand, and then is dropped.
	eventsPerSecond, eventsAtOnce = 20, 100
	// sameAtOnce is how many events of one reason about one object are told in a row, before one in five minutes.
	sameAtOnce = 10
)

// announcer records what changes tell.
type announcer struct {
	record.EventRecorder
	source       metrics.Source
	machine      func(namespace, name string) *clusterv1.Machine
	controlPlane func(namespace, name string) *rkev1.RKEControlPlane
}

// announce makes what records events until stop is called. The API is that of core/v1: kubectl describe and Cluster API use it, and its
// recorder counts what repeats, combines what is alike and limits each object, which that of events.k8s.io does not. Recording waits for
// nothing and reports no failure: an event that is lost is lost.
func (s *Server) announce(c *clients.Clients, source metrics.Source) (a *announcer, stop func(), err error) {
	a = &announcer{EventRecorder: s.opts.EventRecorder, source: source}
	a.machine = func(namespace, name string) *clusterv1.Machine {
		return found(c.CAPI.Machine().Cache().Get(namespace, name))
	}
	a.controlPlane = func(namespace, name string) *rkev1.RKEControlPlane {
		return found(c.RKE.RKEControlPlane().Cache().Get(namespace, name))
	}
	if a.EventRecorder != nil {
		return a, func() {}, nil
	}
	config := rest.CopyConfig(c.Config)
	config.QPS, config.Burst = eventsPerSecond, eventsAtOnce
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make client of events: %w", err)
	}
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{BurstSize: sameAtOnce, SpamKeyFunc: sameKey})
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	a.EventRecorder = broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component})
	return a, broadcaster.Shutdown, nil
}

// sameKey limits what is said about an object for each reason apart: many machines that go do not hide that the cluster is not ready.
func sameKey(event *corev1.Event) string {
	of := event.InvolvedObject
	return strings.Join([]string{of.Kind, of.Namespace, of.Name, string(of.UID), of.APIVersion, event.Reason}, "/")
}

func found[T any](object *T, err error) *T {
	if err != nil {
		return nil
	}
	return object
}

// tell records events.
func (a *announcer) tell(told []events.Event) {
	for i := range told {
		a.Event(&told[i].Object, told[i].Type, string(told[i].Reason), told[i].Message)
	}
}

// cluster is the Cluster of that name if it is ours, else nil.
func (a *announcer) cluster(namespace, name string) *provv1.Cluster {
	cluster := a.source.Cluster(namespace, name)
	if cluster == nil || cluster.Annotations[rkev1.InstanceAnnotation] != a.source.InstanceID {
		return nil
	}
	return cluster
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

// planChanged finds the machine of a plan by its name on the Secret, and believes it if that machine has this plan.
func (a *announcer) planChanged(before, after *corev1.Secret) {
	if after.Type != rkev1.SecretTypeMachinePlan {
		return
	}
	machine := a.machine(after.Namespace, after.Labels[rkev1.MachineNameLabel])
	if machine == nil || !slices.Contains(planstore.WakePlanSecret(machine), wakeup.Key{Namespace: after.Namespace, Name: after.Name}) ||
		a.cluster(machine.Namespace, machine.Spec.ClusterName) == nil {
		return
	}
	var ticket *rkev1.DisruptionTicket
	if controlPlane := a.controlPlane(machine.Namespace, machine.Spec.ClusterName); controlPlane != nil {
		ticket = controlPlane.Status.Ticket
	}
	a.tell(events.PlanChanged(machine, ticket, before, after))
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
