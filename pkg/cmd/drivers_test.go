package cmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus/hooks/test"
)

// An upgraded server deletes the node drivers that an earlier version kept, and nothing else.
func TestRemoveDrivers(t *testing.T) {
	for name, files := range map[string][]string{
		"an earlier version kept drivers": {"machine-drivers/a/docker-machine-driver-a", "pki/ca.crt"},
		"no earlier version ran":          {"pki/ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			log, logged := test.NewNullLogger()
			removeDrivers(dir, log)
			left, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(left) != 1 || filepath.Base(left[0]) != "pki" || len(logged.AllEntries()) > 0 {
				t.Errorf("left %v, %v, %d lines are logged", left, err, len(logged.AllEntries()))
			}
		})
	}
}
