package rehearsal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const (
	namespace  = "ns"
	management = "c-m-1"
)

// world is a stage in front of an API server, with its clients.
type world struct {
	*testing.T
	api      *memkube.Server
	stage    *Stage
	clients  *clients.Clients
	secrets  secretClient
	accounts accountClient
}

type (
	secretClient  = kind[*corev1.Secret, *corev1.SecretList]
	accountClient = kind[*corev1.ServiceAccount, *corev1.ServiceAccountList]
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

// play runs f on a stage, and fails if it wrote a live object.
func play(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		w := &world{T: t,
			api: memkube.New(memkube.Options{Scheme: scheme, Namespaces: []string{namespace, management}})}
		kinds := metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
		must(t, w.api.Add(&corev1.Secret{TypeMeta: kinds, ObjectMeta: named("there"),
			Data: map[string][]byte{"a": []byte("PASSWORD")}}))
		must(t, w.api.Add(&corev1.Secret{TypeMeta: kinds, ObjectMeta: named("other")}))
		w.clients, err = clients.New(w.api.Config("stage"), clients.Options{WithoutDynamic: true})
		must(t, err)
		defer w.clients.Stop()
		live, err := dynamic.NewForConfig(w.api.Config("stage"))
		must(t, err)
		w.stage = New(t.Context(), Options{Live: live, Discovery: w.clients.Kubernetes.Discovery(), Scheme: scheme,
			Namespace: namespace})
		w.stage.Begin(management, time.Now())
		w.secrets = Kind(w.stage, w.clients.Core.Secret()).(secretClient)
		w.accounts = Kind(w.stage, w.clients.Core.ServiceAccount()).(accountClient)
		f(w)
		for _, write := range w.api.Writes("") {
			t.Errorf("written live: %s", write)
		}
	})
}

// wants compares the differences.
func (w *world) wants(want ...string) {
	w.Helper()
	found, err := w.stage.Differences()
	must(w.T, err)
	var got []string
	for _, d := range found {
		if text := fmt.Sprint(d.Patch); strings.Contains(text, "PASSWORD") || strings.Contains(text, "UEFTU1dPUkQ") {
			w.Errorf("contents are told: %s", text)
		}
		line := fmt.Sprintf("%s %s %s", d.Verb, d.Kind.Kind, d.Name)
		if len(d.Patch) > 0 {
			line += fmt.Sprint(" ", d.Patch)
		}
		got = append(got, line)
	}
	w.equal(want, got)
}

func (w *world) equal(want, got any) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("(-want +got):\n%s", diff)
	}
}

// get returns a copy of a Secret on the stage, nil if it does not exist.
func (w *world) get(name string) *corev1.Secret {
	w.Helper()
	found, err := clients.Optional(w.secrets.Cache().Get(namespace, name))
	must(w.T, err)
	return found.DeepCopy()
}

func TestStage_WhatIsWrittenIsSeenAndToldAndNowhereElse(t *testing.T) {
	play(t, func(w *world) {
		there := w.get("there")
		stored, err := w.secrets.Update(there.DeepCopy())
		must(t, err)
		if stored.ResourceVersion != there.ResourceVersion || w.stage.Changes() != 0 {
			t.Errorf("a write of what is there counts: %d changes, version %s", w.stage.Changes(),
				stored.ResourceVersion)
		}
		w.wants()
		made, err := w.secrets.Create(&corev1.Secret{ObjectMeta: named("made"),
			Data: map[string][]byte{"b": []byte("PASSWORD")}})
		must(t, err)
		if made.UID == "" || made.ResourceVersion == "" || made.CreationTimestamp.IsZero() {
			t.Errorf("%+v", made.ObjectMeta)
		}
		if _, err := w.secrets.Create(&corev1.Secret{ObjectMeta: named("there")}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("what is there is made: %v", err)
		}
		next := there.DeepCopy()
		next.Labels, next.Data = map[string]string{"l": "v"}, map[string][]byte{"c": []byte("PASSWORD")}
		next.StringData = map[string]string{"d": "PASSWORD"}
		stored, err = w.secrets.Update(next)
		must(t, err)
		if stored.UID != there.UID || stored.ResourceVersion == there.ResourceVersion {
			t.Errorf("%+v", stored.ObjectMeta)
		}
		if _, err := w.secrets.Update(next); !apierrors.IsConflict(err) {
			t.Errorf("an old version is written: %v", err)
		}
		must(t, w.secrets.Delete(namespace, "other", nil))
		all, err := w.secrets.Cache().List(namespace, labels.Everything())
		must(t, err)
		if len(all) != 2 || all[0].Name != "made" || all[1].Name != "there" || w.get("other") != nil {
			t.Errorf("%v", all)
		}
		w.wants("Create Secret made", "Delete Secret other",
			"Update Secret there map[data:map[a:<nil> c:<nil>] metadata:map[labels:map[l:v]] stringData:map[d:<nil>]]")
		w.stage.Assume()
		w.wants()
	})
}

// An object with a finalizer is deleted only when the finalizer is removed. An update does not undo a deletion.
func TestStage_DeletesAsTheAPIServerDoes(t *testing.T) {
	play(t, func(w *world) {
		held := w.get("there")
		held.Finalizers = []string{"x/y"}
		held, err := w.secrets.Update(held)
		must(t, err)
		w.stage.Assume()
		must(t, w.secrets.Delete(namespace, "there", nil))
		w.wants("Delete Secret there")
		changes := w.stage.Changes()
		must(t, w.secrets.Delete(namespace, "there", nil))
		deleted := w.get("there")
		if w.stage.Changes() != changes || deleted.DeletionTimestamp == nil ||
			deleted.ResourceVersion == held.ResourceVersion {
			t.Errorf("%d changes, want %d: %+v", w.stage.Changes(), changes, deleted.ObjectMeta)
		}
		deleted.DeletionTimestamp, deleted.Labels = nil, map[string]string{"l": "v"}
		free, err := w.secrets.Update(deleted)
		must(t, err)
		if free.DeletionTimestamp == nil {
			t.Error("an update has brought it back")
		}
		free.Finalizers = nil
		_, err = w.secrets.Update(free)
		must(t, err)
		if w.get("there") != nil {
			t.Error("the Secret remains without a finalizer")
		}
		w.wants("Delete Secret there")
	})
}

func TestStage_Patches(t *testing.T) {
	play(t, func(w *world) {
		patch := func(name string, pt types.PatchType, body string) error {
			_, err := w.secrets.Patch(namespace, name, pt, []byte(body))
			return err
		}
		must(t, patch("there", types.MergePatchType, `{"metadata":{"labels":{"gone":null}}}`))
		w.wants()
		must(t, patch("there", types.MergePatchType, `{"metadata":{"labels":{"merge":"1"}}}`))
		must(t, patch("there", types.JSONPatchType,
			`[{"op":"add","path":"/metadata/annotations","value":{"json":"1"}}]`))
		must(t, patch("there", types.StrategicMergePatchType, `{"metadata":{"finalizers":["x/y"]}}`))
		if err := patch("there", types.ApplyPatchType, ""); !apierrors.IsBadRequest(err) {
			t.Errorf("a patch that is not understood: %v", err)
		}
		if err := patch("nobody", types.MergePatchType, `{}`); !apierrors.IsNotFound(err) {
			t.Errorf("what is not there: %v", err)
		}
		w.wants("Update Secret there map[metadata:map[annotations:map[json:1] finalizers:[x/y] labels:map[merge:1]]]")
	})
}

// A controller that creates an account and its token can use the token at once.
func TestStage_FillsInTokens(t *testing.T) {
	play(t, func(w *world) {
		account, err := w.accounts.Create(&corev1.ServiceAccount{ObjectMeta: named("account")})
		must(t, err)
		token := &corev1.Secret{ObjectMeta: named("token"), Type: corev1.SecretTypeServiceAccountToken}
		token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "account"}
		stored, err := w.secrets.Create(token)
		must(t, err)
		if stored.Annotations[corev1.ServiceAccountUIDKey] != string(account.UID) ||
			len(stored.Data[corev1.ServiceAccountTokenKey]) == 0 {
			t.Errorf("%+v", stored)
		}
	})
}

// Unreadable objects leave no partial writes.
func TestTry_TakesBackWhatIsNotKnown(t *testing.T) {
	play(t, func(w *world) {
		w.api.Intercept(func(r memkube.Request) error {
			if r.Resource.Resource == "serviceaccounts" {
				return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, errors.New("no right"))
			}
			return nil
		})
		write := func(name string) error {
			_, err := w.secrets.Create(&corev1.Secret{ObjectMeta: named(name)})
			return err
		}
		unread, err := w.stage.Try(func() error { return write("kept") })
		must(t, err)
		w.equal([]string(nil), unread)
		for range 2 { // the second time without a request
			unread, err = w.stage.Try(func() error {
				must(t, write("half"))
				must(t, w.secrets.Delete(namespace, "there", nil))
				_, got := w.accounts.Cache().Get(namespace, "a")
				_, listed := w.accounts.Cache().List(namespace, labels.Everything())
				return errors.Join(got, listed)
			})
			must(t, err)
			w.equal([]string{"you may not get serviceaccounts in namespace ns",
				"you may not list serviceaccounts in namespace ns"}, unread)
		}
		w.wants("Create Secret kept")
		failed := errors.New("refused")
		if _, err := w.stage.Try(func() error { return failed }); !errors.Is(err, failed) {
			t.Errorf("%v", err)
		}
	})
}

// A failing API server is reported as unread, and the stage does not read objects one by one after a failed list.
func TestTry_TellsWhatTheAPIServerFailsAt(t *testing.T) {
	play(t, func(w *world) {
		asked := 0
		w.api.Intercept(func(r memkube.Request) error {
			if r.Resource.Resource != "serviceaccounts" {
				return nil
			}
			asked++
			return apierrors.NewInternalError(errors.New("the store is down"))
		})
		get := func(name string) func() error {
			return func() error {
				_, err := w.accounts.Cache().Get(namespace, name)
				return err
			}
		}
		const down = " serviceaccounts in namespace ns: Internal error occurred: the store is down"
		for _, step := range []struct {
			act   func() error
			want  string
			asked int
		}{
			{get("a"), "get" + down, 1},
			{get("a"), "get" + down, 1},
			{func() error { w.stage.ReadAll(corev1.SchemeGroupVersion.WithKind("ServiceAccount")); return get("b")() },
				"list" + down, 2},
			{get("c"), "list" + down, 2},
			{func() error { _, err := w.accounts.List(namespace, metav1.ListOptions{}); return err }, "list" + down, 3},
		} {
			unread, err := w.stage.Try(step.act)
			must(t, err)
			w.equal([]string{step.want}, unread)
			w.equal(step.asked, asked)
		}
	})
}

// Apply sets on the stage use the same code as live ones.
func TestApply_KeepsSets(t *testing.T) {
	play(t, func(w *world) {
		owner := w.get("there")
		kinds := []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
			rbacv1.SchemeGroupVersion.WithKind("Role")}
		apply := func(objects ...runtime.Object) applyset.Result {
			done, err := w.stage.Apply().Apply(t.Context(), "set", owner, applyset.OwnerRef, kinds, objects)
			must(t, err)
			return done
		}
		role := &rbacv1.Role{ObjectMeta: named("role"),
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, Resources: []string{"secrets"},
				APIGroups: []string{""}}}}
		apply(&corev1.ServiceAccount{ObjectMeta: named("account")}, role)
		w.wants("Create ServiceAccount account", "Create Role role")
		w.equal(applyset.Result{}, apply(&corev1.ServiceAccount{ObjectMeta: named("account")}, role))
		w.stage.Assume()
		changed := role.DeepCopy()
		changed.Rules[0].Verbs = []string{"list"}
		apply(changed)
		found, err := w.stage.Differences()
		must(t, err)
		var got []string
		for _, d := range found {
			got = append(got, fmt.Sprintf("%s %s %v", d.Verb, d.Name, d.Patch["rules"] != nil))
		}
		w.equal([]string{"Delete account false", "Update role true"}, got)
		sets := w.stage.Secrets(w.secrets)
		for range 2 {
			_, err := sets.Apply(t.Context(), "set", owner, applyset.OwnerRef,
				[]*corev1.Secret{{ObjectMeta: named("kept")}})
			must(t, err)
		}
		if w.get("kept") == nil {
			t.Error("the Secret is not there")
		}
	})
}

// The stage requests each object once. Indexes find objects of other namespaces once all are read. Earlier writes on
// the stage stay.
func TestKind_FindsByIndex(t *testing.T) {
	play(t, func(w *world) {
		asked := 0
		w.api.Intercept(func(memkube.Request) error { asked++; return nil })
		cache := w.secrets.Cache()
		if _, err := cache.GetByIndex("size", "1"); err == nil {
			t.Error("an index that does not exist finds something")
		}
		cache.AddIndexer("size", func(s *corev1.Secret) ([]string, error) {
			return []string{strconv.Itoa(len(s.Data))}, nil
		})
		finds := func(want string) {
			t.Helper()
			found, err := cache.GetByIndex("size", "1")
			must(t, err)
			if len(found) != 1 || found[0].Name != want {
				t.Errorf("%v, want %s", found, want)
			}
		}
		for range 3 {
			if w.get("absent") != nil {
				t.Error("an absent one is there")
			}
			finds("there")
		}
		w.equal(2, asked) // one for what is absent, one for all
		must(t, w.api.Add(&corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: management, Name: "away"}, Data: map[string][]byte{"a": nil},
		}))
		must(t, w.secrets.Delete(namespace, "there", nil))
		must(t, w.stage.ReadEverywhere(secretKind))
		finds("away")
		here, err := cache.List(namespace, labels.Everything())
		must(t, err)
		if len(here) != 1 || here[0].Name != "other" {
			t.Errorf("%v", here)
		}
	})
}
