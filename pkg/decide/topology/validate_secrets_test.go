package topology_test

import (
	"strings"
	"testing"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// TestValidate_ShowsNoPasswords checks that errors do not contain values with possible passwords.
func TestValidate_ShowsNoPasswords(t *testing.T) {
	t.Parallel()
	registry := func(text string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"system-default-registry": text}
		}
	}
	variable := func(name, value string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) { c.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: name, Value: value}} }
	}
	for name, edit := range map[string]func(*provv1.Cluster){
		"user data":                 func(c *provv1.Cluster) { withUserdata(c, "password: hunter2\n{}") },
		"a registry":                registry("me:hunter2@registry.example.com"),
		"a registry with a scheme":  registry("https://me:hunter2@registry.example.com"),
		"a registry with a token":   registry("hunter2@registry.example.com"),
		"proxies":                   variable("NO_PROXY", "http://me:hunter2@proxy, b"),
		"a variable with its value": variable("HTTPS_PROXY=http://me:hunter2@proxy", ""),
		"a value for a variable":    variable("me:hunter2@proxy", "HTTPS_PROXY"),
	} {
		if got := topology.Explain(topology.Validate(demo(t, edit))); got == "" || strings.Contains(got, "hunter2") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
