package crds

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const gizmos = "gizmos.example.com"

// definition returns a small definition, as Drover would install it.
func definition(change ...func(*apiextv1.CustomResourceDefinition)) *apiextv1.CustomResourceDefinition {
	crd := &apiextv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: gizmos, Labels: map[string]string{"ours": "yes"}},
		Spec: apiextv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextv1.NamespaceScoped,
			Names: apiextv1.CustomResourceDefinitionNames{Plural: "gizmos", Kind: "Gizmo"},
			Versions: []apiextv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &apiextv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextv1.JSONSchemaProps{"size": {Type: "string",
						Default: &apiextv1.JSON{Raw: []byte(`{"a": 1}`)}}},
				}},
			}},
		},
	}
	for _, c := range change {
		c(crd)
	}
	return crd
}

// stored returns a definition as an API server returns it.
func stored(managedBy, generation string,
	change ...func(*apiextv1.CustomResourceDefinition)) *apiextv1.CustomResourceDefinition {
	crd := marked(definition(), 1)
	crd.Labels["app.kubernetes.io/managed-by"] = managedBy
	crd.Labels["drover.io/crd-version"] = generation
	if managedBy == "" {
		delete(crd.Labels, "app.kubernetes.io/managed-by")
	}
	crd.Labels["theirs"] = "kept"
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["size"] = apiextv1.JSONSchemaProps{Type: "string",
		Default: &apiextv1.JSON{Raw: []byte(`{"a":1}`)}}
	crd.Status.Conditions = []apiextv1.CustomResourceDefinitionCondition{{Type: apiextv1.Established,
		Status: apiextv1.ConditionTrue}}
	for _, c := range change {
		c(crd)
	}
	return crd
}

func outdated(crd *apiextv1.CustomResourceDefinition) {
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties = nil
}

func TestEnsure_Ownership(t *testing.T) {
	tests := map[string]struct {
		before   *apiextv1.CustomResourceDefinition
		opts     Options
		want     Result
		writes   []string
		wantErr  string
		wantSize bool // the wanted schema is stored afterwards
	}{
		"missing": {want: Result{Created: []string{gizmos}}, writes: []string{"create"},
			wantSize: true},
		"current": {before: stored("drover", "1"),
			want: Result{Unchanged: []string{gizmos}}, wantSize: true},
		"out of date": {before: stored("drover", "1", outdated),
			want: Result{Updated: []string{gizmos}}, writes: []string{"update"}, wantSize: true},
		"of an older Drover": {before: stored("drover", "0"),
			want: Result{Updated: []string{gizmos}}, writes: []string{"update"}, wantSize: true},
		"of a newer Drover": {before: stored("drover", "2", outdated),
			want: Result{Unchanged: []string{gizmos}}},
		"with a version that is not a number": {before: stored("drover", "x", outdated),
			want: Result{Updated: []string{gizmos}}, writes: []string{"update"}, wantSize: true},
		"of another product": {before: stored("rancher", "", outdated),
			want: Result{Foreign: []string{gizmos}}},
		"without an owner": {before: stored("", "", outdated), want: Result{Foreign: []string{gizmos}}},
		"of Drover, but owned by the embedding program": {before: stored("drover", "1", outdated),
			opts: Options{HostOwned: true}, want: Result{Foreign: []string{gizmos}}},
		"missing, and owned by the embedding program": {opts: Options{HostOwned: true},
			wantErr: "ensure custom resource definition gizmos.example.com: it does not exist, and the server that " +
				"embeds Drover must install it"},
		"of another product, other version": {before: stored("rancher", "",
			func(crd *apiextv1.CustomResourceDefinition) {
				crd.Spec.Versions[0].Name = "v2"
			}), want: Result{Foreign: []string{gizmos}},
			wantErr: `ensure custom resource definition gizmos.example.com: it does not serve version v1; it belongs to "rancher"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newFakeClient(test.before)
				got, err := Ensure(t.Context(), client, []*apiextv1.CustomResourceDefinition{definition()}, test.opts)
				if text := errorText(err); text != test.wantErr {
					t.Errorf("want error %q, got %q", test.wantErr, text)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("result differs (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.writes, client.writes); diff != "" {
					t.Errorf("writes differ (-want +got):\n%s", diff)
				}
				after := client.stored[gizmos]
				if after == nil {
					return
				}
				_, size := after.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["size"]
				if size != test.wantSize && test.wantErr == "" {
					t.Errorf("want the schema written: %t, got %t", test.wantSize, size)
				}
				if test.before != nil && after.Labels["theirs"] != "kept" {
					t.Error("a foreign label was lost")
				}
			})
		})
	}
}

func TestEnsure_SecondRunWritesNothing(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	client := newFakeClient(nil)
	first, err := Ensure(t.Context(), client, all, Options{})
	if err != nil || len(first.Created) != len(all) {
		t.Fatalf("want %d created, got %+v, %v", len(all), first, err)
	}
	client.writes = nil
	second, err := Ensure(t.Context(), client, all, Options{})
	if err != nil || len(second.Unchanged) != len(all) || len(client.writes) != 0 {
		t.Errorf("want no write, got %+v, %v, %v", second, client.writes, err)
	}
}

func TestEnsure_NamesTheUnestablishedDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newFakeClient(stored("drover", "1", func(crd *apiextv1.CustomResourceDefinition) {
			crd.Status.Conditions = []apiextv1.CustomResourceDefinitionCondition{
				{Type: apiextv1.NamesAccepted, Status: apiextv1.ConditionFalse, Message: `"gizmos" is already in use`},
				{Type: apiextv1.Established, Status: apiextv1.ConditionFalse, Message: "not all names are accepted"},
			}
		}))
		start := time.Now()
		_, err := Ensure(t.Context(), client, []*apiextv1.CustomResourceDefinition{definition()},
			Options{Timeout: 5 * time.Second})
		want := `ensure custom resource definition gizmos.example.com: it is not established: Established is false: not all names are accepted; NamesAccepted is false: "gizmos" is already in use`
		if errorText(err) != want {
			t.Errorf("want %q, got %q", want, errorText(err))
		}
		if waited := time.Since(start); waited != 5*time.Second {
			t.Errorf("want the error at the deadline, got it after %s", waited)
		}
	})
}

// Ensure retries after a replica that starts at the same time wins a write.
func TestEnsure_ContinuesAfterALostRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newFakeClient(nil)
		client.beforeCreate = func() { client.stored[gizmos] = stored("drover", "1") }
		got, err := Ensure(t.Context(), client, []*apiextv1.CustomResourceDefinition{definition()}, Options{})
		if diff := cmp.Diff(Result{Unchanged: []string{gizmos}}, got); diff != "" || err != nil {
			t.Errorf("result differs (-want +got):\n%s, error %v", diff, err)
		}
	})
}

func TestRead_NamesTheFile(t *testing.T) {
	tests := map[string]struct{ content, want string }{
		"unknown field": {content: "kind: CustomResourceDefinition\nmetadata: {name: a}\nspecs: {}",
			want: "decode yaml/a.yaml"},
		"other kind": {content: "kind: ConfigMap\nmetadata: {name: a}",
			want: "decode yaml/a.yaml: not a CustomResourceDefinition with a name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Read(fstest.MapFS{"yaml/a.yaml": {Data: []byte(test.content)}, "LICENSE": {Data: []byte("text")}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want an error with %q, got %v", test.want, err)
			}
		})
	}
}

// fakeClient keeps definitions in memory and establishes them at once.
type fakeClient struct {
	mutex        sync.Mutex
	stored       map[string]*apiextv1.CustomResourceDefinition
	writes       []string
	beforeCreate func()
}

func newFakeClient(before *apiextv1.CustomResourceDefinition) *fakeClient {
	client := &fakeClient{stored: map[string]*apiextv1.CustomResourceDefinition{}}
	if before != nil {
		client.stored[before.Name] = before
	}
	return client
}

var resource = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

func (c *fakeClient) Get(_ context.Context, name string, _ metav1.GetOptions) (*apiextv1.CustomResourceDefinition,
	error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if crd := c.stored[name]; crd != nil {
		return crd.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

func (c *fakeClient) Create(_ context.Context, crd *apiextv1.CustomResourceDefinition,
	_ metav1.CreateOptions) (*apiextv1.CustomResourceDefinition, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.beforeCreate != nil {
		c.beforeCreate()
	}
	if c.stored[crd.Name] != nil {
		return nil, apierrors.NewAlreadyExists(resource, crd.Name)
	}
	c.writes = append(c.writes, "create")
	crd = crd.DeepCopy()
	crd.Status.Conditions = []apiextv1.CustomResourceDefinitionCondition{{Type: apiextv1.Established,
		Status: apiextv1.ConditionTrue}}
	c.stored[crd.Name] = crd
	return crd, nil
}

func (c *fakeClient) Update(_ context.Context, crd *apiextv1.CustomResourceDefinition,
	_ metav1.UpdateOptions) (*apiextv1.CustomResourceDefinition, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.writes = append(c.writes, "update")
	c.stored[crd.Name] = crd.DeepCopy()
	return crd, nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
