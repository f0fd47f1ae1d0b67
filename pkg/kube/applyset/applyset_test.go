package applyset

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

var (
	configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	services   = corev1.SchemeGroupVersion.WithKind("Service")
	secretKind = corev1.SchemeGroupVersion.WithKind("Secret")
	both       = []schema.GroupVersionKind{configMaps, services}
)

const setID = "test-set"

// fixture is an API with caches of ConfigMaps, Services and Secrets, and an owner.
type fixture struct {
	*testing.T
	api     *memkube.Server
	kube    kubernetes.Interface
	set     *Set
	secrets *Secrets
	owner   *corev1.ConfigMap
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// secretClient is a SecretClient for tests.
type secretClient struct{ kube kubernetes.Interface }

func (c secretClient) Create(s *corev1.Secret) (*corev1.Secret, error) {
	return c.kube.CoreV1().Secrets(s.Namespace).Create(context.Background(), s, metav1.CreateOptions{})
}

func (c secretClient) Update(s *corev1.Secret) (*corev1.Secret, error) {
	return c.kube.CoreV1().Secrets(s.Namespace).Update(context.Background(), s, metav1.UpdateOptions{})
}

func (c secretClient) Delete(namespace, name string, o *metav1.DeleteOptions) error {
	return c.kube.CoreV1().Secrets(namespace).Delete(context.Background(), name, *o)
}

func (c secretClient) Get(namespace, name string, o metav1.GetOptions) (*corev1.Secret, error) {
	return c.kube.CoreV1().Secrets(namespace).Get(context.Background(), name, o)
}

func run(t *testing.T, f func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		api := memkube.New(memkube.Options{Namespaces: []string{"ns", "other"}})
		kube, err := kubernetes.NewForConfig(api.Config("test"))
		check(t, err)
		live, err := dynamic.NewForConfig(api.Config("test"))
		check(t, err)
		factory := informers.NewSharedInformerFactory(kube, 0)
		set := New(Options{
			Discovery: kube.Discovery(), Dynamic: live, Scheme: kubescheme.Scheme,
			Informer: func(gvk schema.GroupVersionKind) (cache.SharedIndexInformer, error) {
				switch gvk {
				case configMaps:
					return factory.Core().V1().ConfigMaps().Informer(), nil
				case services:
					return factory.Core().V1().Services().Informer(), nil
				}
				return nil, fmt.Errorf("no cache of %s", gvk.Kind)
			},
		})
		check(t, set.Watch(both...))
		secrets, err := NewSecrets(kubescheme.Scheme, secretClient{kube}, factory.Core().V1().Secrets().Informer())
		check(t, err)
		owner, err := kube.CoreV1().ConfigMaps("ns").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
		check(t, err)
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		f(&fixture{t, api, kube, set, secrets, owner})
		cancel()
		factory.Shutdown()
	})
}

func (f *fixture) apply(objs ...runtime.Object) Result {
	f.Helper()
	result, err := f.set.Apply(f.Context(), setID, f.owner, OwnerRef, both, objs)
	check(f.T, err)
	synctest.Wait()
	return result
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
}

func (f *fixture) want(what string, want, got any) {
	f.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestApply_MakesChangesAndDeletes(t *testing.T) {
	run(t, func(f *fixture) {
		f.want("first", Result{Created: []string{"configmaps ns/a", "configmaps ns/b"}},
			f.apply(configMap("a", "1"), configMap("b", "1")))
		before := f.api.Changes()
		f.want("same", Result{}, f.apply(configMap("a", "1"), configMap("b", "1")))
		if f.api.Changes() != before {
			t.Error("an apply with nothing new must write nothing")
		}
		f.want("changed", Result{Updated: []string{"configmaps ns/a"}, Deleted: []string{"configmaps ns/b"}},
			f.apply(configMap("a", "2")))
		made, err := f.kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
		check(t, err)
		f.want("hash", naming.ApplySet(setID, "/v1, Kind=ConfigMap", "owner", "ns"),
			made.Labels["objectset.rio.cattle.io/hash"])
		f.want("id", setID, made.Annotations["objectset.rio.cattle.io/id"])
		f.want("owner kind", "/v1, Kind=ConfigMap", made.Annotations["objectset.rio.cattle.io/owner-gvk"])
		no := false
		f.want("owner",
			[]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: f.owner.UID,
				Controller: &no, BlockOwnerDeletion: &no}}, made.OwnerReferences)

		result, err := f.set.Purge(t.Context(), setID, configMaps, "ns", "owner", both)
		check(t, err)
		f.want("purge", Result{Deleted: []string{"configmaps ns/a"}}, result)
	})
}

// Apply keeps fields that others add, and removes fields that Drover no longer sets.
func TestApply_MergesThreeWays(t *testing.T) {
	run(t, func(f *fixture) {
		first := configMap("a", "1")
		first.Data["old"] = "x"
		f.apply(first)
		made, err := f.kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
		check(t, err)
		made.Data["theirs"] = "y"
		_, err = f.kube.CoreV1().ConfigMaps("ns").Update(t.Context(), made, metav1.UpdateOptions{})
		check(t, err)
		synctest.Wait()
		f.apply(configMap("a", "2"))
		made, err = f.kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
		check(t, err)
		f.want("data", map[string]string{"k": "2", "theirs": "y"}, made.Data)
	})
}

// More than wrangler's own limit is allowed, which is one change a second after ten.
func TestApply_EdgeRateLimit(t *testing.T) {
	run(t, func(f *fixture) {
		began := time.Now()
		for i := range 40 {
			f.apply(configMap("a", strconv.Itoa(i)))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("forty changes took %v", took)
		}
	})
}

// Apply does not list live objects. wrangler's apply lists a kind without a cache in all namespaces each time.
func TestApply_EdgeNoLiveLists(t *testing.T) {
	run(t, func(f *fixture) {
		f.api.ResetLog()
		f.apply(configMap("a", "1"))
		f.apply(configMap("a", "2"))
		for _, entry := range f.api.Log() {
			if entry.Verb == "list" {
				t.Errorf("live lists: %v", entry)
			}
		}
	})
}

func TestApply_Refuses(t *testing.T) {
	run(t, func(f *fixture) {
		f.apply(configMap("mine", "1"))
		stranger := configMap("stranger", "1")
		stranger, err := f.kube.CoreV1().ConfigMaps("ns").Create(t.Context(), stranger, metav1.CreateOptions{})
		check(t, err)
		synctest.Wait()
		fresh := configMap("owner", "")
		for name, tc := range map[string]struct {
			owner *corev1.ConfigMap
			kinds []schema.GroupVersionKind
			objs  []runtime.Object
			want  string
		}{
			"Secrets as objects, which would leak": {f.owner, both,
				[]runtime.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}},
				"Secret s: Secrets would leak"},
			"Secrets as a kind": {f.owner, []schema.GroupVersionKind{secretKind},
				[]runtime.Object{&corev1.Pod{}}, "Pod has no name"},
			"no objects": {f.owner, both, nil, "use Purge"},
			"the same object twice": {f.owner, both, []runtime.Object{configMap("a", "1"), configMap("a", "2")},
				"ConfigMap a appears twice"},
			"an owner without a UID": {fresh, both, []runtime.Object{configMap("a", "1")},
				`owner "owner" has no UID`},
			"a kind outside of the set": {f.owner, both,
				[]runtime.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}},
				"kind /v1, Kind=Pod is not one of the set"},
			"an object of another set": {stranger, both, []runtime.Object{configMap("mine", "2")},
				`belongs to set "test-set" of /v1, Kind=ConfigMap ns/owner`},
		} {
			_, err := f.set.Apply(t.Context(), setID, tc.owner, NoOwnerRef, tc.kinds, tc.objs)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got error %v, want %q", name, err, tc.want)
			}
			foreign, ok := errors.AsType[*ForeignError](err)
			if isForeign := name == "an object of another set"; ok != isForeign || ok &&
				(len(foreign.Objects) != 1 || foreign.Objects[0].Name != "mine") {
				t.Errorf("%s: objects of other sets: %+v", name, foreign)
			}
		}
	})
}

func TestApply_AdoptsObjectsWithoutAnOwner(t *testing.T) {
	run(t, func(f *fixture) {
		_, err := f.kube.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap("a", "theirs"), metav1.CreateOptions{})
		check(t, err)
		synctest.Wait()
		f.want("adopted", Result{Updated: []string{"configmaps ns/a"}}, f.apply(configMap("a", "1")))
	})
}

func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"token": value}}
}

func (f *fixture) applySecrets(desired ...*corev1.Secret) Result {
	f.Helper()
	result, err := f.secrets.Apply(f.Context(), setID, f.owner, ControllerRef, desired)
	check(f.T, err)
	synctest.Wait()
	return result
}

// Values of Secrets do not appear in annotations. wrangler's apply copies the first 64 characters of each value.
func TestSecrets_EdgeNothingLeaksIntoAnnotations(t *testing.T) {
	run(t, func(f *fixture) {
		f.want("first", Result{Created: []string{"secrets ns/s"}}, f.applySecrets(secret("s", "hush-hush")))
		made, err := f.kube.CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{})
		check(t, err)
		encoded := base64.StdEncoding.EncodeToString([]byte("hush-hush"))
		for key, value := range made.Annotations {
			if strings.Contains(value, "hush-hush") || strings.Contains(value, encoded) ||
				key == "objectset.rio.cattle.io/applied" {
				t.Errorf("annotation %s: %s", key, value)
			}
		}
		f.want("hash", naming.ApplySet(setID, "/v1, Kind=ConfigMap", "owner", "ns"),
			made.Labels["objectset.rio.cattle.io/hash"])
		f.want("data", map[string][]byte{"token": []byte("hush-hush")}, made.Data)
		f.want("owned", true, metav1.IsControlledBy(made, f.owner))
	})
}

func TestSecrets_ChangesTypesAndDeletes(t *testing.T) {
	run(t, func(f *fixture) {
		f.applySecrets(secret("a", "1"), secret("b", "1"))
		before := f.api.Changes()
		f.want("same", Result{}, f.applySecrets(secret("a", "1"), secret("b", "1")))
		if f.api.Changes() != before {
			t.Error("an apply with nothing new must write nothing")
		}
		labelled, err := f.kube.CoreV1().Secrets("ns").Get(t.Context(), "a", metav1.GetOptions{})
		check(t, err)
		labelled.Labels["theirs"] = "y"
		_, err = f.kube.CoreV1().Secrets("ns").Update(t.Context(), labelled, metav1.UpdateOptions{})
		check(t, err)
		synctest.Wait()
		f.want("changed", Result{Updated: []string{"secrets ns/a"}, Deleted: []string{"secrets ns/b"}},
			f.applySecrets(secret("a", "2")))
		labelled, err = f.kube.CoreV1().Secrets("ns").Get(t.Context(), "a", metav1.GetOptions{})
		check(t, err)
		f.want("foreign label", "y", labelled.Labels["theirs"])
		other := secret("a", "2")
		other.Type = "example.org/other"
		f.want("another type", Result{Created: []string{"secrets ns/a"}, Deleted: []string{"secrets ns/a"}},
			f.applySecrets(other))
		f.want("nothing desired", Result{Deleted: []string{"secrets ns/a"}}, f.applySecrets())
	})
}

// An apply keeps the token that the API server writes into the Secret of a service account.
func TestSecrets_KeepsTokens(t *testing.T) {
	run(t, func(f *fixture) {
		_, err := f.kube.CoreV1().ServiceAccounts("ns").Create(t.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}, metav1.CreateOptions{})
		check(t, err)
		token := func() *corev1.Secret {
			return &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "t",
					Annotations: map[string]string{corev1.ServiceAccountNameKey: "sa"}},
				Type: corev1.SecretTypeServiceAccountToken,
			}
		}
		f.applySecrets(token())
		f.want("again", Result{}, f.applySecrets(token()))
		made, err := f.kube.CoreV1().Secrets("ns").Get(t.Context(), "t", metav1.GetOptions{})
		check(t, err)
		f.want("token", memkube.Token("ns", "sa"), string(made.Data["token"]))
	})
}

func TestSecrets_RefusesForeignSecretsAndOtherNamespaces(t *testing.T) {
	run(t, func(f *fixture) {
		f.applySecrets(secret("mine", "1"))
		stranger, err := f.kube.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap("stranger", "1"),
			metav1.CreateOptions{})
		check(t, err)
		if _, err := f.secrets.Apply(t.Context(), setID, stranger, NoOwnerRef,
			[]*corev1.Secret{secret("mine", "2")}); err == nil || strings.Contains(err.Error(), "token") ||
			!strings.Contains(err.Error(), `it belongs to set "test-set"`) {
			t.Errorf("error: %v", err)
		}
		elsewhere := secret("far", "1")
		elsewhere.Namespace = "other"
		f.applySecrets(secret("mine", "1"), elsewhere)
		made, err := f.kube.CoreV1().Secrets("other").Get(t.Context(), "far", metav1.GetOptions{})
		check(t, err)
		if len(made.OwnerReferences) != 0 {
			t.Errorf("an owner in another namespace would cause the deletion of the Secret: %v", made.OwnerReferences)
		}
		result, err := f.secrets.Purge(t.Context(), setID, configMaps, "ns", "owner")
		check(t, err)
		f.want("purged", Result{Deleted: []string{"secrets ns/mine", "secrets other/far"}}, result)
	})
}
