package server

import (
	"errors"
	"sync"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/observe/metrics"
)

func (s *Server) registerMetrics() (err error) {
	if s.disruptions, err = metrics.NewDisruptions(s.opts.Registerer); err != nil {
		return err
	}
	if s.reconciles, err = metrics.NewReconciles(s.opts.Registerer); err != nil {
		return err
	}
	if s.agentUpdates, err = metrics.NewAgentUpdates(s.opts.Registerer); err != nil {
		return err
	}
	s.fleet, err = metrics.NewFleet(s.opts.Registerer, time.Now)
	return err
}

// observe connects metrics, Events and traces to the caches and changes of a term, until stop is called.
func (s *Server) observe(c *clients.Clients, events *announcer) (stop func(), err error) {
	watched := &watched{}
	forget := s.fleet.Lead(source(c, s.opts.InstanceID, s.opts.agentVersion()))
	stop = func() { watched.end(); forget() }
	machines := changes[*clusterv1.Machine]{
		added: events.machineCreated, updated: each(s.fleet.MachineChanged, events.machineChanged),
		removed: events.machineRemoved,
	}
	plans := changes[*corev1.Secret]{updated: each(s.fleet.PlanChanged, events.planChanged)}
	if traces := s.trace(events.lookup); traces != nil {
		removed := machines.removed
		machines.seen, machines.updated = traces.machineSeen, each(machines.updated, traces.machineChanged)
		machines.removed = func(machine *clusterv1.Machine) { removed(machine); traces.MachineRemoved(machine) }
		plans.updated = each(plans.updated, traces.planChanged)
	}
	err = errors.Join(
		on(watched, c.Provisioning.Cluster().Informer(),
			changes[*provv1.Cluster]{updated: each(s.fleet.ClusterChanged, events.clusterChanged)}),
		on(watched, c.RKE.RKEControlPlane().Informer(),
			changes[*rkev1.RKEControlPlane]{updated: each(s.fleet.ControlPlaneChanged, events.controlPlaneChanged)}),
		on(watched, c.Management.Cluster().Informer(),
			changes[*mgmtv3.Cluster]{updated: events.managementChanged}),
		on(watched, c.RKE.CustomMachine().Informer(),
			changes[*rkev1.CustomMachine]{updated: events.customMachineChanged}),
		on(watched, c.CAPI.Machine().Informer(), machines),
		on(watched, c.Core.Secret().Informer(), plans),
		on(watched, c.CAPI.MachineDeployment().Informer(),
			changes[*clusterv1.MachineDeployment]{updated: events.poolChanged}),
		on(watched, c.Management.NodeDriver().Informer(), changes[*mgmtv3.NodeDriver]{updated: events.driverChanged}),
		on(watched, c.Management.FleetWorkspace().Informer(),
			changes[*mgmtv3.FleetWorkspace]{updated: events.workspaceChanged}),
		on(watched, c.Management.ManagedChart().Informer(),
			changes[*mgmtv3.ManagedChart]{updated: events.managedChartChanged}),
	)
	if err != nil {
		stop()
		return nil, err
	}
	isMachine := clients.InGroup(clients.MachineGroup, "Template")
	c.Dynamic.OnInformer(func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
		if isMachine(gvk) {
			changed := each(s.fleet.InfrastructureChanged, events.infrastructureChanged)
			// The only error is a kind that is already deleted again.
			_ = on(watched, informer, changes[*unstructured.Unstructured]{updated: changed})
		}
	})
	return stop, nil
}

// each returns a listener that calls all listeners.
func each[T any](listeners ...func(before, after T)) func(before, after T) {
	return func(before, after T) {
		for _, listen := range listeners {
			listen(before, after)
		}
	}
}

func source(c *clients.Clients, instanceID, version string) metrics.Source {
	bootstraps := c.RKE.RKEBootstrap().Cache()
	return metrics.Source{
		InstanceID:    instanceID,
		AgentVersion:  version,
		Clusters:      all(c.Provisioning.Cluster().Cache()),
		ControlPlanes: all(c.RKE.RKEControlPlane().Cache()),
		CAPIClusters:  all(c.CAPI.Cluster().Cache()),
		Machines:      all(c.CAPI.Machine().Cache()),
		Snapshots:     all(c.RKE.ETCDSnapshot().Cache()),
		Cluster: func(namespace, name string) *provv1.Cluster {
			cluster, err := c.Provisioning.Cluster().Cache().Get(namespace, name)
			if err != nil {
				return nil
			}
			return cluster
		},
		Secret: func(namespace, name string) *corev1.Secret {
			secret, err := c.Core.Secret().Cache().Get(namespace, name)
			if err != nil {
				return nil
			}
			return secret
		},
		Annotations: func(namespace string, of clusterv1.ContractVersionedObjectReference) map[string]string {
			switch {
			case of.APIGroup == rkev1.SchemeGroupVersion.Group && of.Kind == "RKEBootstrap":
				return annotations(bootstraps.Get(namespace, of.Name))
			case of.APIGroup == clients.MachineGroup:
				return annotations(
					c.Dynamic.Get(schema.GroupVersionKind{Group: of.APIGroup, Version: driverschema.Version,
						Kind: of.Kind}, namespace, of.Name))
			}
			return nil // there are no caches of the hosts of other providers
		},
	}
}

// annotations returns the annotations of an object, or nil if it was not found.
func annotations(found metav1.Object, err error) map[string]string {
	if err != nil {
		return nil
	}
	return found.GetAnnotations()
}

func all[T generic.RuntimeMetaObject](of generic.CacheInterface[T]) func() ([]T, error) {
	return func() ([]T, error) { return of.List("", labels.Everything()) }
}

// watched holds the event handlers of a term, to remove them at its end. Caches may outlive a term.
type watched struct {
	mu      sync.Mutex
	ended   bool
	removes []func()
}

func (w *watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for _, remove := range w.removes {
		remove()
	}
	w.removes = nil
}

// object is the constraint for objects in caches.
type object interface {
	runtime.Object
	GetResourceVersion() string
}

var _ object = &unstructured.Unstructured{}

// changes are the listeners for the objects of a kind. Each may be nil.
type changes[T object] struct {
	// seen gets every object once, including those of the initial list.
	seen           func(T)
	added, removed func(T)
	updated        func(before, after T)
}

// on calls the listeners for every change. Objects of the initial list, and resyncs, are not changes.
func on[T object](w *watched, informer cache.SharedIndexInformer, tell changes[T]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil
	}
	registration, err := informer.AddEventHandler(tell.handler())
	if err != nil {
		return err
	}
	w.removes = append(w.removes, func() { _ = informer.RemoveEventHandler(registration) })
	return nil
}

func (tell changes[T]) handler() cache.ResourceEventHandlerDetailedFuncs {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(current any, isInInitialList bool) {
			added, ok := current.(T)
			if ok && tell.seen != nil {
				tell.seen(added)
			}
			if ok && !isInInitialList && tell.added != nil {
				tell.added(added)
			}
		},
		UpdateFunc: func(old, current any) {
			before, ok := old.(T)
			after, same := current.(T)
			if ok && same && before.GetResourceVersion() != after.GetResourceVersion() {
				tell.updated(before, after)
			}
		},
		DeleteFunc: func(last any) {
			if lost, ok := last.(cache.DeletedFinalStateUnknown); ok {
				last = lost.Obj
			}
			if removed, ok := last.(T); ok && tell.removed != nil {
				tell.removed(removed)
			}
		},
	}
}
