package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const (
	// contractVersion is the only version of Cluster API's kinds that is kept. With a single version, no conversion and
	// no conversion webhook are necessary.
	contractVersion = "v1beta2"
	// capiCRDs is the directory of the core's CRDs in Cluster API's module.
	capiCRDs = "core/config/crd/bases"
)

// keepVersion returns the version to keep: the contract's version if the kind has it, or else the stored version.
func keepVersion(versions []any) string {
	var storage string
	for _, version := range versions {
		fields, _ := version.(map[string]any)
		name, _ := fields["name"].(string)
		if name == contractVersion {
			return name
		}
		if stored, _ := fields["storage"].(bool); stored {
			storage = name
		}
	}
	return storage
}

// writeCAPICRDs reads the CRDs of Cluster API's core from its module, reduces them to one version, and writes them to
// target with the module's license.
func writeCAPICRDs(module, target string) error {
	files, err := filepath.Glob(filepath.Join(module, capiCRDs, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRDs in %s", filepath.Join(module, capiCRDs))
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		reduced, err := reduceCRD(source)
		if err != nil {
			return fmt.Errorf("reduce %s: %w", filepath.Base(file), err)
		}
		if err := os.WriteFile(filepath.Join(target, filepath.Base(file)), reduced, 0o644); err != nil {
			return err
		}
	}
	licence, err := os.ReadFile(filepath.Join(module, "LICENSE"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(target, "LICENSE"), licence, 0o644)
}

// reduceCRD keeps one version of a CRD, served and stored, and drops the conversion webhook.
func reduceCRD(source []byte) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(source, &crd); err != nil {
		return nil, err
	}
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	keep := keepVersion(versions)
	var kept []any
	for _, version := range versions {
		fields, _ := version.(map[string]any)
		if fields["name"] == keep {
			fields["served"], fields["storage"] = true, true
			kept = append(kept, fields)
		}
	}
	if len(kept) != 1 {
		return nil, fmt.Errorf("want one version to keep, got %d", len(kept))
	}
	spec["versions"] = kept
	delete(spec, "conversion")
	delete(crd, "status")
	metadata, _ := crd["metadata"].(map[string]any)
	delete(metadata, "creationTimestamp")
	labels, _ := metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	labels["cluster.x-k8s.io/provider"] = "cluster-api"
	metadata["labels"] = labels
	out, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	header := []byte(
		"# Cluster API, Copyright The Kubernetes Authors, Apache-2.0: see LICENSE. Written by scripts/generate; do " +
			"not edit.\n")
	return bytes.Join([][]byte{header, out}, nil), nil
}
