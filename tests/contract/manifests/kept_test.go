package manifests

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
)

// expectKept fails if a field of the manifest is not stored as written after the controllers have run.
func expectKept(t *testing.T, c client.Client, object *unstructured.Unstructured) {
	t.Helper()
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(object.GroupVersionKind())
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
		t.Fatal(err)
	}
	written := object.DeepCopy()
	if object.GetKind() == "Secret" {
		encodeStringData(t, written)
	}
	if lost := missing("", written.Object, stored.Object); len(lost) > 0 {
		t.Errorf("%s %s is not stored as written:\n%s", object.GetKind(), object.GetName(), lines(lost))
	}
	if object.GetKind() == "Cluster" {
		expectKeptByTypes(t, c, written)
	}
}

// encodeStringData converts stringData, which is never stored, into the Secret's data.
func encodeStringData(t *testing.T, secret *unstructured.Unstructured) {
	t.Helper()
	texts, _, err := unstructured.NestedStringMap(secret.Object, "stringData")
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := unstructured.NestedMap(secret.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	if data == nil {
		data = map[string]any{}
	}
	for key, text := range texts {
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	unstructured.RemoveNestedField(secret.Object, "stringData")
	secret.Object["data"] = data
}

// expectKeptByTypes fails if a program with Go types, such as a controller of a host, would drop a field of the
// manifest when it writes the Cluster. It changes nothing: the API server only answers what it would store.
func expectKeptByTypes(t *testing.T, c client.Client, written *unstructured.Unstructured) {
	t.Helper()
	answer := &unstructured.Unstructured{}
	plane.Until(t, 10*time.Second, func() string { // a controller may write in between
		cluster := &provv1.Cluster{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(written), cluster); err != nil {
			return err.Error()
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
		if err != nil {
			t.Fatal(err)
		}
		answer.Object = content
		answer.SetGroupVersionKind(written.GroupVersionKind())
		if err := c.Update(t.Context(), answer, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			return err.Error()
		}
		return ""
	})
	if lost := slices.DeleteFunc(missing("", written.Object, answer.Object), sameMeaning); len(lost) > 0 {
		t.Errorf("a write through its Go type removes from Cluster %s:\n%s", written.GetName(), lines(lost))
	}
}

// loss is a path whose stored value differs from the written one.
type loss struct {
	path            string
	written, stored any
}

func (l loss) String() string {
	return fmt.Sprintf("%s: want %#v, got %#v", l.path, l.written, l.stored)
}

func lines(lost []loss) string {
	var out strings.Builder
	for _, l := range lost {
		fmt.Fprintln(&out, l)
	}
	return out.String()
}

// missing lists written values that are not stored as written. Additional fields are allowed, because controllers fill
// them in. Only null may be dropped, because it means that a field has no value.
func missing(at string, written, stored any) []loss {
	if stored == nil && written == nil {
		return nil
	}
	switch w := written.(type) {
	case map[string]any:
		if s, ok := stored.(map[string]any); ok {
			var out []loss
			for _, key := range slices.Sorted(maps.Keys(w)) {
				out = append(out, missing(at+"."+key, w[key], s[key])...)
			}
			return out
		}
	case []any:
		if s, ok := stored.([]any); ok && len(s) == len(w) {
			var out []loss
			for i := range w {
				out = append(out, missing(fmt.Sprintf("%s[%d]", at, i), w[i], s[i])...)
			}
			return out
		}
	default:
		if written == stored {
			return nil
		}
	}
	return []loss{{path: at, written: written, stored: stored}}
}

// zeros are fields without a pointer in the released type, so a Go program cannot distinguish their explicit zero from
// no value. Each has the reason why nothing but the spelling is lost.
var zeros = map[*regexp.Regexp]string{
	path(`.spec.defaultPodSecurityAdmissionConfigurationTemplateName`): "a name: empty means no name",
	path(`.spec.localClusterAuthEndpoint`):                             "a struct: without enabled, it is disabled",
	path(`.spec.localClusterAuthEndpoint.caCerts`):                     "PEM: empty means no certificate",
	path(`.spec.rkeConfig.etcd.disableSnapshots`): "a plain bool that enables something: false " +
		"is the default",
	path(`.spec.rkeConfig.etcd.s3.endpointCA`): "PEM: empty means no certificate",
	path(`.spec.rkeConfig.etcd.s3.skipSSLVerify`): "a plain bool that enables something: false is " +
		"the default",
	path(`.spec.rkeConfig.machinePools`): "a list: an empty list has no pool",
	path(`.spec.rkeConfig.machinePools[*].paused`): "a plain bool that enables something: false is " +
		"the default",
	path(`.spec.rkeConfig.machinePools[*].workerRole`): "a plain bool that enables something: false is " +
		"the default",
	path(`.spec.rkeConfig.registries.configs`): "a map: an empty map has no entry",
	path(`.spec.rkeConfig.registries.mirrors`): "a map: an empty map has no entry",
	path(`.spec.rkeConfig.registries.configs.*.insecureSkipVerify`): "a plain bool that enables something: false is " +
		"the default",
	path(`.spec.rkeConfig.rotateCertificates.generation`): "a counter: it is compared with a counter that starts at " +
		"zero",
	path(`.spec.rkeConfig.rotateCertificates.services`): "a list: an empty list means all services, like no list",
}

// path returns a pattern in which * stands for any text.
func path(text string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".+") + "$")
}

// sameMeaning reports whether a difference is only another spelling by a Go type: the zeros above, and durations ("15m"
// becomes "15m0s").
func sameMeaning(l loss) bool {
	if before, after := duration(l.written), duration(l.stored); before != "" && before == after {
		return true
	}
	if l.stored != nil || !isZero(l.written) {
		return false
	}
	for field := range zeros {
		if field.MatchString(l.path) {
			return true
		}
	}
	return false
}

func isZero(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return v == false || v == "" || v == int64(0)
	}
}

// duration returns a duration in Go's notation, and "" for anything else.
func duration(value any) string {
	text, _ := value.(string)
	if d, err := time.ParseDuration(text); err == nil {
		return d.String()
	}
	return ""
}

// The comparison has tolerances, so this test shows what it does not tolerate.
func TestMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		written, stored any
		want            []string
	}{
		"null has no value": {written: map[string]any{"a": nil}, stored: map[string]any{}},
		"an added value":    {written: map[string]any{}, stored: map[string]any{"a": "x"}},
		"an explicit false": {written: map[string]any{"a": false}, stored: map[string]any{},
			want: []string{".a"}},
		"an explicit zero": {written: map[string]any{"a": int64(0)}, stored: map[string]any{},
			want: []string{".a"}},
		"an explicit empty text": {written: map[string]any{"a": ""}, stored: map[string]any{},
			want: []string{".a"}},
		"an explicit empty list": {written: map[string]any{"a": []any{}}, stored: map[string]any{},
			want: []string{".a"}},
		"an explicit empty object": {written: map[string]any{"a": map[string]any{}}, stored: map[string]any{},
			want: []string{".a"}},
		"a duration in another spelling": {written: map[string]any{"a": "15m"}, stored: map[string]any{"a": "15m0s"},
			want: []string{".a"}},
		"an item of a list": {written: []any{map[string]any{"a": false}, "x"},
			stored: []any{map[string]any{}, "x"}, want: []string{"[0].a"}},
		"a list of another length": {written: []any{"x", "y"}, stored: []any{"x"}, want: []string{""}},
		"a value of another type": {written: map[string]any{"a": "1"}, stored: map[string]any{"a": int64(1)},
			want: []string{".a"}},
		"an object that was a text": {written: map[string]any{"a": map[string]any{"b": "x"}},
			stored: map[string]any{"a": "x"}, want: []string{".a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, l := range missing("", tc.written, tc.stored) {
				got = append(got, l.path)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("lost %q, want %q", got, tc.want)
			}
		})
	}
	if sameMeaning(loss{path: ".spec.enableNetworkPolicy", written: false}) ||
		sameMeaning(loss{path: ".spec.rkeConfig.machinePools[0].paused", written: true}) {
		t.Error("a pointer's false and a true count as spellings")
	}
}
