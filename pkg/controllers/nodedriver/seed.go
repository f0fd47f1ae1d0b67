package nodedriver

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
)

// SeedClient creates and updates NodeDrivers; the generated client implements it.
type SeedClient interface {
	Create(*mgmtv3.NodeDriver) (*mgmtv3.NodeDriver, error)
	Update(*mgmtv3.NodeDriver) (*mgmtv3.NodeDriver, error)
	Get(name string, options metav1.GetOptions) (*mgmtv3.NodeDriver, error)
}

// Seed creates the NodeDrivers that are compiled into rancher-machine and restores their definitions. It keeps whether
// a driver is active. It also creates those of vendors, for the architecture of the server. It never changes these,
// because an administrator may use another version. The server calls it at every start, before the controllers.
func Seed(client SeedClient, arch string) error {
	for _, seed := range driverschema.Seeds() {
		if err := restore(client, seed); err != nil {
			return err
		}
	}
	for _, seed := range driverschema.VendorSeeds(arch) {
		if _, err := find(client, seed); err != nil {
			return err
		}
	}
	return nil
}

// restore creates a NodeDriver, or restores its definition.
func restore(client SeedClient, seed *mgmtv3.NodeDriver) error {
	existing, err := find(client, seed)
	if err != nil || existing == nil {
		return err
	}
	next, changed := driverschema.Reseed(existing, seed)
	if !changed {
		return nil
	}
	if _, err := client.Update(next); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("write NodeDriver %s: %w", seed.Name, err)
	}
	return nil
}

// find returns the NodeDriver of a seed. It creates a missing one, and returns nil then.
func find(client SeedClient, seed *mgmtv3.NodeDriver) (*mgmtv3.NodeDriver, error) {
	existing, err := client.Get(seed.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if _, err := client.Create(seed); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create NodeDriver %s: %w", seed.Name, err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read NodeDriver %s: %w", seed.Name, err)
	}
	return existing, nil
}
