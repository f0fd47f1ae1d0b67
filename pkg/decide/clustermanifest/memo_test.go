package clustermanifest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/testkit/build"
)

var installation = clustermanifest.Source{ServerURL: "https://drover.example.com", Image: "drover-io/drover:v1"}

// stored returns the facts about a cluster whose manifest is stored and current, and whose agent has not connected.
func stored(tb testing.TB) clustermanifest.Facts {
	tb.Helper()
	facts := clustermanifest.Facts{
		Cluster:    build.Cluster("demo"),
		Management: &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-12345678"}}, Token: "hunter2",
	}
	secret, err := clustermanifest.Install(installation, facts)
	if err != nil {
		tb.Fatal(err)
	}
	secret.UID, secret.ResourceVersion = "first", "1"
	facts.Stored = secret
	return facts
}

// A Memo answers like Install, whatever changes between two calls.
func TestMemo_AnswersLikeInstall(t *testing.T) {
	for name, change := range map[string]func(source *clustermanifest.Source, f *clustermanifest.Facts){
		"nothing changes": func(*clustermanifest.Source, *clustermanifest.Facts) {},
		"the address of the server": func(s *clustermanifest.Source, _ *clustermanifest.Facts) {
			s.ServerURL = "https://other.example.com"
		},
		"the image": func(s *clustermanifest.Source, _ *clustermanifest.Facts) { s.Image = "drover-io/drover:v2" },
		"the token": func(_ *clustermanifest.Source, f *clustermanifest.Facts) { f.Token = "another" },
		"the environment of the agent": func(_ *clustermanifest.Source, f *clustermanifest.Facts) {
			f.Management.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "HTTP_PROXY", Value: "http://proxy.example.com"}}
		},
		"a pull secret": func(_ *clustermanifest.Source, f *clustermanifest.Facts) {
			f.PullSecrets = []clustermanifest.PullSecret{{Name: "pull", DockerConfigJSON: []byte(`{"auths":{}}`)}}
		},
		"the stored manifest": func(_ *clustermanifest.Source, f *clustermanifest.Facts) {
			f.Stored = f.Stored.DeepCopy()
			f.Stored.ResourceVersion, f.Stored.Data = "2", map[string][]byte{"manifest": []byte("edited")}
		},
		"the stored manifest is deleted": func(_ *clustermanifest.Source, f *clustermanifest.Facts) { f.Stored = nil },
		"Drover reaches the cluster": func(_ *clustermanifest.Source, f *clustermanifest.Facts) {
			f.Kubeconfig = true
		},
		"a wrong address": func(s *clustermanifest.Source, _ *clustermanifest.Facts) {
			s.ServerURL = "http://drover.example.com"
		},
	} {
		t.Run(name, func(t *testing.T) {
			source, facts := installation, stored(t)
			var memo clustermanifest.Memo
			for range 2 {
				if secret, err := memo.Install(source, facts); err != nil || secret != nil {
					t.Fatalf("a current manifest is written: %v, %v", secret, err)
				}
			}
			change(&source, &facts)
			for range 2 {
				want, wantErr := clustermanifest.Install(source, facts)
				got, err := memo.Install(source, facts)
				if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
					t.Errorf("the answer differs from Install (-want +got):\n%s\nerrors %v and %v", diff, wantErr, err)
				}
			}
		})
	}
}

func BenchmarkInstall(b *testing.B) {
	facts := stored(b)
	for name, install := range map[string]func() (*corev1.Secret, error){
		"rendered": func() (*corev1.Secret, error) { return clustermanifest.Install(installation, facts) },
		"remembered": func() func() (*corev1.Secret, error) {
			var memo clustermanifest.Memo
			return func() (*corev1.Secret, error) { return memo.Install(installation, facts) }
		}(),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if secret, err := install(); secret != nil || err != nil {
					b.Fatal(secret, err)
				}
			}
		})
	}
}
