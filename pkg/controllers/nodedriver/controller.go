package nodedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	batchcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/batch/v1"
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// Hosts persist handlerName in metrics, do not change.
const handlerName = "node-driver"

const (
	indexJobs = "node-driver-jobs-by-driver"
	indexPods = "node-driver-pods-by-job"
)

// Deps holds the controller's dependencies and settings.
type Deps struct {
	NodeDrivers    mgmtcontrollers.NodeDriverController
	DynamicSchemas mgmtcontrollers.DynamicSchemaController
	Jobs           batchcontrollers.JobController
	Pods           corecontrollers.PodController
	Secrets        corecontrollers.SecretController
	// Settings is called at every reconcile.
	Settings func() driverjob.Settings
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	drivers mgmtcontrollers.NodeDriverCache
	schemas mgmtcontrollers.DynamicSchemaCache
	jobs    batchcontrollers.JobCache
	pods    corecontrollers.PodCache
	core    driverschema.Core
	// embedding protects the lists of all drivers, because each driver writes all of them.
	embedding *sync.Mutex
}

// Register adds the handler, its indexes and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Now == nil {
		d.Now = time.Now
	}
	core, err := driverschema.LoadCore()
	if err != nil {
		return err
	}
	h := &handler{Deps: d, drivers: d.NodeDrivers.Cache(), schemas: d.DynamicSchemas.Cache(), jobs: d.Jobs.Cache(),
		pods: d.Pods.Cache(), core: core, embedding: &sync.Mutex{}}
	h.addIndexes()
	d.NodeDrivers.OnChange(ctx, handlerName, h.onChange)
	owner := wakeup.ByOwner[*mgmtv3.DynamicSchema](schema.GroupKind{Group: mgmtv3.SchemeGroupVersion.Group,
		Kind: "NodeDriver"})
	target := wakeup.ClusterScoped(d.NodeDrivers)
	if err := errors.Join(wakeup.On(ctx, target, owner, d.DynamicSchemas),
		wakeup.On(ctx, target, h.ofList, d.DynamicSchemas),
		wakeup.On(ctx, target, func(job *batchv1.Job) []wakeup.Key { return h.ofJob(job) }, d.Jobs),
		wakeup.On(ctx, target, func(pod *corev1.Pod) []wakeup.Key { return h.ofJob(pod) }, d.Pods),
	); err != nil {
		return fmt.Errorf("watch schemas and Jobs of drivers: %w", err)
	}
	return nil
}

// ofList wakes one driver when a list of all drivers changes, because each driver writes all lists.
func (h *handler) ofList(changed *mgmtv3.DynamicSchema) []wakeup.Key {
	if !driverschema.IsEmbedding(changed.Name) {
		return nil
	}
	drivers, err := h.drivers.List(labels.Everything())
	if err != nil || len(drivers) == 0 {
		return nil // the next driver writes the lists
	}
	first := slices.MinFunc(drivers, func(a, b *mgmtv3.NodeDriver) int { return cmp.Compare(a.Name, b.Name) })
	return []wakeup.Key{{Name: first.Name}}
}

func (h *handler) onChange(_ string, driver *mgmtv3.NodeDriver) (*mgmtv3.NodeDriver, error) {
	if driver == nil || driver.DeletionTimestamp != nil {
		return driver, h.embed() // the garbage collector deletes its schemas, but not its entries in the lists
	}
	var res result
	if driverschema.Wanted(driver) {
		var err error
		if res, err = h.settle(driver); err != nil {
			return driver, err
		}
	}
	updated, err := h.report(driver, res)
	if err != nil {
		return driver, err
	}
	if err := h.embed(); err != nil {
		return updated, err
	}
	if res.after > 0 {
		h.NodeDrivers.EnqueueAfter(driver.Name, res.after)
	}
	return updated, res.retry
}

// settle installs a driver as far as possible now, and writes its schemas once its fields are known.
func (h *handler) settle(driver *mgmtv3.NodeDriver) (result, error) {
	snapshot, err := h.gather(driver)
	if err != nil {
		return result{}, err
	}
	res, err := h.install(snapshot)
	if err != nil || res.fields == nil {
		return res, err
	}
	return res, h.writeSchemas(snapshot, res)
}
