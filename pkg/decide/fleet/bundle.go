package fleet

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// BundleDefinition is the CRD of Bundles.
const BundleDefinition = "bundles.fleet.cattle.io"

// nameLimit is the length of the longest name of a Helm release. Fleet's default for it is the name of the Bundle.
const nameLimit = 53

// MaxResources limits the files of a Bundle as they are stored, in bytes. An object in etcd has at most 1.5 MiB.
const MaxResources = 1280 << 10

// File is a file of a chart. Its name is relative to the chart.
type File struct {
	Name string
	Data []byte
}

// BundleName returns the name of the Bundle of a ManagedChart (docs/wire/managed-charts.md#bundle).
func BundleName(managedChart string) string {
	return naming.SafeConcatMax(nameLimit, "mcc", managedChart)
}

// BundleSpec returns the fields of a Bundle's spec that Drover writes, without the files. A field that the ManagedChart
// leaves empty is absent (docs/wire/managed-charts.md#bundle).
func BundleSpec(chart *mgmtv3.ManagedChartSpec) map[string]any {
	spec := map[string]any{"helm": compact(map[string]any{
		"releaseName": naming.Limit(chart.ReleaseName, nameLimit), "version": chart.Version,
		"timeoutSeconds": int64(chart.TimeoutSeconds), "values": object(chart.Values), "force": chart.Force,
		"takeOwnership": chart.TakeOwnership, "maxHistory": int64(chart.MaxHistory),
	})}
	maps.Copy(spec, compact(map[string]any{
		"defaultNamespace": chart.DefaultNamespace, "namespace": chart.TargetNamespace,
		"serviceAccount": chart.ServiceAccount, "diff": object(chart.Diff), "paused": chart.Paused,
		"rolloutStrategy": object(chart.RolloutStrategy), "targets": objects(chart.Targets),
	}))
	return spec
}

// specFields are the fields that BundleSpec may return. Other fields belong to Fleet and to users.
var specFields = []string{"helm", "defaultNamespace", "namespace", "serviceAccount", "diff", "paused",
	"rolloutStrategy", "targets"}

// SpecOf returns those fields of a stored Bundle that BundleSpec may return.
func SpecOf(bundle *unstructured.Unstructured) map[string]any {
	stored, _, _ := unstructured.NestedMap(bundle.Object, "spec")
	spec := map[string]any{}
	for _, field := range specFields {
		if value, ok := stored[field]; ok && value != nil {
			spec[field] = value
		}
	}
	return spec
}

// compact removes empty values.
func compact(fields map[string]any) map[string]any {
	for key, value := range fields {
		switch v := value.(type) {
		case string:
			if v == "" {
				delete(fields, key)
			}
		case int64:
			if v == 0 {
				delete(fields, key)
			}
		case bool:
			if !v {
				delete(fields, key)
			}
		case nil:
			delete(fields, key)
		}
	}
	return fields
}

// object returns a copy in the types of decoded JSON, or nil.
func object(of rkev1.GenericMap) any {
	if of.Data == nil {
		return nil
	}
	var out rkev1.GenericMap
	of.DeepCopyInto(&out)
	return out.Data
}

func objects(of []rkev1.GenericMap) any {
	if len(of) == 0 {
		return nil
	}
	out := make([]any, 0, len(of))
	for _, each := range of {
		out = append(out, object(each))
	}
	return out
}

// Resources returns the files as a Bundle stores them, sorted by name. Equal files give equal bytes. It fails if a
// Bundle cannot hold them.
func Resources(files []File) ([]any, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	resources := make([]any, 0, len(files))
	size := 0
	for _, file := range files {
		var packed bytes.Buffer
		zipped := gzip.NewWriter(&packed)
		if _, err := zipped.Write(file.Data); err != nil {
			return nil, fmt.Errorf("compress file %s of the chart: %w", file.Name, err)
		}
		if err := zipped.Close(); err != nil {
			return nil, fmt.Errorf("compress file %s of the chart: %w", file.Name, err)
		}
		content := base64.StdEncoding.EncodeToString(packed.Bytes())
		if size += len(file.Name) + len(content); size > MaxResources {
			return nil, fmt.Errorf("the files of the chart need more than %d KiB in a Bundle", MaxResources>>10)
		}
		resources = append(resources, map[string]any{"name": file.Name, "content": content, "encoding": "base64+gz"})
	}
	return resources, nil
}

// Checksum returns the checksum of the files of a Bundle.
func Checksum(resources any) string {
	text, err := json.Marshal(resources)
	if err != nil {
		return ""
	}
	return naming.SHA256(text)
}

// checksumField replaces spec.resources in a cached Bundle.
const checksumField = "resourcesChecksum"

// DropFiles replaces the files of a Bundle by their checksum. It is for caches.
func DropFiles(bundle *unstructured.Unstructured) {
	spec, ok := bundle.Object["spec"].(map[string]any)
	if !ok || spec["resources"] == nil {
		return
	}
	spec[checksumField] = Checksum(spec["resources"])
	delete(spec, "resources")
}

// ChecksumOf returns the checksum of the files of a cached Bundle.
func ChecksumOf(bundle *unstructured.Unstructured) string {
	sum, _, _ := unstructured.NestedString(bundle.Object, "spec", checksumField)
	return sum
}

// Origin is where the files of a Bundle are from. Annotation drover.io/chart has it as JSON.
type Origin struct {
	// Source is the checksum of the repository, the chart and the wanted version.
	Source string `json:"source"`
	// Version is the version of the chart.
	Version string `json:"version"`
	// Resources is the checksum of the files.
	Resources string `json:"resources"`
}

// SourceOf returns the checksum of the fields of a ManagedChart that select its files.
func SourceOf(chart *mgmtv3.ManagedChartSpec) string {
	return naming.SHA256(strings.Join([]string{chart.Repo, chart.Chart, chart.Version}, "\n"))
}

// OriginOf returns the origin in the annotation of a Bundle, and the zero value without a valid one.
func OriginOf(bundle *unstructured.Unstructured) Origin {
	var origin Origin
	if json.Unmarshal([]byte(bundle.GetAnnotations()[mgmtv3.ChartAnnotation]), &origin) != nil {
		return Origin{}
	}
	return origin
}

// String returns the origin as the annotation has it.
func (o Origin) String() string {
	text, err := json.Marshal(o)
	if err != nil {
		return ""
	}
	return string(text)
}
