package server

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// publishedBy starts a server, lets it lead, and stops it. It returns the published data, and whether the server wrote
// them.
func publishedBy(t *testing.T, api *memkube.Server, settings Settings) (data map[string]string, wrote bool) {
	t.Helper()
	opts := options(t, api)
	opts.Settings = settings
	s, err := New(opts)
	check(t, err)
	before := len(api.Writes("drover"))
	stop := start(t, s.Start)
	settle()
	stop()
	wrote = slices.ContainsFunc(api.Writes("drover")[before:], func(e memkube.Entry) bool {
		return e.Resource == "configmaps"
	})
	published := settings.ConfigMap("test")
	found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: published.Namespace, Name: published.Name}}
	if there, err := api.Get(found); err != nil || !there {
		t.Fatalf("no settings are published: %v", err)
	}
	return found.Data, wrote
}

// The leader publishes its settings, writes only differences, and removes settings that are no longer set.
func TestLead_PublishesSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		first := Settings{ServerURL: "https://drover.example.com", SystemDefaultRegistry: "r.example.com",
			SystemAgentInstallerImage: "i-"}
		second := Settings{ServerURL: "https://drover.example.com", SystemDefaultRegistry: "other.example.com"}
		for _, term := range []struct {
			name      string
			settings  Settings
			wantWrite bool
		}{{"a first start", first, true}, {"a restart", first, false}, {"other settings", second, true}} {
			data, wrote := publishedBy(t, api, term.settings)
			term.settings.ClusterAgentImage = "drover-io/drover:test" // the image that clusters get
			if diff := cmp.Diff(term.settings.ConfigMap("test").Data, data); diff != "" || wrote != term.wantWrite {
				t.Errorf("%s: wrote %v, published (-want +got):\n%s", term.name, wrote, diff)
			}
		}
	})
}

// Every user may get the published settings by name. An operator's own grant stays unchanged.
func TestLead_GrantsUsersTheSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		operator, err := kubernetes.NewForConfig(api.Config("operator"))
		check(t, err)
		publishedBy(t, api, Settings{ServerURL: "https://drover.example.com"})
		name := (Settings{}).ConfigMap("test").Name
		role, err := operator.RbacV1().Roles(controllers.SettingsNamespace).Get(t.Context(), name, metav1.GetOptions{})
		check(t, err)
		binding, err := operator.RbacV1().RoleBindings(controllers.SettingsNamespace).Get(t.Context(), name,
			metav1.GetOptions{})
		check(t, err)
		want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{name}, Verbs: []string{"get"}}}
		if diff := cmp.Diff(want, role.Rules); diff != "" || binding.RoleRef.Name != name ||
			len(binding.Subjects) != 1 || binding.Subjects[0].Name != "system:authenticated" {
			t.Errorf("binding %v, rules (-want +got):\n%s", binding, diff)
		}
		binding.Subjects = nil
		_, err = operator.RbacV1().RoleBindings(binding.Namespace).Update(t.Context(), binding, metav1.UpdateOptions{})
		check(t, err)
		publishedBy(t, api, Settings{ServerURL: "https://drover.example.com"})
		binding, err = operator.RbacV1().RoleBindings(binding.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || len(binding.Subjects) != 0 {
			t.Errorf("the operator's binding has changed to %v, %v", binding, err)
		}
	})
}

// If the API server rejects the settings for a while, the same term publishes them later. Leading does not wait for it.
func TestLead_RetriesPublishing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, refused := range map[string]func(memkube.Request) bool{
			"reads fail":  func(r memkube.Request) bool { return r.Verb == "get" },
			"writes fail": func(r memkube.Request) bool { return r.Verb == "create" },
			"all fails":   func(memkube.Request) bool { return true },
		} {
			api := newAPI(t)
			opts := options(t, api)
			s, err := New(opts)
			check(t, err)
			wanted := opts.Settings.ConfigMap("test")
			published := func() bool {
				there, err := api.Get(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace,
					Name: wanted.Name}})
				check(t, err)
				return there
			}
			tries := 0
			api.Intercept(func(r memkube.Request) error {
				if r.Resource.Resource != "configmaps" || r.Namespace != wanted.Namespace || !refused(r) {
					return nil
				}
				tries++
				return apierrors.NewInternalError(errors.New("passing"))
			})
			stop := start(t, s.Start)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if !s.leading.Load() || published() || tries < 10 || tries > 30 {
				t.Errorf("%s: leads %v, published %v, %d attempts in ten minutes", name, s.leading.Load(), published(),
					tries)
			}
			api.Intercept(nil)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if !published() {
				t.Errorf("%s: not published after the end of the failures", name)
			}
			stop()
		}
	})
}

// A term can end although its settings were never published.
func TestLead_EndsBeforePublishing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		api.Intercept(func(r memkube.Request) error {
			if r.Resource.Resource == "configmaps" && r.Verb == "get" {
				return apierrors.NewServiceUnavailable("never")
			}
			return nil
		})
		s, err := New(options(t, api))
		check(t, err)
		stop := start(t, s.Start)
		settle()
		ended := make(chan struct{})
		go func() { defer close(ended); stop() }()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("the server does not stop")
		}
	})
}
