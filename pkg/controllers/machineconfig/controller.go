package machineconfig

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/rival"
)

// handlerName is in metrics, do not change.
const handlerName = "machine-config-cleanup"

const (
	// unusedFor is the age at which an unused machine config is deleted.
	unusedFor = time.Hour
	// recheck is the time until a machine config is checked again.
	recheck = time.Hour
)

// Dynamic has the kinds of machine configs. clients.Dynamic implements it.
type Dynamic interface {
	OnChange(name string, matches func(schema.GroupVersionKind) bool, handler clients.DynamicHandler)
	EnqueueAfter(gvk schema.GroupVersionKind, namespace, name string, after time.Duration)
	DeleteUnchanged(ctx context.Context, obj *unstructured.Unstructured) error
}

// Deps holds the controller's dependencies.
type Deps struct {
	Dynamic  Dynamic
	Clusters provcontrollers.ClusterController
	Log      logrus.FieldLogger
	// Rival returns which other manager runs here, "" without one; see package rival. It has a cleanup of its own.
	Rival rival.Check
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	ctx context.Context // dynamic handlers get no context
}

// Register adds the handler for all kinds of machine configs. It ends with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Now == nil {
		d.Now = time.Now
	}
	h := &handler{Deps: d, ctx: ctx}
	d.Dynamic.OnChange(handlerName, func(gvk schema.GroupVersionKind) bool {
		return gvk.GroupVersion().String() == topology.MachineConfigVersion
	}, h.onChange)
	return nil
}

func (h *handler) onChange(gvk schema.GroupVersionKind, _ string, config *unstructured.Unstructured) error {
	if config == nil || !isCandidate(config) {
		return nil // an update or a new process brings it back
	}
	if left := config.GetCreationTimestamp().Add(unusedFor).Sub(h.Now()); left > 0 {
		h.Dynamic.EnqueueAfter(gvk, config.GetNamespace(), config.GetName(), left)
		return nil
	}
	keep, err := h.mustKeep(config)
	if err != nil {
		return err
	}
	if keep {
		h.Dynamic.EnqueueAfter(gvk, config.GetNamespace(), config.GetName(), recheck)
		return nil
	}
	err = h.Dynamic.DeleteUnchanged(h.ctx, config)
	if apierrors.IsConflict(err) {
		return nil // the event of the newer version requeues it
	}
	if err != nil {
		return fmt.Errorf("delete unused %s %s/%s: %w", gvk.Kind, config.GetNamespace(), config.GetName(), err)
	}
	h.Log.WithFields(logrus.Fields{"kind": gvk.Kind, "namespace": config.GetNamespace(), "name": config.GetName()}).
		Info("Deleted a machine config that no cluster uses")
	return nil
}

// isCandidate reports whether a machine config can be deleted once it is old and no Cluster names it.
func isCandidate(config *unstructured.Unstructured) bool {
	keep := config.GetAnnotations()[provv1.KeepMachineConfigAnnotation]
	return config.GetDeletionTimestamp() == nil && len(config.GetOwnerReferences()) == 0 &&
		(keep == "" || keep == "false")
}

// mustKeep reports whether a Cluster names the machine config, or another manager runs.
func (h *handler) mustKeep(config *unstructured.Unstructured) (bool, error) {
	if other, err := h.Rival.Running(h.ctx); err != nil || other != "" {
		return true, err
	}
	return h.isUsed(config)
}

// isUsed asks the API server whether a Cluster names the machine config.
func (h *handler) isUsed(config *unstructured.Unstructured) (bool, error) {
	clusters, err := h.Clusters.List(config.GetNamespace(), metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list clusters of %s: %w", config.GetNamespace(), err)
	}
	ref := topology.ConfigRef{APIVersion: config.GetAPIVersion(), Kind: config.GetKind(), Name: config.GetName()}
	return slices.ContainsFunc(clusters.Items, func(cluster provv1.Cluster) bool {
		return slices.Contains(topology.InfraKeys(&cluster), ref.IndexKey(config.GetNamespace()))
	}), nil
}
