package edit_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/operate/edit"
)

// storedText is a Cluster as a management cluster stores it.
const storedText = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  annotations:
    drover.io/instance: ours
    kubectl.kubernetes.io/last-applied-configuration: '{}'
    note: a
  creationTimestamp: "2026-01-01T00:00:00Z"
  finalizers:
  - drover.io/cluster
  generation: 4
  labels:
    team: a
  managedFields:
  - manager: x
  name: demo
  namespace: team-a
  resourceVersion: "7"
  uid: u
spec:
  kubernetesVersion: v1.36.2+k3s1
  rkeConfig:
    machinePools:
    - dynamicSchemaSpec: '{"a":1}'
      machineConfigRef:
        kind: PodConfig
        name: demo-all
      name: all
      quantity: 1
status:
  ready: true
`

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = out.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func yamlOf(t *testing.T, objects ...*unstructured.Unstructured) string {
	t.Helper()
	data, err := edit.Manifest(objects)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const writtenText = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  annotations:
    note: a
  labels:
    team: a
  name: demo
  namespace: team-a
spec:
  kubernetesVersion: v1.36.2+k3s1
  rkeConfig:
    machinePools:
    - machineConfigRef:
        kind: PodConfig
        name: demo-all
      name: all
      quantity: 1
`

// A manifest is what a user writes. Written back without an edit, it changes nothing.
func TestWritten_AndDesired(t *testing.T) {
	live := objectOf(t, storedText)
	written := edit.Written(live)
	if diff := cmp.Diff(writtenText, yamlOf(t, written)); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(storedText, yamlOf(t, live)); diff != "" {
		t.Errorf("the live object changes (-want +got):\n%s", diff)
	}
	text, found := edit.ParseText([]byte(writtenText))
	if len(found) > 0 {
		t.Fatal(found)
	}
	desired := edit.Desired(live, text.Cluster(), "team-a")
	if diff := cmp.Diff(storedText, yamlOf(t, desired)); diff != "" || !edit.IsSame(live, desired) {
		t.Errorf("desired (-want +got):\n%s", diff)
	}
}

func TestDesired_IsWhatTheUserTyped(t *testing.T) {
	live := objectOf(t, storedText)
	text := objectOf(t, `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: demo
  resourceVersion: "1"
  finalizers: [other]
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: typed
    drover.io/instance: typed
    more: b
spec:
  rkeConfig:
    machinePools:
    - name: all
      machineConfigRef: {kind: SimConfig, name: demo-all}
status:
  ready: false
`)
	want := objectOf(t, storedText)
	want.SetLabels(nil)
	want.SetAnnotations(map[string]string{"more": "b", "drover.io/instance": "ours",
		"kubectl.kubernetes.io/last-applied-configuration": "{}"})
	want.Object["spec"] = text.DeepCopy().Object["spec"]
	desired := edit.Desired(live, text, "team-a")
	if diff := cmp.Diff(yamlOf(t, want), yamlOf(t, desired)); diff != "" || edit.IsSame(live, desired) {
		t.Errorf("(-want +got):\n%s", diff)
	}
	created := edit.Desired(nil, text, "team-a")
	if diff := cmp.Diff(map[string]any{"name": "demo", "namespace": "team-a", "annotations": map[string]any{
		"more": "b", "drover.io/instance": "typed"}}, created.Object["metadata"]); diff != "" {
		t.Errorf("a new object (-want +got):\n%s", diff)
	}
	if created.Object["status"] != nil {
		t.Error("a new object has a status")
	}
}

func TestLive_Seen(t *testing.T) {
	config := func(size string) *unstructured.Unstructured {
		out := objectOf(t, configText)
		out.Object["size"] = size
		return out
	}
	seen := func(l edit.Live) string {
		digest, err := l.Seen()
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	before := seen(edit.Live{Cluster: objectOf(t, storedText), Configs: []*unstructured.Unstructured{config("s")}})
	for name, tc := range map[string]struct {
		change func(c *unstructured.Unstructured)
		size   string
		isSame bool
	}{
		"nothing": {func(*unstructured.Unstructured) {}, "s", true},
		"the status": {func(c *unstructured.Unstructured) {
			c.SetResourceVersion("8")
			delete(c.Object, "status")
		}, "s", true},
		"a finalizer":          {func(c *unstructured.Unstructured) { c.SetFinalizers(nil) }, "s", true},
		"a label":              {func(c *unstructured.Unstructured) { c.SetLabels(nil) }, "s", false},
		"an annotation":        {func(c *unstructured.Unstructured) { c.SetAnnotations(nil) }, "s", false},
		"the spec":             {func(c *unstructured.Unstructured) { delete(c.Object, "spec") }, "s", false},
		"an edit and its undo": {func(c *unstructured.Unstructured) { c.SetGeneration(6) }, "s", false},
		"another Cluster":      {func(c *unstructured.Unstructured) { c.SetUID("v") }, "s", false},
		"a deletion": {func(c *unstructured.Unstructured) { c.SetDeletionTimestamp(new(metav1.Unix(1, 0))) }, "s",
			false},
		"a machine config": {func(*unstructured.Unstructured) {}, "l", false},
	} {
		cluster := objectOf(t, storedText)
		tc.change(cluster)
		after := seen(edit.Live{Cluster: cluster, Configs: []*unstructured.Unstructured{config(tc.size)}})
		if (after == before) != tc.isSame {
			t.Errorf("%s: %s and %s", name, before, after)
		}
	}
	if digest := seen(edit.Live{}); digest != "" {
		t.Errorf("no cluster has the digest %s", digest)
	}
}

func TestConfigRefs_AreThoseOfPoolsAndText(t *testing.T) {
	text, _ := edit.ParseText([]byte(configText + "---\napiVersion: rke-machine-config.cattle.io/v1\nkind: " +
		"SimConfig\n" +
		"metadata: {name: more}\n---\n" + clusterText))
	stored := objectOf(t, storedText)
	pools, _, err := unstructured.NestedSlice(stored.Object, "spec", "rkeConfig", "machinePools")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../secrets/x", "demo-all"} { // no name, and one that is there twice
		pools = append(pools, map[string]any{"machineConfigRef": map[string]any{"kind": "PodConfig", "name": name}})
	}
	if err := unstructured.SetNestedSlice(stored.Object, pools, "spec", "rkeConfig", "machinePools"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ref := range edit.ConfigRefs(stored, text) {
		got = append(got, ref.Resource.Group+"/"+ref.Resource.Resource+"/"+ref.Name)
	}
	want := []string{"rke-machine-config.cattle.io/podconfigs/demo-all", "rke-machine-config.cattle.io/simconfigs/more"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRefused(t *testing.T) {
	pods := schema.GroupKind{Group: "rke-machine-config.cattle.io", Kind: "PodConfig"}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a schema": {apierrors.NewInvalid(pods, "demo", field.ErrorList{
			field.Invalid(field.NewPath("size"), 1, "must be a string")}), "size: Invalid value: 1: must be a string"},
		"a strict field": {apierrors.NewBadRequest(`PodConfig in version "v1" cannot be handled as a PodConfig: ` +
			`strict ` +
			`decoding error: unknown field "color", unknown field "a.b"`),
			`color: unknown field "color"` + "\n" + `a.b: unknown field "a.b"`},
		"rights": {apierrors.NewForbidden(schema.GroupResource{Resource: "podconfigs"}, "demo", errors.New("no")),
			`podconfigs "demo" is forbidden: no`},
		"an absent kind": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 404,
			Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource"}},
			"the management cluster has no kind PodConfig; is its driver active?"},
		"an expired token":  {apierrors.NewUnauthorized("no"), ""},
		"another write":     {apierrors.NewConflict(schema.GroupResource{}, "demo", errors.New("no")), ""},
		"no storage":        {apierrors.NewInternalError(errors.New("no")), ""},
		"a lost connection": {errors.New("EOF"), ""},
	} {
		if diff := cmp.Diff(tc.want, problems(edit.Refused(objectOf(t, configText), tc.err))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDistinct(t *testing.T) {
	got := problems(edit.Distinct([]edit.Problem{{Field: "a", Message: "Invalid value: 1: x"}, {Field: "a",
		Message: "x"},
		{Field: "a", Message: "y"}, {Message: "x"}, {Message: "x"}}))
	if want := "a: Invalid value: 1: x\na: y\nx"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
