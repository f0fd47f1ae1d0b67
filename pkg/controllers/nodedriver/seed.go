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
func Seed(client SeedClient, arch string) error { //nolint:gocyclo // each request can fail
	for _, seed := range driverschema.Seeds() {
		existing, err := client.Get(seed.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = client.Create(seed)
			if err == nil || apierrors.IsAlreadyExists(err) {
				continue
			}
			return fmt.Errorf("create NodeDriver %s: %w", seed.Name, err)
		}
		if err != nil {
			return fmt.Errorf("read NodeDriver %s: %w", seed.Name, err)
		}
		next, changed := driverschema.Reseed(existing, seed)
		if !changed {
			continue
		}
		if _, err := client.Update(next); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("write NodeDriver %s: %w", seed.Name, err)
		}
	}
	for _, seed := range driverschema.VendorSeeds(arch) {
		_, err := client.Get(seed.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = client.Create(seed)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create NodeDriver %s: %w", seed.Name, err)
		}
	}
	return nil
}
