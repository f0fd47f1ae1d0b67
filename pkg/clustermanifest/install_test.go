package clustermanifest_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/clustermanifest"
	"github.com/drover-io/drover/pkg/testkit/build"
)

func TestInstall(t *testing.T) {
	deployed := []rkev1.GenericCondition{{Type: mgmtv3.ClusterConditionAgentDeployed, Status: "True"}}
	tests := map[string]struct {
		edit func(f *clustermanifest.Facts)
		want bool
	}{
		"a new cluster gets an agent":                                {func(*clustermanifest.Facts) {}, true},
		"one whose agent has no token yet waits":                     {func(f *clustermanifest.Facts) { f.Token = "" }, false},
		"one that has a manifest keeps it":                           {func(f *clustermanifest.Facts) { f.Stored = &corev1.Secret{} }, false},
		"one that is begun anew without an agent, by a restore, too": {func(f *clustermanifest.Facts) { f.Kubeconfig = true }, false},
		"one whose agent never came gets what is wanted now": {func(f *clustermanifest.Facts) {
			f.Stored = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.ReachedByAgentAnnotation: "true"}}, Data: map[string][]byte{"manifest": []byte("wrong")}}
			f.Initialized = true
		}, true},
		"and keeps it once the agent has come": {func(f *clustermanifest.Facts) {
			f.Stored = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.ReachedByAgentAnnotation: "true"}}}
			f.Management.Status.Conditions = deployed
		}, false},
		"one that runs without an agent is left alone":              {func(f *clustermanifest.Facts) { f.Initialized = true }, false},
		"one whose agent runs gets the manifest anew that was lost": {func(f *clustermanifest.Facts) { f.Initialized, f.Management.Status.Conditions = true, deployed }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			facts := clustermanifest.Facts{
				Cluster: build.Cluster("demo"), Management: &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-12345678"}}, Token: "hunter2",
			}
			test.edit(&facts)
			secret, err := clustermanifest.Install(clustermanifest.Source{ServerURL: "https://drover.example.com", Image: "drover-io/drover:v1"}, facts)
			if err != nil || (secret != nil) != test.want {
				t.Fatalf("Secret %v, error %v", secret, err)
			}
			if secret == nil {
				return
			}
			if secret.Annotations[rkev1.ReachedByAgentAnnotation] != "true" || string(secret.Data[rkev1.ClusterAgentTokenKey]) != "hunter2" {
				t.Errorf("nothing says that the agent is the way to the cluster, and by what it is known: %v", secret.Annotations)
			}
			manifest := string(secret.Data["manifest"])
			for _, part := range []string{"hostNetwork: true", "image: drover-io/drover:v1", "kind: Deployment"} {
				if !strings.Contains(manifest, part) {
					t.Errorf("the manifest has no %q", part)
				}
			}
		})
	}
}

func TestInstall_SaysWhatIsWrongAndNotTheToken(t *testing.T) {
	facts := clustermanifest.Facts{Cluster: build.Cluster("demo"), Management: &mgmtv3.Cluster{}, Token: "hunter2"}
	_, err := clustermanifest.Install(clustermanifest.Source{ServerURL: "http://drover.example.com", Image: "drover-io/drover:v1"}, facts)
	if err == nil || !strings.Contains(err.Error(), "server-url") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

func TestUsesDefaultRegistry(t *testing.T) {
	for name, test := range map[string]struct {
		registry, own string
		want          bool
	}{
		"no registry at all":         {"", "", false},
		"that of the installation":   {"r.example.com", "", true},
		"the same, named again":      {"r.example.com", "r.example.com", true},
		"another one of the cluster": {"r.example.com", "own.example.com", false},
		"one of the cluster alone":   {"", "own.example.com", false},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &mgmtv3.Cluster{}
			cluster.Spec.ClusterSecrets.PrivateRegistryURL = test.own
			if got := (clustermanifest.Source{Registry: test.registry}).UsesDefaultRegistry(cluster); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
