package charts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// SystemNamespace is the namespace in which Drover is installed.
const SystemNamespace = "drover-system"

// Release is Helm's data about an installation.
type Release struct {
	// Name defaults to "drover" and Namespace to SystemNamespace.
	Name, Namespace string
	// Version, such as v1.2.3, replaces the version of the chart and of the program, like `helm package` does.
	Version string
}

func (r Release) complete() Release {
	if r.Name == "" {
		r.Name = "drover"
	}
	if r.Namespace == "" {
		r.Namespace = SystemNamespace
	}
	return r
}

// Templates renders the chart in a directory with values. It returns the text of every non-empty template by its path
// in the chart.
func Templates(dir string, release Release, values map[string]any) (map[string]string, error) {
	loaded, err := loader.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", dir, err)
	}
	if release.Version != "" {
		loaded.Metadata.Version, loaded.Metadata.AppVersion = strings.TrimPrefix(release.Version, "v"), release.Version
	}
	rendered, err := render(loaded, release.complete(), values)
	if err != nil {
		return nil, fmt.Errorf("render chart %s: %w", loaded.Name(), err)
	}
	out := map[string]string{}
	for path, text := range rendered {
		if strings.TrimSpace(text) != "" {
			out[strings.TrimPrefix(filepath.ToSlash(path), loaded.Name()+"/")] = text
		}
	}
	return out, nil
}

func render(loaded *chart.Chart, release Release, values map[string]any) (map[string]string, error) {
	options := common.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(loaded, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(loaded, all)
}

// Objects renders the chart in a directory with values and returns the objects, in the order of their templates' paths.
func Objects(dir string, release Release, values map[string]any) ([]*unstructured.Unstructured, error) {
	templates, err := Templates(dir, release, values)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, path := range slices.Sorted(maps.Keys(templates)) {
		if filepath.Ext(path) != ".yaml" {
			continue
		}
		objects, err := decode(templates[path])
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", path, err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

// decode reads the objects of a file. Duplicate keys are an error, because Helm would silently use the last one.
func decode(text string) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	var out []*unstructured.Unstructured
	for {
		document, err := decoder.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
}
