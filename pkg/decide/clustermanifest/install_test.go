package clustermanifest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/testkit/build"
)

func TestInstall(t *testing.T) {
	deployed := []rkev1.GenericCondition{{Type: mgmtv3.ClusterConditionAgentDeployed, Status: "True"}}
	tests := map[string]struct {
		edit func(f *clustermanifest.Facts)
		want bool
	}{
		"a new cluster gets an agent": {
			func(*clustermanifest.Facts) {}, true},
		"a cluster without a token of its agent waits": {
			func(f *clustermanifest.Facts) { f.Token = "" }, false},
		"a cluster with a manifest keeps it": {
			func(f *clustermanifest.Facts) { f.Stored = &corev1.Secret{} }, false},
		"a cluster that restarts without an agent gets one, for example after a restore": {
			func(f *clustermanifest.Facts) { f.Kubeconfig = true }, false},
		"a cluster whose agent never connected gets the current manifest": {func(f *clustermanifest.Facts) {
			f.Stored = &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.ReachedByAgentAnnotation: "true"}},
				Data:       map[string][]byte{"manifest": []byte("wrong")}}
			f.Initialized = true
		}, true},
		"a moved cluster keeps its manifest before its agent connects": {func(f *clustermanifest.Facts) {
			f.Stored = &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.ReachedByAgentAnnotation: "true"}}}
			f.Kubeconfig = true
		}, false},
		"a moved cluster keeps its manifest after its agent connects": {func(f *clustermanifest.Facts) {
			f.Stored = &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.ReachedByAgentAnnotation: "true"}}}
			f.Management.Status.Conditions = deployed
		}, false},
		"a running cluster without an agent gets none": {func(f *clustermanifest.Facts) {
			f.Initialized = true
		}, false},
		"a cluster with an agent gets its lost manifest again": {func(f *clustermanifest.Facts) {
			f.Initialized, f.Management.Status.Conditions = true, deployed
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			facts := clustermanifest.Facts{
				Cluster:    build.Cluster("demo"),
				Management: &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-12345678"}}, Token: "hunter2",
			}
			test.edit(&facts)
			secret, err := clustermanifest.Install(clustermanifest.Source{ServerURL: "https://drover.example.com",
				Image: "drover-io/drover:v1"}, facts)
			if err != nil || (secret != nil) != test.want {
				t.Fatalf("Secret %v, error %v", secret, err)
			}
			if secret == nil {
				return
			}
			if secret.Annotations[rkev1.ReachedByAgentAnnotation] != "true" ||
				string(secret.Data[rkev1.ClusterAgentTokenKey]) != "hunter2" {
				t.Errorf("the labels must mark the agent and its cluster: %v", secret.Annotations)
			}
			manifest := string(secret.Data["manifest"])
			for _, part := range []string{"hostNetwork: true", "image: drover-io/drover:v1", "kind: Deployment"} {
				if !strings.Contains(manifest, part) {
					t.Errorf("the manifest must contain %q", part)
				}
			}
		})
	}
}

func TestInstall_NamesTheErrorAndHidesTheToken(t *testing.T) {
	facts := clustermanifest.Facts{Cluster: build.Cluster("demo"), Management: &mgmtv3.Cluster{}, Token: "hunter2"}
	_, err := clustermanifest.Install(clustermanifest.Source{ServerURL: "http://drover.example.com",
		Image: "drover-io/drover:v1"}, facts)
	if err == nil || !strings.Contains(err.Error(), "server-url") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

// TestReadPullSecrets checks that pull secrets accompany only images of their registries: the default registry, or a
// listed one that the installation's own image comes from. The registry that a cluster names gets none of them.
func TestReadPullSecrets(t *testing.T) {
	const hub, of = "drover-io/drover:v1", "r.example.com/drover-io/drover:v1"
	for name, test := range map[string]struct {
		image, registry, own string
		want                 []string
	}{
		"no registry":                      {hub, "", "", nil},
		"the registry of the installation": {hub, "r.example.com", "", []string{"listed", "other"}},
		"the same registry in the cluster": {hub, "r.example.com", "r.example.com",
			[]string{"listed", "other"}},
		"another registry of the cluster":                     {hub, "r.example.com", "own.example.com", nil},
		"another registry of the cluster, listed in a Secret": {hub, "", "r.example.com", nil},
		"only a registry of the cluster":                      {hub, "", "own.example.com", nil},
		"the registry of the image":                           {of, "", "", []string{"listed"}},
		"the registry of the image, and one of the cluster":   {of, "", "own.example.com", []string{"listed"}},
		"the registry of the image, which is not the default": {of, "other.example.com", "", []string{"listed"}},
		"the registry of the image, which is unknown": {"quay.io/drover-io/drover:v1", "r.example.com", "",
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			source := clustermanifest.Source{Image: test.image, Registry: test.registry}
			for _, secret := range []string{"listed", "other", "gone"} {
				source.PullSecrets = append(source.PullSecrets,
					types.NamespacedName{Namespace: "drover-system", Name: secret})
			}
			cluster := &mgmtv3.Cluster{}
			cluster.Spec.ClusterSecrets.PrivateRegistryURL = test.own
			found, err := source.ReadPullSecrets(cluster, func(_, name string) (*corev1.Secret, error) {
				content, there := map[string]string{"listed": `{"auths":{"r.example.com":{}}}`,
					"other": `{"auths":{"elsewhere.example.com":{}}}`}[name]
				if !there {
					return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
				}
				return &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeDockerConfigJson,
					Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(content)},
				}, nil
			}, func(types.NamespacedName, string) {})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, secret := range found {
				got = append(got, secret.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
