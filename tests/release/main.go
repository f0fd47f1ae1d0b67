package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

func main() {
	root := flag.String("root", "..", "directory of the repository")
	out := flag.String("out", "", "directory for the files; its content is replaced")
	tag := flag.String("version", "", "version of Drover, such as v1.2.3")
	flag.Parse()
	if err := write(*root, *out, *tag); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// metadata is the part of metadata.yaml that the program reads.
type metadata struct {
	ReleaseSeries []struct {
		Major uint `json:"major"`
		Minor uint `json:"minor"`
	} `json:"releaseSeries"`
}

// metadataFile is the name of the file that maps versions to Cluster API's contracts.
const metadataFile = "metadata.yaml"

// write writes the release. Files of an earlier release in the same directory are removed.
func write(root, out, tag string) error {
	if out == "" {
		return errors.New("-out is required")
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	contracts, err := os.ReadFile(filepath.Join(root, metadataFile))
	if err != nil {
		return err
	}
	if err := checkVersion(tag, contracts); err != nil {
		return err
	}
	all, err := components(root, tag)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	assets := filepath.Join(out, "assets")
	for i := range providers {
		p := &providers[i]
		text, err := marshal(all[p.Label])
		if err != nil {
			return fmt.Errorf("%s: %w", p.File, err)
		}
		for dir, files := range map[string]map[string][]byte{
			assets:                  {p.File: text, metadataFile: contracts},
			repository(out, tag, p): {p.File: text, metadataFile: contracts},
		} {
			if err := writeFiles(dir, files); err != nil {
				return err
			}
		}
	}
	return writeFiles(out, map[string][]byte{"clusterctl.yaml": configuration(out, tag)})
}

// checkVersion refuses a version that clusterctl cannot use: it must be semantic, and metadata.yaml must have its
// minor version.
func checkVersion(tag string, contracts []byte) error {
	parsed, err := version.ParseSemantic(tag)
	if err != nil || !strings.HasPrefix(tag, "v") {
		return fmt.Errorf("version %q must be a semantic version with v, such as v1.2.3", tag)
	}
	known := metadata{}
	if err := yaml.Unmarshal(contracts, &known); err != nil {
		return fmt.Errorf("%s: %w", metadataFile, err)
	}
	for _, series := range known.ReleaseSeries {
		if series.Major == parsed.Major() && series.Minor == parsed.Minor() {
			return nil
		}
	}
	return fmt.Errorf("%s has no entry for version %d.%d; add it with its contract of Cluster API",
		metadataFile, parsed.Major(), parsed.Minor())
}

func marshal(objects []*unstructured.Unstructured) ([]byte, error) {
	var out strings.Builder
	for i, object := range objects {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return []byte(out.String()), checkVariables(out.String())
}

// repository returns the directory of a provider in the local repository.
func repository(out, tag string, p *provider) string {
	return filepath.Join(out, "repository", p.Label, tag)
}

// configuration returns a configuration of clusterctl that uses the local repository.
func configuration(out, tag string) []byte {
	var text strings.Builder
	text.WriteString("# clusterctl init --config THIS-FILE installs Drover from the local repository.\nproviders:\n")
	for i := range providers {
		p := &providers[i]
		fmt.Fprintf(&text, "  - name: %s\n    type: %s\n    url: %s\n", name, p.Type,
			filepath.Join(repository(out, tag, p), p.File))
	}
	return []byte(text.String())
}

// Permissions of the output.
const (
	directoryMode = 0o755
	fileMode      = 0o644
)

func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, directoryMode); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, fileMode); err != nil {
			return err
		}
	}
	return nil
}
