package credential_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/controllers/credential"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	agent   = "drover/test"
	creator = "field.cattle.io/creatorId"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// world is a management cluster with the running controller.
type world struct {
	*testing.T
	api  *memkube.Server
	user *clients.Clients
	stop func()
	// cut is closed when the process is killed; nil if the test does not kill it.
	cut chan struct{}
}

func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t}
		w.api = memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions, Namespaces: []string{"team"},
			Permit: rights.Permit(t, agent)})
		w.user, err = clients.New(w.api.Config("user"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		w.start()
		defer func() { w.stop() }()
		f(w)
	})
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test", WithoutDynamic: true})
	must(w.T, err)
	must(w.T, credential.Register(c.HandlerContext(), credential.Deps{
		Secrets: c.Core.Secret(), Roles: c.RBAC.Role(), RoleBindings: c.RBAC.RoleBinding(),
	}))
	workers, cancel := context.WithCancel(w.Context())
	if err := c.Start(workers); err != nil {
		w.Log("the controller did not start:", err) // it was killed while starting
	}
	w.stop = func() {
		cancel()
		c.Stop()
		synctest.Wait()
	}
}

// pass lets time pass. If the controller was killed meanwhile, pass restarts it.
func (w *world) pass() {
	w.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	select {
	case <-w.cut:
		w.cut = nil
		w.stop()
		w.api.Mend(agent)
		w.start()
		time.Sleep(time.Minute)
		synctest.Wait()
	default:
	}
}

func (w *world) create(name string, kind corev1.SecretType, annotations map[string]string) *corev1.Secret {
	w.Helper()
	made, err := w.user.Core.Secret().Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Annotations: annotations}, Type: kind,
		Data: map[string][]byte{"amazonec2credentialConfig-accessKey": []byte("a")},
	})
	must(w.T, err)
	return made
}

// permissions lists who may do what, with the owners of the objects.
func (w *world) permissions() []string {
	w.Helper()
	roles, err := w.user.RBAC.Role().List("team", metav1.ListOptions{})
	must(w.T, err)
	bindings, err := w.user.RBAC.RoleBinding().List("team", metav1.ListOptions{})
	must(w.T, err)
	var out []string
	for _, r := range roles.Items {
		out = append(out, fmt.Sprintf("Role %s of %s: %v", r.Name, owners(&r), r.Rules))
	}
	for _, b := range bindings.Items {
		out = append(out, fmt.Sprintf("RoleBinding %s of %s: %s %s has %s %s", b.Name, owners(&b), b.Subjects[0].Kind,
			b.Subjects[0].Name, b.RoleRef.Kind, b.RoleRef.Name))
	}
	slices.Sort(out)
	return out
}

func owners(object metav1.Object) string {
	var out []string
	for _, ref := range object.GetOwnerReferences() {
		out = append(out, ref.APIVersion+" "+ref.Kind+" "+ref.Name)
	}
	return strings.Join(out, ", ")
}

func (w *world) annotations(name string) map[string]string {
	w.Helper()
	secret, err := w.user.Core.Secret().Get("team", name, metav1.GetOptions{})
	must(w.T, err)
	return secret.Annotations
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const cloud = corev1.SecretType("provisioning.cattle.io/cloud-credential")

// Only the creator of a cloud credential gets permissions, once, and on this Secret alone. They end with the Secret.
func TestStory_CreatorOfACredential(t *testing.T) {
	t.Parallel()
	tell(t, func(w *world) {
		w.create("cc-aws", cloud, map[string]string{creator: "alice", "a": "b"})
		w.create("plain", corev1.SecretTypeOpaque, map[string]string{creator: "alice"})
		w.create("none", cloud, map[string]string{creator: "alice", "field.cattle.io/no-creator-rbac": "true"})
		w.create("without-creator", cloud, nil)
		w.pass()
		want := []string{
			"Role alice-cc-aws of v1 Secret cc-aws: [{[get update delete] [] [secrets] [cc-aws] []}]",
			"RoleBinding alice-cc-aws of v1 Secret cc-aws: User alice has Role alice-cc-aws",
		}
		if diff := cmp.Diff(want, w.permissions()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"a": "b"}, w.annotations("cc-aws")); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		for _, name := range []string{"plain", "none"} {
			if w.annotations(name)[creator] != "alice" {
				t.Errorf("the annotation of %s is gone", name)
			}
		}
		must(t, w.user.RBAC.RoleBinding().Delete("team", "alice-cc-aws", &metav1.DeleteOptions{}))
		w.pass()
		if got := w.permissions(); len(got) != 1 {
			t.Errorf("revoked permissions come back: %v", got)
		}
		must(t, w.user.Core.Secret().Delete("team", "cc-aws", &metav1.DeleteOptions{}))
		w.pass()
		if got := w.permissions(); len(got) != 0 {
			t.Errorf("the permissions stay: %v", got)
		}
	})
}

// A Role of others with that name stays as it is, and the creator never gets it.
func TestStory_NameOfTheRoleIsTaken(t *testing.T) {
	t.Parallel()
	tell(t, func(w *world) {
		all := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
		_, err := w.user.RBAC.Role().Create(&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "alice-cc-aws"}, Rules: all})
		must(t, err)
		w.create("cc-aws", cloud, map[string]string{creator: "alice"})
		w.create("cc-gcp", cloud, map[string]string{creator: "oidc/bob"})
		w.pass()
		for _, line := range w.permissions() {
			switch {
			case strings.HasPrefix(line, "Role alice-cc-aws of : [{[*]"):
			case strings.HasPrefix(line, "Role"+"Binding") && strings.HasSuffix(line, "has Role alice-cc-aws"):
				t.Errorf("alice gets the Role of others: %s", line)
			case strings.Contains(line, "User alice has Role alice-cc-aws-"),
				strings.Contains(line, "User oidc/bob has Role u-"), strings.HasPrefix(line, "Role "):
			default:
				t.Errorf("unexpected %s", line)
			}
		}
		if got := w.permissions(); len(got) != 5 {
			t.Errorf("%v", got)
		}
		if len(w.annotations("cc-aws"))+len(w.annotations("cc-gcp")) > 0 {
			t.Error("an annotation stays")
		}
	})
}

// The outcome is the same wherever the process is killed.
func TestStory_CreatorWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	var want []string
	crashpoints.Each(t, 3, func(t *testing.T, n int) (writes int) {
		t.Helper()
		var got []string
		tell(t, func(w *world) {
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			w.create("cc-aws", cloud, map[string]string{creator: "alice"})
			w.pass()
			w.pass()
			got = append(w.permissions(), fmt.Sprint(w.annotations("cc-aws")))
			writes = w.api.Written(agent)
		})
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("killed after write %d (-never killed +killed):\n%s", n, diff)
		}
		return writes
	})
}
