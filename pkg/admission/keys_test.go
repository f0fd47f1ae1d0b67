package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/admission"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestDecide_WarnsAboutUnknownKeys(t *testing.T) {
	t.Parallel()
	const global = "spec.rkeConfig.machineGlobalConfig."
	const rest = " is unknown in release v1.36.2+rke2r1, and Drover passes it to the machines unchanged"
	for name, tc := range map[string]struct {
		keys []string
		want []string
	}{
		"known keys": {keys: []string{"cni", "kube-apiserver-arg", "node-label"}},
		"a missing letter": {keys: []string{"kube-apiserver-ar"},
			want: []string{global + "kube-apiserver-ar: key kube-apiserver-ar" + rest +
				"; did you mean kube-apiserver-arg?"}},
		"swapped letters": {keys: []string{"toekn"},
			want: []string{global + "toekn: key toekn" + rest + "; did you mean token?"}},
		"an underscore instead of a dash": {keys: []string{"kubelet_arg"},
			want: []string{global + "kubelet_arg: key kubelet_arg" + rest + "; did you mean kubelet-arg?"}},
		"no similar key": {keys: []string{"frobnicate"},
			want: []string{global + "frobnicate: key frobnicate" + rest}},
		"too short for a suggestion": {keys: []string{"cn"}, want: []string{global + "cn: key cn" + rest}},
		"several keys, sorted": {keys: []string{"zzz-unknown", "aaa-unknown"},
			want: []string{global + "aaa-unknown: key aaa-unknown" + rest, global + "zzz-unknown: key zzz-unknown" +
				rest}},
		"the longest key with a suggestion": {keys: []string{"etcd-snapshot-retentio"},
			want: []string{global + "etcd-snapshot-retentio: key etcd-snapshot-retentio" + rest +
				"; did you mean etcd-snapshot-retention?"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := map[string]any{}
			for _, key := range tc.keys {
				config[key] = "a secret, maybe"
			}
			cluster := demo(func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineGlobalConfig = rkev1.GenericMap{Data: config}
			})
			a := decide(t, request(t, "provisioning.cattle.io", "clusters", facts(t), nil, cluster))
			if diff := cmp.Diff(tc.want, a.Warnings); diff != "" || !a.Allowed() {
				t.Errorf("allowed %v: %s", a.Allowed(), diff)
			}
		})
	}
}

func TestDecide_WarnsAboutUnknownKeysBySelector(t *testing.T) {
	t.Parallel()
	cluster := demo(func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachineSelectorConfig = []rkev1.RKESystemConfig{{},
			{Config: rkev1.GenericMap{Data: map[string]any{"kubelet-args": 1}}}}
	})
	want := []string{
		"spec.rkeConfig.machineSelectorConfig[1].config.kubelet-args: key kubelet-args is unknown in release " +
			"v1.36.2+rke2r1" +
			", and Drover passes it to the machines unchanged; did you mean kubelet-arg?"}
	a := decide(t, request(t, "provisioning.cattle.io", "clusters", facts(t), nil, cluster))
	if diff := cmp.Diff(want, a.Warnings); diff != "" {
		t.Error(diff)
	}
}

// Without release data no key counts as unknown.
func TestDecide_DoesNotWarnWithoutReleaseData(t *testing.T) {
	t.Parallel()
	cluster := demo(func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachineGlobalConfig = rkev1.GenericMap{Data: map[string]any{"frobnicate": 1}}
	})
	a := decide(t, request(t, "provisioning.cattle.io", "clusters", admission.Facts{Known: true}, nil, cluster))
	if len(a.Warnings) > 0 {
		t.Errorf("warnings %q", a.Warnings)
	}
}

// Fields without effect cause a warning when they are applied.
func TestDecide_WarnsAboutFieldsWithoutEffect(t *testing.T) {
	t.Parallel()
	cluster := demo(func(c *provv1.Cluster) { c.Spec.DefaultPodSecurityPolicyTemplateName = "old" })
	a := decide(t, request(t, "provisioning.cattle.io", "clusters", facts(t), nil, cluster))
	const want = "spec.defaultPodSecurityPolicyTemplateName: has no effect: "
	if len(a.Warnings) != 1 || !strings.HasPrefix(a.Warnings[0], want) || !a.Allowed() {
		t.Errorf("allowed %v, warnings %q", a.Allowed(), a.Warnings)
	}
}
