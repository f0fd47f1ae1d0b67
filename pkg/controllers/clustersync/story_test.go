package clustersync_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// Copies arrive when the agent connects, follow their sources, and are repaired. Otherwise nothing is written.
func TestStory_CopiesFollowTheirSources(t *testing.T) {
	tell(t, func(w *world) {
		w.add(source("creds", provv1.SyncTargetNameAnnotation, "login"), sourceConfigMap("config"),
			source("for-others", rkev1.AuthorizedObjectAnnotation, "others"))
		if log := w.cluster.Count(inside); len(log) > 0 {
			t.Fatalf("requests before the agent is connected: %v", log)
		}
		w.connect(true)
		w.pass()
		secret, config := w.copied(system, "login"), w.copiedConfigMap(fleet, "config")
		if secret == nil || config == nil || w.copied(system, "for-others") != nil {
			t.Fatalf("Secret %v, ConfigMap %v; log %s", secret != nil, config != nil, w.log)
		}
		want := map[string]string{"username": "of " + id, "password": "hunter2hunter2"}
		if diff := cmp.Diff(want, text(secret)); diff != "" ||
			secret.Type != corev1.SecretTypeBasicAuth || config.Data["config"] != "id="+id ||
			string(config.BinaryData["binary"]) != "{{clusterId}}" {
			t.Errorf("Secret of type %s, ConfigMap %v (-want +got):\n%s", secret.Type, config.Data, diff)
		}
		if secret.Labels[provv1.SyncedForLabel] != id ||
			secret.Annotations[provv1.SyncedFromAnnotation] != fleet+"/creds" ||
			secret.Annotations[provv1.SyncAnnotation] != "" {
			t.Errorf("labels %v, annotations %v", secret.Labels, secret.Annotations)
		}
		w.quiet(3 * time.Hour)

		w.edit("creds", func(s *corev1.Secret) { s.Data["password"] = []byte("another-one") })
		if got := text(w.copied(system, "login"))["password"]; got != "another-one" || w.cluster.Written(inside) != 1 {
			t.Errorf("after an edit, the copy has %q; %d writes", got, w.cluster.Written(inside))
		}
		w.editCopy(system, "login", func(s *corev1.Secret) {
			s.Labels["of"], s.Data["more"] = "an administrator", []byte("x")
		})
		w.elapse(16 * time.Minute)
		if got := w.copied(system, "login"); len(got.Data) != 2 || got.Labels["of"] == "" {
			t.Errorf("after an edit in the cluster, the copy has keys %v and labels %v", text(got), got.Labels)
		}
		w.edit("creds", func(s *corev1.Secret) { s.Annotations[provv1.SyncTargetNameAnnotation] = "renamed" })
		if w.copied(system, "login") != nil || w.copied(system, "renamed") == nil {
			t.Error("the copy does not have its new name alone")
		}
		w.edit("creds", func(s *corev1.Secret) { s.Annotations[rkev1.AuthorizedObjectAnnotation] = "other" })
		if w.copied(system, "renamed") != nil {
			t.Error("the cluster keeps a copy without authorization")
		}
		must(t, w.user.CoreV1().ConfigMaps(fleet).Delete(t.Context(), "config", metav1.DeleteOptions{}))
		w.pass()
		if w.copiedConfigMap(fleet, "config") != nil {
			t.Error("the cluster keeps the copy of a deleted ConfigMap")
		}
		if told := w.announced(); len(told) > 0 || strings.Contains(w.log.String(), "hunter2") {
			t.Errorf("Events %v, log %s", told, w.log)
		}
		w.quiet(time.Hour)
	})
}

func text(secret *corev1.Secret) map[string]string {
	out := map[string]string{}
	for key, value := range secret.Data {
		out[key] = string(value)
	}
	return out
}

// What happened while the cluster was disconnected, or while Drover did not run, takes effect afterwards.
func TestStory_ChangesDuringAnAbsence(t *testing.T) {
	tell(t, func(w *world) {
		w.connect(true)
		w.add(source("a"), source("b"), source("c"))
		w.connect(false)
		must(t, w.user.CoreV1().Secrets(fleet).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		w.elapse(time.Hour)
		if w.copied(system, "a") == nil || w.copied(system, "b") == nil {
			t.Fatal("the copies are missing")
		}
		w.connect(true)
		w.pass()
		if w.copied(system, "a") != nil {
			t.Error("a deletion during the disconnection is lost")
		}
		w.stop()
		must(t, w.user.CoreV1().Secrets(fleet).Delete(t.Context(), "b", metav1.DeleteOptions{}))
		w.start()
		w.pass()
		if w.copied(system, "b") != nil || w.copied(system, "c") == nil {
			t.Error("a deletion without a running controller is lost")
		}
		w.editCopy(system, "c", func(s *corev1.Secret) { s.Data["password"] = nil })
		w.connect(true) // a new session
		w.pass()
		if got := text(w.copied(system, "c"))["password"]; got != "hunter2hunter2" {
			t.Errorf("after a new connection, the password is %q", got)
		}
	})
}

// An object that Drover did not copy is neither overwritten nor deleted.
func TestStory_ForeignObjectsStay(t *testing.T) {
	tell(t, func(w *world) {
		foreign := source("creds")
		foreign.Namespace, foreign.Annotations = system, nil
		foreign.Data = map[string][]byte{"username": []byte("theirs")}
		equal := source("equal")
		equal.Namespace, equal.Annotations, equal.Data["username"] = system, nil, []byte("of "+id)
		must(t, w.cluster.Add(foreign, equal))
		w.connect(true)
		w.add(source("creds"), source("equal"))
		w.quiet(time.Hour)
		if got := text(w.copied(system, "creds"))["username"]; got != "theirs" {
			t.Errorf("the foreign Secret has %q", got)
		}
		want := []string{"Secret creds: Not copied into cluster demo: Secret kube-system/creds exists in cluster " +
			"demo and is not a copy of Drover: delete it, or set another name or namespace"}
		if diff := cmp.Diff(want, w.announced()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
		for _, name := range []string{"creds", "equal"} {
			must(t, w.user.CoreV1().Secrets(fleet).Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		w.pass()
		if w.copied(system, "creds") == nil || w.copied(system, "equal") == nil {
			t.Fatal("foreign Secrets are deleted with the sources")
		}
		w.add(source("creds"))
		must(t, w.admin.CoreV1().Secrets(system).Delete(t.Context(), "creds", metav1.DeleteOptions{}))
		w.elapse(5 * time.Minute)
		if got := w.copied(system, "creds"); got == nil || got.Labels[provv1.SyncedForLabel] == "" {
			t.Error("there is no copy after the name became free")
		}
	})
}

// An object that cannot be copied gets one Event that says why, without its data. It delays no other.
func TestStory_RefusalsAreAnnounced(t *testing.T) {
	tell(t, func(w *world) {
		w.cluster.Intercept(func(r memkube.Request) error {
			if r.Verb == "create" && strings.Contains(string(r.Body), "denied") {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "denied",
					apierrors.NewBadRequest("the password hunter2hunter2 is weak"))
			}
			return nil
		})
		token := source("token")
		token.Type = corev1.SecretTypeServiceAccountToken
		token.Annotations["kubernetes.io/service-account.name"] = "default"
		large := source("large")
		large.Data["password"] = slices.Repeat([]byte("x"), 2000)
		w.connect(true)
		w.add(source("elsewhere", provv1.SyncTargetNamespaceAnnotation, "other"),
			source("named", provv1.SyncTargetNameAnnotation, "No Name"), token, large, source("x"),
			source("y", provv1.SyncTargetNameAnnotation, "x"), source("denied"))
		w.elapse(time.Hour)
		want := []string{
			`Secret denied: Not copied into cluster demo: cluster demo refuses the copy: `,
			`Secret elsewhere: Not copied into cluster demo: annotation ` +
				`provisioning.cattle.io/sync-target-namespace is "other": it must be kube-system, or empty for namespace ` +
				`fleet-default`,
			`Secret large: Not copied into cluster demo: the Secret has 2032 bytes, more than limit`,
			`Secret named: Not copied into cluster demo: annotation provisioning.cattle.io/sync-target-name is ` +
				`"No Name": `,
			`Secret token: Not copied into cluster demo: a Secret of type kubernetes.io/service-account-token is valid`,
			`Secret y: Not copied into cluster demo: Secret fleet-default/x has the same target kube-system/x`,
		}
		told := w.announced()
		slices.Sort(told)
		if len(told) != len(want) {
			t.Fatalf("Events %q", told)
		}
		for i, event := range told {
			if !strings.HasPrefix(event, want[i]) || strings.Contains(event, "hunter2") {
				t.Errorf("Event %q, want %q", event, want[i])
			}
		}
		if w.copied(system, "x") == nil {
			t.Error("the others wait for them")
		}
	})
}

// A source that becomes too large keeps its copy, and the user is told.
func TestStory_ASourceThatIsNotReadKeepsItsCopy(t *testing.T) {
	tell(t, func(w *world) {
		w.connect(true)
		w.add(source("creds"))
		w.edit("creds", func(s *corev1.Secret) { s.Data["more"] = slices.Repeat([]byte("x"), 2000) })
		w.elapse(time.Hour)
		if got := w.copied(system, "creds"); got == nil || len(got.Data) != 2 {
			t.Errorf("the copy is %v", got != nil)
		}
		if told := w.announced(); len(told) != 1 || !strings.Contains(told[0], "bytes, more than limit") {
			t.Errorf("Events %q", told)
		}
	})
}

// Kubernetes refuses another type, and a change of an immutable object. Such copies are replaced.
func TestStory_CopiesThatCannotBeChangedAreReplaced(t *testing.T) {
	tell(t, func(w *world) {
		w.connect(true)
		w.add(source("typed"), source("fixed"))
		w.editCopy(system, "fixed", func(s *corev1.Secret) { s.Immutable = new(true) })
		before := w.copied(system, "fixed").UID
		w.edit("fixed", func(s *corev1.Secret) { s.Data["password"] = []byte("another-one") })
		if got := w.copied(system, "fixed"); got == nil || got.UID == before || text(got)["password"] != "another-one" {
			t.Error("the immutable copy is not replaced")
		}
		must(t, w.user.CoreV1().Secrets(fleet).Delete(t.Context(), "typed", metav1.DeleteOptions{}))
		other := source("typed")
		other.Type = corev1.SecretTypeOpaque
		w.add(other)
		if got := w.copied(system, "typed"); got == nil || got.Type != corev1.SecretTypeOpaque {
			t.Error("the copy does not have the new type")
		}
		w.quiet(time.Hour)
	})
}

// A missing namespace is a problem that ends without an event here.
func TestStory_TheNamespaceIsCreatedLater(t *testing.T) {
	tell(t, func(w *world) {
		w.cluster = memkube.New(memkube.Options{})
		w.connect(true)
		w.add(sourceConfigMap("config"))
		want := []string{"ConfigMap config: Not copied into cluster demo: namespace fleet-default does not exist in " +
			"cluster demo"}
		if diff := cmp.Diff(want, w.announced()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
		must(t, w.cluster.Add(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: fleet}}))
		w.elapse(3 * time.Minute)
		if w.copiedConfigMap(fleet, "config") == nil {
			t.Error("there is no copy")
		}
	})
}

// Drover writes nothing into clusters of other instances, and leaves the copies in clusters that are being deleted.
func TestStory_OnlyClustersOfThisInstance(t *testing.T) {
	tell(t, func(w *world) {
		w.connect(true)
		w.add(source("a"))
		cluster, err := w.user.CoreV1().RESTClient().Patch("application/merge-patch+json").
			AbsPath("/apis/provisioning.cattle.io/v1/namespaces/" + fleet + "/clusters/demo").
			Body([]byte(`{"metadata":{"annotations":{"` + rkev1.InstanceAnnotation + `":"instance-2"}}}`)).
			Do(t.Context()).Raw()
		must(t, err)
		if len(cluster) == 0 {
			t.Fatal("no answer")
		}
		must(t, w.user.CoreV1().Secrets(fleet).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		w.add(source("b"))
		w.connect(true)
		w.quiet(time.Hour)
		if w.copied(system, "a") == nil || w.copied(system, "b") != nil {
			t.Error("the other instance's cluster is changed")
		}
	})
}

// A cluster that fails is retried, and its answers never reach the log with the data of a copy.
func TestStory_FailuresAreRetried(t *testing.T) {
	tell(t, func(w *world) {
		busy := true
		w.cluster.Intercept(func(r memkube.Request) error {
			if busy && r.Verb == "create" {
				return apierrors.NewInternalError(apierrors.NewBadRequest("cannot store hunter2hunter2"))
			}
			return nil
		})
		w.connect(true)
		w.add(source("a"))
		w.elapse(time.Minute)
		if log := w.log.String(); !strings.Contains(log, "Cannot update the copies") ||
			strings.Contains(log, "hunter2") {
			t.Errorf("log %s", log)
		}
		busy = false
		w.cluster.Intercept(nil)
		w.elapse(5 * time.Minute)
		if w.copied(system, "a") == nil {
			t.Error("there is no copy")
		}
	})
}
