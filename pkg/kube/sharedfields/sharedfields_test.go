package sharedfields

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// machine is an infrastructure machine as the API server sends it. Its name and the UID of its owner are missing.
const machine = `{"apiVersion":"rke-machine.cattle.io/v1","kind":"SimMachine","metadata":{"name":"%s",
"namespace":"fleet","labels":{"cluster.x-k8s.io/cluster-name":"demo","rke.cattle.io/cluster-name":"demo"},
"ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","name":"%[1]s","uid":"%[2]s"}],
"managedFields":[{"manager":"capi-machineset","operation":"Apply","apiVersion":"rke-machine.cattle.io/v1",
"time":"2026-11-21T12:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:ownerReferences":
{"k:{\"uid\":\"%[2]s\"}":{}}},"f:spec":{"f:common":{"f:cloudCredentialSecretName":{},"f:labels":{"f:a":{},"f:b":{}}},
"f:cpus":{},"f:disk":{},"f:image":{},"f:memory":{},"f:region":{},"f:zone":{}}}},
{"manager":"capi-machineset-metadata","operation":"Apply","apiVersion":"rke-machine.cattle.io/v1",
"time":"2026-11-21T12:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":
{"f:cluster.x-k8s.io/cloned-from-groupkind":{},"f:cluster.x-k8s.io/cloned-from-name":{}},"f:labels":
{"f:cluster.x-k8s.io/cluster-name":{},"f:cluster.x-k8s.io/deployment-name":{},"f:cluster.x-k8s.io/set-name":{},
"f:rke.cattle.io/cluster-name":{},"f:rke.cattle.io/rke-machine-pool-name":{}}}}},
{"manager":"drover","operation":"Update","subresource":"status","apiVersion":"rke-machine.cattle.io/v1",
"time":"2026-11-21T12:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{".":{},"f:addresses":{},
"f:conditions":{".":{},"k:{\"type\":\"CreateJob\"}":{".":{},"f:lastUpdateTime":{},"f:status":{},"f:type":{}},
"k:{\"type\":\"Ready\"}":{".":{},"f:lastUpdateTime":{},"f:status":{},"f:type":{}}},"f:jobName":{},"f:ready":{},
"f:initialization":{".":{},"f:provisioned":{}}}}}]},
"spec":{"common":{"cloudCredentialSecretName":"c","labels":{"a":"1","b":"2"}},"cpus":2,"disk":20},
"status":{"ready":true}}`

func object(tb testing.TB, text string) *unstructured.Unstructured {
	tb.Helper()
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return made
}

func machineOf(tb testing.TB, name string) *unstructured.Unstructured {
	tb.Helper()
	return object(tb, fmt.Sprintf(machine, name, "uid-of-"+name))
}

func transform(tb testing.TB, t *table, given any) {
	tb.Helper()
	if got, err := t.transform(given); err != nil || got != given {
		tb.Fatalf("the transformation returned %v, error %v, want its argument", got, err)
	}
}

// fields returns the managed fields of an entry below a path.
func fields(tb testing.TB, of *unstructured.Unstructured, entry int, path ...string) map[string]any {
	tb.Helper()
	entries, _ := of.Object["metadata"].(map[string]any)["managedFields"].([]any)
	found, ok, err := unstructured.NestedFieldNoCopy(entries[entry].(map[string]any), append([]string{"fieldsV1"},
		path...)...)
	if err != nil || !ok {
		tb.Fatalf("no field %v: %v", path, err)
	}
	return found.(map[string]any)
}

func same(a, b map[string]any) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// TestTransform_ChangesNoValue: objects are equal before and after, and after a second transformation.
func TestTransform_ChangesNoValue(t *testing.T) {
	t.Parallel()
	parts := &table{}
	entry := `{"metadata":{"managedFields":[%s]},"kind":"K","apiVersion":"v1"}`
	for name, text := range map[string]string{
		"a machine":                       fmt.Sprintf(machine, "m", "uid"),
		"another machine":                 fmt.Sprintf(machine, "n", "uid-2"),
		"no metadata":                     `{"kind":"K","apiVersion":"v1"}`,
		"no managed fields":               `{"kind":"K","apiVersion":"v1","metadata":{"name":"n"}}`,
		"managed fields that are no list": `{"kind":"K","apiVersion":"v1","metadata":{"managedFields":"x"}}`,
		"an entry without fields":         fmt.Sprintf(entry, `{"manager":"m"}`),
		"an entry that is no object":      fmt.Sprintf(entry, `null,"x",{"fieldsV1":{"f:a":{}}}`),
		"no fields":                       fmt.Sprintf(entry, `{"fieldsV1":{}}`),
		"values that are no objects":      fmt.Sprintf(entry, `{"fieldsV1":{"f:a":{"f:b":1,"f:c":{}},"f:d":null}}`),
		"keys with all characters": fmt.Sprintf(entry,
			`{"fieldsV1":{"f:a\u0000":{"f:b":{}},"f:a":{"\u0000f:b":{}}}}`),
	} {
		got := object(t, text)
		for range 2 {
			transform(t, parts, got)
			if diff := cmp.Diff(object(t, text), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	transform(t, parts, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}})
	if got, err := parts.transform(cache.DeletedFinalStateUnknown{Key: "k"}); err != nil ||
		got != any(cache.DeletedFinalStateUnknown{Key: "k"}) {
		t.Errorf("a deleted object became %v, error %v", got, err)
	}
}

// TestTransform_SharesEqualParts: two machines share everything except the parts with the UIDs of their owners.
func TestTransform_SharesEqualParts(t *testing.T) {
	t.Parallel()
	parts := &table{}
	one, two := machineOf(t, "one"), machineOf(t, "two")
	transform(t, parts, one)
	transform(t, parts, two)
	for _, part := range []struct {
		entry  int
		path   []string
		shared bool
	}{
		{0, nil, false}, {0, []string{"f:metadata"}, false}, {0, []string{"f:spec"}, true},
		{0, []string{"f:spec", "f:cpus"}, true}, {1, nil, true}, {2, nil, true},
	} {
		got := same(fields(t, one, part.entry, part.path...), fields(t, two, part.entry, part.path...))
		if got != part.shared {
			t.Errorf("entry %d, part %v: shared %t, want %t", part.entry, part.path, got, part.shared)
		}
	}
	if len(empty) != 0 {
		t.Errorf("the empty part became %v", empty)
	}
}

// TestTransform_IsBounded: parts that are in one object only do not push out those of all objects.
func TestTransform_IsBounded(t *testing.T) {
	t.Parallel()
	parts := &table{}
	first := machineOf(t, "first")
	transform(t, parts, first)
	for i := range 2 * generation {
		transform(t, parts, machineOf(t, strconv.Itoa(i)))
		if most := len(parts.young) + len(parts.old); most > 2*generation {
			t.Fatalf("%d parts after %d objects, want at most %d", most, i, 2*generation)
		}
	}
	last := machineOf(t, "last")
	transform(t, parts, last)
	if !same(fields(t, first, 0, "f:spec"), fields(t, last, 0, "f:spec")) {
		t.Error("a part of all objects was forgotten")
	}
}

// TestTransform_WhileOthersRead is for the race detector: readers of cached objects copy them meanwhile.
func TestTransform_WhileOthersRead(t *testing.T) {
	t.Parallel()
	parts, cached := &table{}, machineOf(t, "cached")
	transform(t, parts, cached)
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			for j := range 50 {
				transform(t, parts, machineOf(t, fmt.Sprint(i, "-", j)))
				transform(t, parts, cached.DeepCopy())
				if _, err := json.Marshal(cached); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
}

// BenchmarkTransform reports the live heap of a cached object, without and with the transformation.
func BenchmarkTransform(b *testing.B) {
	for name, apply := range map[string]func(*table, any) (any, error){
		"without": func(_ *table, given any) (any, error) { return given, nil }, "with": (*table).transform,
	} {
		b.Run(name, func(b *testing.B) {
			parts, kept := &table{}, make([]any, 0, b.N)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range b.N {
				b.StopTimer()
				made := machineOf(b, strconv.Itoa(i))
				b.StartTimer()
				transformed, err := apply(parts, made)
				if err != nil {
					b.Fatal(err)
				}
				kept = append(kept, transformed)
			}
			b.StopTimer()
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(b.N), "live-B/op")
			runtime.KeepAlive(kept)
		})
	}
}
