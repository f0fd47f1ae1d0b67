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

// handlerName is persisted by hosts in metrics, do not change.
const handlerName = "node-driver"

// fetchTimeout ends a download that does not get on.
const fetchTimeout = 10 * time.Minute

// Deps are what the controller works with.
type Deps struct {
	NodeDrivers    mgmtcontrollers.NodeDriverController
	DynamicSchemas mgmtcontrollers.DynamicSchemaController
	// Directory is where drivers are kept between downloads; it is made when it is missing.
	Directory string
	// HTTP fetches drivers. Nil means a client with a deadline of ten minutes.
	HTTP *http.Client
	// Working ends as soon as nobody shall wait for a handler any more, before the context of Register does; nil means that one. Downloads and programs
	// that are asked end with it.
	Working context.Context // it is that of whoever stops the handlers
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	drivers mgmtcontrollers.NodeDriverCache
	schemas mgmtcontrollers.DynamicSchemaCache
	core    driverschema.Core
	// embedding is held while the lists of all drivers are written: every driver writes all of them.
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
	h := &handler{Deps: d, drivers: d.NodeDrivers.Cache(), schemas: d.DynamicSchemas.Cache(), core: core, embedding: &sync.Mutex{}}
	d.NodeDrivers.OnChange(ctx, handlerName, h.onChange)
	owner := wakeup.ByOwner[*mgmtv3.DynamicSchema](schema.GroupKind{Group: mgmtv3.SchemeGroupVersion.Group, Kind: "NodeDriver"})
	target := wakeup.ClusterScoped(d.NodeDrivers)
	if err := errors.Join(wakeup.On(ctx, target, owner, d.DynamicSchemas), wakeup.On(ctx, target, h.ofList, d.DynamicSchemas)); err != nil {
		return fmt.Errorf("watch schemas of drivers: %w", err)
	}
	return nil
}

// ofList wakes one driver when a list of all drivers is not what it was: each of them writes the lists.
func (h *handler) ofList(changed *mgmtv3.DynamicSchema) []wakeup.Key {
	if !driverschema.IsEmbedding(changed.Name) {
		return nil
	}
	drivers, err := h.drivers.List(labels.Everything())
	if err != nil || len(drivers) == 0 {
		return nil // a driver that comes writes the lists
	}
	first := slices.MinFunc(drivers, func(a, b *mgmtv3.NodeDriver) int { return cmp.Compare(a.Name, b.Name) })
	return []wakeup.Key{{Name: first.Name}}
}

func (h *handler) onChange(_ string, driver *mgmtv3.NodeDriver) (*mgmtv3.NodeDriver, error) {
	if driver == nil || driver.DeletionTimestamp != nil {
		return driver, h.embed() // its schemas go with it; the lists of all drivers do not
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
		return driver, err // it was not to end: whoever handles it next begins anew, and nothing is wrong with the driver
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
