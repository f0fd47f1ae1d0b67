package server

import (
	"errors"
	"sync"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/clients"
	"github.com/drover-io/drover/pkg/metrics"
)

func (s *Server) registerMetrics() (err error) {
	if s.disruptions, err = metrics.NewDisruptions(s.opts.Registerer); err != nil {
		return err
	}
	if s.reconciles, err = metrics.NewReconciles(s.opts.Registerer); err != nil {
		return err
	}
	s.fleet, err = metrics.NewFleet(s.opts.Registerer, time.Now)
	return err
}

// observe lets the metrics read the caches of a term, and tells them what changes there, until stop is called.
func (s *Server) observe(c *clients.Clients) (stop func(), err error) {
	watched := &watched{}
	forget := s.fleet.Lead(source(c, s.opts.InstanceID))
	stop = func() { watched.end(); forget() }
	err = errors.Join(
		on(watched, c.Provisioning.Cluster().Informer(), s.fleet.ClusterChanged),
		on(watched, c.RKE.RKEControlPlane().Informer(), s.fleet.ControlPlaneChanged),
		on(watched, c.CAPI.Machine().Informer(), s.fleet.MachineChanged),
		on(watched, c.Core.Secret().Informer(), s.fleet.PlanChanged),
	)
	if err != nil {
		stop()
		return nil, err
	}
	isMachine := clients.InGroup(clients.MachineGroup, "Template")
	c.Dynamic.OnInformer(func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
		if isMachine(gvk) {
			_ = on(watched, informer, s.fleet.InfrastructureChanged) // a kind that goes again at once is nobody's loss
		}
	})
	return stop, nil
}

func source(c *clients.Clients, instanceID string) metrics.Source {
	return metrics.Source{
		InstanceID:    instanceID,
		Clusters:      all(c.Provisioning.Cluster().Cache()),
		ControlPlanes: all(c.RKE.RKEControlPlane().Cache()),
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
	}
}

func all[T generic.RuntimeMetaObject](of generic.CacheInterface[T]) func() ([]T, error) {
	return func() ([]T, error) { return of.List("", labels.Everything()) }
}

// watched are the event handlers of a term. Caches may live longer than a term.
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

// object is what caches hold.
type object interface {
	runtime.Object
	GetResourceVersion() string
}

var _ object = &unstructured.Unstructured{}

// on calls f for every change. What a cache holds when it is filled, and what it repeats, is no change.
func on[T object](w *watched, informer cache.SharedIndexInformer, f func(before, after T)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, current any) {
		before, ok := old.(T)
		after, same := current.(T)
		if ok && same && before.GetResourceVersion() != after.GetResourceVersion() {
			f(before, after)
		}
	}})
	if err != nil {
		return err
	}
	w.removes = append(w.removes, func() { _ = informer.RemoveEventHandler(registration) })
	return nil
}
