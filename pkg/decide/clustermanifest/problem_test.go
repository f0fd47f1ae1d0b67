package clustermanifest_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
)

// TestProblem checks that a problem is one line without passwords: it goes into a condition that all users may read.
func TestProblem(t *testing.T) {
	t.Parallel()
	registry := func(url string) func(*clustermanifest.Source, *mgmtv3.Cluster) {
		return func(_ *clustermanifest.Source, c *mgmtv3.Cluster) { c.Spec.ClusterSecrets.PrivateRegistryURL = url }
	}
	for name, tc := range map[string]struct {
		edit func(*clustermanifest.Source, *mgmtv3.Cluster)
		want string
	}{
		"nothing":    {func(*clustermanifest.Source, *mgmtv3.Cluster) {}, ""},
		"a registry": {registry("registry.example.com:5000/mirror"), ""},
		"a registry with a scheme": {registry("https://registry.example.com"),
			`system-default-registry must be a host, optionally with a port and a path, and without a scheme such as https:// or a user, for example registry.example.com:5000, not "https://registry.example.com"`},
		"a registry with a password": {
			registry("https://me:hunter2@registry.example.com"), `system-default-registry must be a host`,
		},
		"a registry with a password and no scheme": {
			registry("me:hunter2@registry.example.com"), `system-default-registry must be a host`,
		},
		"a registry without the image": {func(s *clustermanifest.Source, c *mgmtv3.Cluster) {
			s.Image, c.Spec.ClusterSecrets.PrivateRegistryURL = "quay.io/drover-io/drover:v1",
				"https://registry.example.com"
		}, ""},
		"a registry in the image's name": {func(s *clustermanifest.Source, c *mgmtv3.Cluster) {
			s.Image, c.Spec.ClusterSecrets.PrivateRegistryURL = "registry.example.com/Mirror/drover:v1",
				"registry.example.com/Mirror/"
		}, `system-default-registry must be a host`},
		"an image with a password": {
			func(s *clustermanifest.Source, _ *mgmtv3.Cluster) {
				s.Image = "me:hunter2@registry.example.com/drover:v1"
			}, `the agent's image must be a reference`,
		},
		"a variable with its value": {
			func(_ *clustermanifest.Source, c *mgmtv3.Cluster) {
				c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "HTTPS_PROXY=me:hunter2@proxy"}}
			}, `spec.agentEnvVars[0].name: "HTTPS_PROXY=***" must be the name`,
		},
		"an address with a password": {
			func(s *clustermanifest.Source, _ *mgmtv3.Cluster) {
				s.ServerURL = "http://me:hunter2@drover.example.com"
			}, "server-url must be an https URL",
		},
		"two errors": {func(s *clustermanifest.Source, c *mgmtv3.Cluster) {
			s.CAChecksum, c.Spec.AgentEnvVars = "C0FFEE", []corev1.EnvVar{{Name: "a=b"}}
		}, `the checksum of the authorities must be a SHA-256 in lower case, not "C0FFEE"; spec.agentEnvVars[0].name: `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, cluster := clustermanifest.Source{ServerURL: "https://drover.example.com",
				Image: "drover-io/drover:v1"}, &mgmtv3.Cluster{}
			tc.edit(&source, cluster)
			got := clustermanifest.Problem(source, cluster)
			if (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("problem %q, want %q", got, tc.want)
			}
			if strings.Contains(got, "hunter2") || strings.Contains(got, "\n") {
				t.Errorf("problem %q", got)
			}
		})
	}
}
