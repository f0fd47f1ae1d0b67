package nodedriver

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/decide/driverschema"
)

// snapshot holds the facts about one driver.
type snapshot struct {
	driver *mgmtv3.NodeDriver
	// name is the base of the names of kinds.
	name string
	// schema is the schema of the driver's configuration, nil if it does not exist.
	schema   *mgmtv3.DynamicSchema
	settings driverjob.Settings
}

func (h *handler) gather(driver *mgmtv3.NodeDriver) (snapshot, error) {
	s := snapshot{driver: driver, name: driverschema.DisplayName(driver), settings: h.Settings()}
	schema, err := h.schema(driverschema.ConfigSchema(s.name))
	s.schema = schema
	return s, err
}

// schema returns a schema from the cache, nil if it does not exist.
func (h *handler) schema(name string) (*mgmtv3.DynamicSchema, error) {
	schema, err := h.schemas.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read schema %s: %w", name, err)
	}
	return schema, nil
}

// embedded returns the content of the lists of all drivers: the schema of each field.
func (h *handler) embedded() (configs, credentials map[string]string, err error) {
	drivers, err := h.drivers.List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("list drivers: %w", err)
	}
	configs, credentials = map[string]string{}, map[string]string{}
	for _, driver := range drivers {
		name := driverschema.DisplayName(driver)
		if driverschema.ValidName(name) != nil || driver.DeletionTimestamp != nil {
			continue
		}
		if schema, err := h.schema(driverschema.ConfigSchema(name)); err != nil {
			return nil, nil, err
		} else if schema != nil && driver.Spec.Active {
			configs[driverschema.ConfigField(name)] = driverschema.ConfigSchema(name)
		}
		if schema, err := h.schema(driverschema.CredentialSchema(name)); err != nil {
			return nil, nil, err
		} else if schema != nil && driverschema.Wanted(driver) {
			credentials[driverschema.CredentialField(name)] = driverschema.CredentialSchema(name)
		}
	}
	return configs, credentials, nil
}
