package stage

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/drover-io/drover/pkg/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
)

// Main is what TestMain of a package with stories calls: it builds the driver, starts a plane without a Job controller,
// because Jobs are ended by the simulated machines, runs the tests and returns the exit code.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "drover-driver-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := buildDriver(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, "stage: build the simulated driver:", err)
		return 1
	}
	return plane.Main(m, plane.Options{
		Components: []string{managementplane.ControllerManager},
		Controllers: []string{
			"garbage-collector-controller", "namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
			"root-ca-certificate-publisher-controller",
		},
		WithoutCRDs: true,
	})
}
