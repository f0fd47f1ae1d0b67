package memkube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

var (
	farmGVR  = schema.GroupVersionResource{Group: "demo.example.org", Version: "v1", Resource: "farms"}
	farmKind = farmGVR.GroupVersion().WithKind("Farm")
)

// farms is the definition of a kind with a status, a rule, and a default.
func farms() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "farms.demo.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: farmGVR.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "farms", Kind: "Farm", ListKind: "FarmList",
				Singular: "farm"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"cows":  {Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("1")}},
							"sheep": {Type: "integer"},
						}, XValidations: apiextensionsv1.ValidationRules{{Rule: "self.cows < 100",
							Message: "too many cows"}}},
						"status": {Type: "object",
							Properties: map[string]apiextensionsv1.JSONSchemaProps{"milk": {Type: "integer"}}},
					},
				}},
			}},
		},
	}
}

func farm(name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(farmKind)
	u.SetName(name)
	return u
}

type world struct {
	*Server
	kube  kubernetes.Interface
	farms dynamic.ResourceInterface
}

func newWorld(t *testing.T) world {
	t.Helper()
	s := New(Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{farms()}})
	kube, err := kubernetes.NewForConfig(s.Config("test"))
	if err != nil {
		t.Fatal(err)
	}
	live, err := dynamic.NewForConfig(s.Config("test"))
	if err != nil {
		t.Fatal(err)
	}
	return world{s, kube, live.Resource(farmGVR).Namespace("default")}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCustomResource_SchemaStatusAndGeneration(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	made := farm("f", map[string]any{"sheep": int64(2), "dragons": int64(1)})
	made.Object["status"] = map[string]any{"milk": int64(9)}
	got, err := w.farms.Create(ctx, made, metav1.CreateOptions{})
	check(t, err)
	if diff := cmp.Diff(map[string]any{"cows": int64(1), "sheep": int64(2)}, got.Object["spec"]); diff != "" {
		t.Errorf("unknown fields must be removed and defaults set (-want +got):\n%s", diff)
	}
	if got.Object["status"] != nil || got.GetGeneration() != 1 || got.GetUID() == "" {
		t.Errorf("created: %v", got)
	}

	got.Object["status"] = map[string]any{"milk": int64(3)}
	withStatus, err := w.farms.UpdateStatus(ctx, got, metav1.UpdateOptions{})
	check(t, err)
	if withStatus.GetGeneration() != 1 {
		t.Errorf("a status does not change the generation: %d", withStatus.GetGeneration())
	}
	if _, err := w.farms.Update(ctx, got, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an old resource version must conflict, got %v", err)
	}
	withStatus.Object["status"] = map[string]any{"milk": int64(4)}
	check(t, unstructured.SetNestedField(withStatus.Object, int64(5), "spec", "cows"))
	updated, err := w.farms.Update(ctx, withStatus, metav1.UpdateOptions{})
	check(t, err)
	if milk, _, _ := unstructured.NestedInt64(updated.Object, "status", "milk"); milk != 3 ||
		updated.GetGeneration() != 2 {
		t.Errorf("an update must not reach the status and must raise the generation: %v", updated)
	}
	before := w.Changes()
	if _, err := w.farms.Update(ctx, updated, metav1.UpdateOptions{}); err != nil || w.Changes() != before {
		t.Errorf("an update without a change must store nothing: %v", err)
	}
	_, err = w.farms.Patch(ctx, "f", types.MergePatchType, []byte(`{"spec":{"cows":500}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "too many cows") {
		t.Errorf("a rule must be checked, got %v", err)
	}
	updated.SetResourceVersion("")
	if _, err := w.farms.Update(ctx, updated, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an update of a custom resource needs a resource version, got %v", err)
	}
}

func TestPatches(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "1"}}}}
	_, err := w.kube.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	check(t, err)
	for name, tc := range map[string]struct {
		kind types.PatchType
		body string
		want string
	}{
		"merge replaces lists": {types.MergePatchType, `{"spec":{"containers":[{"name":"b","image":"2"}]}}`,
			"b=2"},
		"strategic merges by name": {types.StrategicMergePatchType,
			`{"spec":{"containers":[{"name":"b","image":"3"}]}}`, "b=3 a=1"},
		"json patches by path": {types.JSONPatchType,
			`[{"op":"replace","path":"/spec/containers/0/image","value":"4"}]`, "a=4"},
		"json patches may contain tests": {types.JSONPatchType,
			`[{"op":"test","path":"/spec/containers/0/image","value":"x"}]`, "Invalid, 0 causes"},
		"json patches need the parent of a path": {types.JSONPatchType,
			`[{"op":"add","path":"/status/conditions/9/type","value":"x"}]`, "Invalid, 0 causes"},
		"json patches are lists": {types.JSONPatchType, `{}`, "BadRequest, 0 causes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.kube.CoreV1().Pods("default").Patch(ctx, "p", types.MergePatchType,
				[]byte(`{"spec":{"containers":[{"name":"a","image":"1"}]}}`), metav1.PatchOptions{})
			check(t, err)
			got, err := w.kube.CoreV1().Pods("default").Patch(ctx, "p", tc.kind, []byte(tc.body), metav1.PatchOptions{})
			var found []string
			if err != nil {
				status := &apierrors.StatusError{}
				if !errors.As(err, &status) {
					t.Fatal(err)
				}
				causes := 0
				if status.ErrStatus.Details != nil {
					causes = len(status.ErrStatus.Details.Causes)
				}
				found = []string{fmt.Sprintf("%s, %d causes", status.ErrStatus.Reason, causes)}
			} else {
				for _, c := range got.Spec.Containers {
					found = append(found, c.Name+"="+c.Image)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(found, " ")); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := w.farms.Patch(ctx, "x", types.StrategicMergePatchType, []byte(`{}`),
		metav1.PatchOptions{}); err == nil {
		t.Error("custom resources have no strategic patches")
	}
}

func TestDeletion_FinalizersAndOwners(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	owner := farm("owner", nil)
	owner.SetFinalizers([]string{"demo.example.org/hold"})
	owner, err := w.farms.Create(ctx, owner, metav1.CreateOptions{})
	check(t, err)
	yes := true
	reference := metav1.OwnerReference{APIVersion: "demo.example.org/v1", Kind: "Farm", Name: "owner",
		UID: owner.GetUID(), BlockOwnerDeletion: &yes}
	child := func(name string, references ...metav1.OwnerReference) {
		t.Helper()
		_, err := w.kube.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: references}},
			metav1.CreateOptions{})
		check(t, err)
	}
	child("child", reference)
	child("free")
	child("stray", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: "gone"})
	if got := names(w, "ConfigMap"); got != "child free" {
		t.Errorf("an object without its owner must be collected: %s", got)
	}

	check(t, w.farms.Delete(ctx, "owner", metav1.DeleteOptions{}))
	held, err := w.farms.Get(ctx, "owner", metav1.GetOptions{})
	check(t, err)
	if held.GetDeletionTimestamp() == nil || names(w, "ConfigMap") != "child free" {
		t.Errorf("a finalizer must keep the owner and thus the child: %v", held)
	}
	held.SetFinalizers(nil)
	_, err = w.farms.Update(ctx, held, metav1.UpdateOptions{})
	check(t, err)
	if _, err := w.farms.Get(ctx, "owner", metav1.GetOptions{}); !apierrors.IsNotFound(err) ||
		names(w, "ConfigMap") != "free" {
		t.Errorf("without a finalizer both must be deleted: %v, %s", err, names(w, "ConfigMap"))
	}
}

func TestDeletion_ForegroundAndOrphan(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	yes := true
	for _, name := range []string{"fore", "orphaner"} {
		owner, err := w.farms.Create(ctx, farm(name, nil), metav1.CreateOptions{})
		check(t, err)
		child := farm(name+"-child", nil)
		child.SetFinalizers([]string{"demo.example.org/hold"})
		child.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "demo.example.org/v1", Kind: "Farm", Name: name,
			UID: owner.GetUID(), BlockOwnerDeletion: &yes}})
		_, err = w.farms.Create(ctx, child, metav1.CreateOptions{})
		check(t, err)
	}
	fore, orphan := metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan
	check(t, w.farms.Delete(ctx, "fore", metav1.DeleteOptions{PropagationPolicy: &fore}))
	check(t, w.farms.Delete(ctx, "orphaner", metav1.DeleteOptions{PropagationPolicy: &orphan}))
	if got := names(w, "Farm"); got != "fore fore-child orphaner-child" {
		t.Errorf("the child's finalizer must keep the owner: %s", got)
	}
	_, err := w.farms.Patch(ctx, "fore-child", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	check(t, err)
	if got := names(w, "Farm"); got != "orphaner-child" {
		t.Errorf("owner and child must be deleted: %s", got)
	}
	left, err := w.farms.Get(ctx, "orphaner-child", metav1.GetOptions{})
	check(t, err)
	if len(left.GetOwnerReferences()) != 0 || left.GetDeletionTimestamp() != nil {
		t.Errorf("an orphan must have no owner: %v", left)
	}
}

func names(w world, kind string) string {
	gvk := schema.GroupVersionKind{Version: "v1", Kind: kind}
	if kind == "Farm" {
		gvk = farmKind
	}
	var list []string
	for _, obj := range w.Objects(gvk) {
		list = append(list, obj.GetName())
	}
	return strings.Join(list, " ")
}

func TestNamespaces(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	maps := w.kube.CoreV1().ConfigMaps("tenant")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Finalizers: []string{"demo.example.org/hold"}}}
	if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a missing namespace must be an error, got %v", err)
	}
	_, err := w.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}},
		metav1.CreateOptions{})
	check(t, err)
	_, err = maps.Create(ctx, object, metav1.CreateOptions{})
	check(t, err)
	check(t, w.kube.CoreV1().Namespaces().Delete(ctx, "tenant", metav1.DeleteOptions{}))
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}},
		metav1.CreateOptions{}); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("a terminating namespace must refuse new objects, got %v", err)
	}
	_, err = maps.Patch(ctx, "m", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	check(t, err)
	if _, err := w.kube.CoreV1().Namespaces().Get(ctx, "tenant", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an empty namespace must be deleted, got %v", err)
	}
}

func TestDiscovery_FollowsDefinitions(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	client := discovery.NewDiscoveryClient(w.kube.Discovery().RESTClient())
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	mapping, err := mapper.RESTMapping(farmKind.GroupKind())
	check(t, err)
	if mapping.Resource != farmGVR || mapping.Scope.Name() != "namespace" {
		t.Errorf("mapping: %v", mapping)
	}
	live, err := dynamic.NewForConfig(w.Config("test"))
	check(t, err)
	crds := live.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	crd, err := crds.Get(ctx, "farms.demo.example.org", metav1.GetOptions{})
	check(t, err)
	if conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions"); len(conditions) != 2 {
		t.Errorf("a definition must become established: %v", crd.Object["status"])
	}
	_, err = w.farms.Create(ctx, farm("f", nil), metav1.CreateOptions{})
	check(t, err)
	check(t, crds.Delete(ctx, "farms.demo.example.org", metav1.DeleteOptions{}))
	if _, err := w.farms.Get(ctx, "f", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without its definition a resource must not be served, got %v", err)
	}
}

func TestSecretsJobsAndTokens(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	secrets := w.kube.CoreV1().Secrets("default")
	made, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		StringData: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	check(t, err)
	if string(made.Data["k"]) != "v" || made.Type != corev1.SecretTypeOpaque || made.StringData != nil {
		t.Errorf("secret: %v", made)
	}
	made.Type = "other"
	if _, err := secrets.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("the type of a Secret must be immutable, got %v", err)
	}
	only, err := secrets.List(ctx, metav1.ListOptions{FieldSelector: "type!=Opaque"})
	check(t, err)
	if len(only.Items) != 0 {
		t.Errorf("field selector: %v", only.Items)
	}

	_, err = secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Annotations: map[string]string{corev1.ServiceAccountNameKey: "sa"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	check(t, err)
	_, err = w.kube.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}, metav1.CreateOptions{})
	check(t, err)
	token, err := secrets.Get(ctx, "t", metav1.GetOptions{})
	check(t, err)
	if string(token.Data["token"]) != Token("default", "sa") {
		t.Errorf("token: %v", token.Data)
	}

	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: "Never"}}}}
	job, err = w.kube.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{})
	check(t, err)
	job.Spec.Template.Spec.RestartPolicy = "OnFailure"
	if _, err := w.kube.BatchV1().Jobs("default").Update(ctx, job, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("the template of a Job must be immutable, got %v", err)
	}
}

// An informer sees every change exactly once, across lists, selectors and expired watches, in virtual time.
func TestWatch_Informer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		maps := w.kube.CoreV1().ConfigMaps("default")
		_, err := maps.Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "early", Labels: map[string]string{"on": "yes"}}},
			metav1.CreateOptions{})
		check(t, err)
		var seen []string
		factory := informers.NewSharedInformerFactoryWithOptions(w.kube, 0,
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "on=yes" }))
		note := func(verb string, obj any) { seen = append(seen, verb+" "+obj.(*corev1.ConfigMap).Name) }
		informer := factory.Core().V1().ConfigMaps().Informer()
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { note("add", obj) },
			UpdateFunc: func(_, obj any) { note("update", obj) },
			DeleteFunc: func(obj any) { note("delete", obj) },
		})
		check(t, err)
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		time.Sleep(time.Hour) // several watches expire meanwhile
		synctest.Wait()
		label := func(name, value string) {
			_, err := maps.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"on":%q}}}`,
				value), metav1.PatchOptions{})
			check(t, err)
		}
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}},
			metav1.CreateOptions{})
		check(t, err)
		label("late", "yes")
		_, err = maps.Patch(ctx, "late", types.MergePatchType, []byte(`{"data":{"k":"v"}}`), metav1.PatchOptions{})
		check(t, err)
		label("late", "no")
		check(t, maps.Delete(ctx, "early", metav1.DeleteOptions{}))
		synctest.Wait()
		want := []string{"add early", "add late", "update late", "delete late", "delete early"}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		cancel()
		factory.Shutdown()
		synctest.Wait()
	})
}

// A lagging watch delivers all events late and in order. Other watches and all lists are immediate.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := w.kube.CoreV1().Secrets("default").Create(ctx,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "early"}}, metav1.CreateOptions{})
		check(t, err)
		w.Lag("", func(resource string) time.Duration {
			return map[string]time.Duration{"secrets": 2 * time.Second}[resource]
		})
		factory := informers.NewSharedInformerFactory(w.kube, 0)
		secrets, maps := factory.Core().V1().Secrets().Informer(), factory.Core().V1().ConfigMaps().Informer()
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		began := len(secrets.GetStore().ListKeys())
		_, err = w.kube.CoreV1().Secrets("default").Create(ctx,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
		check(t, err)
		_, err = w.kube.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "at-once"}}, metav1.CreateOptions{})
		check(t, err)
		var seen []int
		for range 3 {
			synctest.Wait()
			seen = append(seen, len(secrets.GetStore().ListKeys())-began)
			time.Sleep(1500 * time.Millisecond)
		}
		if _, found, _ := maps.GetStore().GetByKey("default/at-once"); !found || began == 0 {
			t.Errorf("objects without a lag must be visible: ConfigMap %v, %d Secrets at the start", found, began)
		}
		if diff := cmp.Diff([]int{0, 0, 1}, seen); diff != "" {
			t.Errorf("Secrets seen after 0, 1.5 and 3 seconds (-want +got):\n%s", diff)
		}
		cancel()
		factory.Shutdown()
		synctest.Wait()
	})
}

func TestCutAfter_AndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := newWorld(t), t.Context()
		other, err := kubernetes.NewForConfig(w.Config("other"))
		check(t, err)
		stopped := false
		w.ResetLog()
		w.CutAfter("test", 2, func() { stopped = true })
		var errs []bool
		for i := range 4 {
			_, err := w.kube.CoreV1().ConfigMaps("default").Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i)}}, metav1.CreateOptions{})
			errs = append(errs, err != nil)
		}
		synctest.Wait()
		if diff := cmp.Diff([]bool{false, false, true, true}, errs); diff != "" || !stopped {
			t.Errorf("disconnected after two writes (stopped %v) (-want +got):\n%s", stopped, diff)
		}
		if _, err := other.CoreV1().ConfigMaps("default").Get(ctx, "m1", metav1.GetOptions{}); err != nil {
			t.Errorf("other clients must continue: %v", err)
		}
		w.Mend("test")
		if _, err := w.kube.CoreV1().ConfigMaps("default").Get(ctx, "m1", metav1.GetOptions{}); err != nil {
			t.Errorf("after the repair: %v", err)
		}
		if diff := cmp.Diff(map[string]int{"create configmaps": 2, "get configmaps": 1}, w.Count("test")); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		w.Intercept(func(r Request) error {
			if r.Verb == "delete" {
				return apierrors.NewInternalError(errors.New("broken disk"))
			}
			return nil
		})
		if err := w.kube.CoreV1().ConfigMaps("default").Delete(ctx, "m1",
			metav1.DeleteOptions{}); !apierrors.IsInternalError(err) {
			t.Errorf("intercepted: %v", err)
		}
	})
}

// A Server does not give new objects the UIDs that objects from another Server have.
func TestAdd_KeepsUIDsOfAnotherServer(t *testing.T) {
	first, second := newWorld(t), newWorld(t)
	brought := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "brought"}}
	for range 3 {
		brought.Name += "x"
		check(t, first.Add(brought))
	}
	found := brought.DeepCopy()
	_, err := first.Get(found)
	check(t, err)
	check(t, second.Add(found))
	made, err := second.kube.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "made"}}, metav1.CreateOptions{})
	check(t, err)
	if made.UID <= found.UID {
		t.Errorf("a new object has UID %s, after an added object with %s", made.UID, found.UID)
	}
}

func TestAddAndGet(t *testing.T) {
	w := newWorld(t)
	check(t, w.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "anywhere", Name: "p"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning}}))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "anywhere", Name: "p"}}
	if found, err := w.Get(pod); err != nil || !found || pod.Status.Phase != corev1.PodRunning {
		t.Errorf("pod: %v %v %v", found, err, pod)
	}
	if len(w.Log()) != 0 {
		t.Errorf("the setup must leave no requests in the log: %v", w.Log())
	}
	raw, err := json.Marshal(pod)
	check(t, err)
	if !strings.Contains(string(raw), "00000000-0000-4000-8000-") {
		t.Errorf("no UID: %s", raw)
	}
}
