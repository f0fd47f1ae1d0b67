package stage

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/local/managementplane/pki"
	"github.com/drover-io/drover/tests/contract/plane"
)

// Main is for TestMain of a package with stories. It builds the driver, starts a plane, runs the tests and returns the
// exit code. The plane has no Job controller, because the simulated machines complete Jobs. Edits may change the
// options of the plane.
func Main(m *testing.M, edits ...func(*plane.Options)) int {
	dir, err := os.MkdirTemp("", "drover-driver-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if vendor, err = pki.OpenAuthority(dir, "vendor", time.Now); err != nil {
		fmt.Fprintln(os.Stderr, "stage: make the authority of the driver's vendor:", err)
		return 1
	}
	if err := buildDriver(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, "stage: build the simulated driver:", err)
		return 1
	}
	opts := plane.Options{
		Components: []string{managementplane.ControllerManager},
		Controllers: []string{
			"garbage-collector-controller", "namespace-controller", "serviceaccount-controller",
			"serviceaccount-token-controller",
			"root-ca-certificate-publisher-controller",
		},
		WithoutCRDs: true,
	}
	for _, edit := range edits {
		edit(&opts)
	}
	return plane.Main(m, opts)
}
