package fleet

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestBundleName_IsShortened(t *testing.T) {
	for name, want := range map[string]string{
		"web": "mcc-web",
		"demo-managed-system-upgrade-controller-with-a-long-name": "mcc-demo-managed-system-upgrade-controller-with-" +
			"2cf52",
	} {
		if got := BundleName(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestBundleSpec_HasTheFieldsOfTheManagedChart(t *testing.T) {
	var full mgmtv3.ManagedChartSpec
	must(t, json.Unmarshal([]byte(`{"paused": true, "chart": "web", "repo": "https://a", "repoName": "b",
		"releaseName": "a-release-with-a-name-that-is-longer-than-fifty-three-letters", "version": "1.2.3",
		"timeoutSeconds": 60, "values": {"a": null, "b": [1, 2.5, "c"]}, "force": true, "takeOwnership": true,
		"maxHistory": 3, "defaultNamespace": "d", "namespace": "n", "serviceAccount": "s",
		"diff": {"comparePatches": []},
		"rolloutStrategy": {"maxNew": 5}, "targets": [{"clusterSelector": {}}, {"clusterName": "x"}]}`), &full))
	for name, test := range map[string]struct {
		spec mgmtv3.ManagedChartSpec
		want string
	}{
		"empty": {want: `{"helm":{}}`},
		"empty values": {spec: mgmtv3.ManagedChartSpec{Values: rkev1.GenericMap{Data: map[string]any{}}},
			want: `{"helm":{"values":{}}}`},
		"full": {spec: full, want: `{"defaultNamespace":"d","diff":{"comparePatches":[]},"helm":{"force":true,` +
			`"maxHistory":3,"releaseName":"a-release-with-a-name-that-is-longer-than-fifty-31bf9",` +
			`"takeOwnership":true,"timeoutSeconds":60,"values":{"a":null,"b":[1,2.5,"c"]},"version":"1.2.3"},` +
			`"namespace":"n","paused":true,"rolloutStrategy":{"maxNew":5},"serviceAccount":"s",` +
			`"targets":[{"clusterSelector":{}},{"clusterName":"x"}]}`},
	} {
		got, err := json.Marshal(BundleSpec(&test.spec))
		must(t, err)
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		stored := &unstructured.Unstructured{Object: map[string]any{"spec": BundleSpec(&test.spec)}}
		if diff := cmp.Diff(BundleSpec(&test.spec), SpecOf(stored)); diff != "" {
			t.Errorf("%s is read in another way (-want +got):\n%s", name, diff)
		}
	}
}

func TestResources_AreSortedAndEqual(t *testing.T) {
	files := []File{{Name: "templates/a.yaml", Data: []byte("kind: ConfigMap")}, {Name: "Chart.yaml", Data: nil}}
	first, err := Resources(files)
	must(t, err)
	second, err := Resources([]File{files[1], files[0]})
	must(t, err)
	if diff := cmp.Diff(first, second); diff != "" || Checksum(first) != Checksum(second) {
		t.Errorf("another order gives other files:\n%s", diff)
	}
	resource, ok := first[1].(map[string]any)
	if !ok || resource["name"] != "templates/a.yaml" || resource["encoding"] != "base64+gz" {
		t.Fatalf("files %v", first)
	}
	content, _ := resource["content"].(string)
	packed, err := base64.StdEncoding.DecodeString(content)
	must(t, err)
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	if text, err := io.ReadAll(unzipped); err != nil || string(text) != "kind: ConfigMap" {
		t.Errorf("the file has %q, %v", text, err)
	}
	noise := make([]byte, MaxResources)
	_, _ = rand.Read(noise)
	if _, err := Resources([]File{{Name: "noise", Data: noise}}); err == nil {
		t.Error("files that no Bundle can hold are accepted")
	}
}

// A cache keeps a checksum in place of the files, and it is that of the files as they were written.
func TestDropFiles_KeepsTheChecksum(t *testing.T) {
	resources, err := Resources([]File{{Name: "a", Data: []byte("a")}})
	must(t, err)
	bundle := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"resources": resources,
		"paused": true}}}
	DropFiles(bundle)
	if ChecksumOf(bundle) != Checksum(resources) || SpecOf(bundle)["paused"] != true {
		t.Errorf("the cached Bundle is %v", bundle.Object)
	}
	if _, ok := bundle.Object["spec"].(map[string]any)["resources"]; ok {
		t.Error("the cache keeps the files")
	}
	DropFiles(bundle)
	if ChecksumOf(bundle) != Checksum(resources) {
		t.Error("to do it twice loses the checksum")
	}
	DropFiles(&unstructured.Unstructured{Object: map[string]any{}})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
