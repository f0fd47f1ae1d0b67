package nodedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// Hosts persist handlerName in metrics, do not change.
const handlerName = "node-driver"

// fetchTimeout ends a slow download.
const fetchTimeout = 10 * time.Minute

// Deps holds the controller's dependencies and settings.
type Deps struct {
	NodeDrivers    mgmtcontrollers.NodeDriverController
	DynamicSchemas mgmtcontrollers.DynamicSchemaController
	// Directory is where drivers are kept between downloads. The controller creates it if needed.
	Directory string
	// HTTP fetches drivers. Nil means a client with a deadline of ten minutes.
	HTTP *http.Client
	// Working ends downloads and running drivers. It ends before the context of Register, when the program stops
	// waiting for handlers. Nil means the context of Register.
	Working context.Context // the owner is the code that stops the handlers
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	drivers mgmtcontrollers.NodeDriverCache
	schemas mgmtcontrollers.DynamicSchemaCache
	core    driverschema.Core
	// embedding protects the lists of all drivers, because each driver writes all of them.
	embedding *sync.Mutex
}

// Register adds the handler and its wake-up. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.HTTP == nil {
		d.HTTP = &http.Client{Timeout: fetchTimeout}
	}
	if d.Working == nil {
		d.Working = ctx
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	core, err := driverschema.LoadCore()
	if err != nil {
		return err
	}
	h := &handler{Deps: d, drivers: d.NodeDrivers.Cache(), schemas: d.DynamicSchemas.Cache(), core: core,
		embedding: &sync.Mutex{}}
	d.NodeDrivers.OnChange(ctx, handlerName, h.onChange)
	owner := wakeup.ByOwner[*mgmtv3.DynamicSchema](schema.GroupKind{Group: mgmtv3.SchemeGroupVersion.Group,
		Kind: "NodeDriver"})
	target := wakeup.ClusterScoped(d.NodeDrivers)
	if err := errors.Join(wakeup.On(ctx, target, owner, d.DynamicSchemas),
		wakeup.On(ctx, target, h.ofList, d.DynamicSchemas)); err != nil {
		return fmt.Errorf("watch schemas of drivers: %w", err)
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
	if !driverschema.Wanted(driver) {
		updated, err := h.report(driver, result{})
		if err != nil {
			return driver, err
		}
		return updated, h.embed()
	}
	snapshot, err := h.gather(driver)
	if err != nil {
		return driver, err
	}
	res := h.install(snapshot)
	if err := h.Working.Err(); err != nil && res.failed != "" {
		return driver, err // the shutdown interrupted it: the driver is fine, and the next leader starts over
	}
	if res.failed == "" {
		if err := h.writeSchemas(snapshot, res); err != nil {
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
	return updated, res.retry
}
