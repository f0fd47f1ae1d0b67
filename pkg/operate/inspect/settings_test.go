package inspect

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// The reader compares plans with the server's published settings. Flags take precedence.
func TestReader_ReadsTheServersSettings(t *testing.T) {
	published := controllers.Settings{SystemDefaultRegistry: "r.example.com", SystemAgentInstallerImage: "theirs-"}
	owned := &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.InstanceAnnotation: "mine"}}}
	foreign := &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.InstanceAnnotation: "another"}}}
	for name, tc := range map[string]struct {
		published   bool
		cluster     *provv1.Cluster
		override    func(*controllers.Settings)
		want        render.Settings
		wantUnknown string
	}{
		"published": {published: true, cluster: owned,
			want: render.Settings{InstallerImage: "theirs-", SystemDefaultRegistry: "r.example.com"}},
		"a new cluster": {published: true,
			want: render.Settings{InstallerImage: "theirs-", SystemDefaultRegistry: "r.example.com"}},
		"of another server": {published: true, cluster: foreign, wantUnknown: "it has not published them"},
		"not published":     {cluster: owned, wantUnknown: "it has not published them"},
		"with a flag": {published: true, cluster: owned, override: mineInstead,
			want: render.Settings{InstallerImage: "mine-", SystemDefaultRegistry: "r.example.com"}},
		"not published, a flag": {cluster: owned, override: mineInstead, want: render.Settings{InstallerImage: "mine-"},
			wantUnknown: "it has not published them"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme, err := clients.NewScheme()
				if err != nil {
					t.Fatal(err)
				}
				api := memkube.New(memkube.Options{Scheme: scheme,
					Namespaces: []string{"fleet-default", controllers.SettingsNamespace}})
				if tc.published {
					object := published.ConfigMap("mine")
					object.TypeMeta = metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ConfigMap"}
					if err := api.Add(object); err != nil {
						t.Fatal(err)
					}
				}
				r, err := New(t.Context(), Options{Config: api.Config("looker"), Override: tc.override},
					"fleet-default")
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if unknown := r.learn(tc.cluster); unknown != tc.wantUnknown {
					t.Errorf("unknown: %q, want %q", unknown, tc.wantUnknown)
				}
				if diff := cmp.Diff(tc.want, r.plans.Settings()); diff != "" {
					t.Errorf("settings (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func mineInstead(s *controllers.Settings) { s.SystemAgentInstallerImage = "mine-" }

// A user that may not read the settings gets a note, and the rest of the result.
func TestReader_UnreadableSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		if err != nil {
			t.Fatal(err)
		}
		config := memkube.New(memkube.Options{Scheme: scheme}).Config("looker")
		config.Wrap(func(http.RoundTripper) http.RoundTripper { return closed{} })
		r, err := New(t.Context(), Options{Config: config, Override: mineInstead}, "fleet-default")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if unknown := r.learn(nil); !strings.Contains(unknown, "they cannot be read: ") ||
			!strings.Contains(unknown, "forbidden to you") {
			t.Errorf("unknown: %q", unknown)
		}
		if got := r.plans.Settings().InstallerImage; got != "mine-" {
			t.Errorf("the flag has no effect: %q", got)
		}
	})
}

type closed struct{}

func (closed) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("forbidden to you")
}
