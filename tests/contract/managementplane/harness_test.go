// Package managementplane_test tests the life of the embedded management plane with the real programs.
package managementplane_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/local/managementplane"
)

// kubeBinary returns the program that scripts/build-kube builds.
func kubeBinary(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DROVER_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, "drover-kube"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: scripts/build-kube builds it", err)
	}
	return path
}

func configIn(t *testing.T, dir string) managementplane.Config {
	t.Helper()
	log := logrus.New()
	log.SetOutput(t.Output())
	return managementplane.Config{Dir: dir, KubeBinary: kubeBinary(t), Log: log}
}

// start starts a plane that stops with the test.
func start(t *testing.T, config managementplane.Config) *managementplane.Plane {
	t.Helper()
	plane, err := managementplane.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := plane.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	return plane
}

func client(t *testing.T, plane *managementplane.Plane) *kubernetes.Clientset {
	t.Helper()
	config := plane.RESTConfig()
	config.QPS = -1
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}

// eventually waits for a condition. The condition's error describes the current state.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.After(90 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("not in time: %s: %v", what, err)
		case <-t.Context().Done():
			t.Fatalf("interrupted: %s: %v", what, err)
		case <-tick.C:
		}
	}
}
