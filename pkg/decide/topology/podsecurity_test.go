package topology_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

const (
	podSecurityField = "spec.defaultPodSecurityAdmissionConfigurationTemplateName"
	podSecurityArg   = "admission-control-config-file=/etc/rancher/rke2/config/rancher-psact.yaml"
)

func strict() *mgmtv3.PodSecurityAdmissionConfigurationTemplate {
	return &mgmtv3.PodSecurityAdmissionConfigurationTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "strict"},
		Configuration: mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec{
			Defaults: mgmtv3.PodSecurityAdmissionConfigurationTemplateDefaults{
				Enforce: "restricted", EnforceVersion: "latest", Audit: "restricted", AuditVersion: "latest",
				Warn: "restricted", WarnVersion: "latest",
			},
			Exemptions: mgmtv3.PodSecurityAdmissionConfigurationTemplateExemptions{
				Usernames: []string{}, Namespaces: []string{"ingress-nginx", "kube-system"},
			},
		},
	}
}

// secured is a cluster that names a template.
func secured(t *testing.T, edits ...func(*provv1.Cluster)) topology.Input {
	t.Helper()
	in := demo(t, append([]func(*provv1.Cluster){func(c *provv1.Cluster) {
		c.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName = "strict"
	}}, edits...)...)
	in.PodSecurity = strict()
	return in
}

func controlPlaneOf(t *testing.T, in topology.Input) *rkev1.RKEControlPlane {
	t.Helper()
	objects, err := topology.Desired(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if plane, ok := object.(*rkev1.RKEControlPlane); ok {
			return plane
		}
	}
	t.Fatal("no control plane")
	return nil
}

// The content is what Rancher writes, byte for byte. A cluster that moves to Drover restarts no server for it.
func TestPodSecuritySecret_IsWhatRancherWrites(t *testing.T) {
	for version, group := range map[string]string{
		"v1.24.9+k3s1": "pod-security.admission.config.k8s.io/v1beta1",
		"v1.25.5+k3s1": "pod-security.admission.config.k8s.io/v1",
	} {
		secret, err := topology.PodSecuritySecret(secured(t, func(c *provv1.Cluster) {
			c.Spec.KubernetesVersion = version
		}))
		if err != nil {
			t.Fatal(err)
		}
		owner := true
		want := &corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "fleet-default", Name: "demo-admission-configuration-psact",
				Labels:      map[string]string{"resources.cattle.io/backup": "true"},
				Annotations: map[string]string{"rke.cattle.io/object-authorized-for-clusters": "demo"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster",
					Name: "demo", UID: "uid-of-demo", Controller: &owner, BlockOwnerDeletion: &owner}},
			},
			Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{"admission-config-psact": []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- configuration:
    apiVersion: ` + group + `
    defaults:
      audit: restricted
      audit-version: latest
      enforce: restricted
      enforce-version: latest
      warn: restricted
      warn-version: latest
    exemptions:
      namespaces:
      - ingress-nginx
      - kube-system
    kind: PodSecurityConfiguration
  name: PodSecurity
  path: ""
`)},
		}
		if diff := cmp.Diff(want, secret); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
}

// The configuration gets the file and the argument, and the user's spec stays as it is written.
func TestDesired_AddsPodSecurity(t *testing.T) {
	own := rkev1.RKEProvisioningFiles{
		MachineLabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"rke.cattle.io/control-plane-role": "true"}},
		FileSources: []rkev1.ProvisioningFileSource{{Secret: rkev1.K8sObjectFileSource{
			Name: "demo-admission-configuration-psact",
			Items: []rkev1.KeyToPath{{Key: "admission-config-psact",
				Path: "/etc/rancher/rke2/config/rancher-psact.yaml"}},
		}}},
	}
	fromRancher := *own.DeepCopy()
	fromRancher.FileSources[0].Secret.Items[0].Hash = "b2xk"
	other := rkev1.RKEProvisioningFiles{FileSources: []rkev1.ProvisioningFileSource{{
		ConfigMap: rkev1.K8sObjectFileSource{Name: "motd", Items: []rkev1.KeyToPath{{Key: "a", Path: "/etc/motd"}}}}}}
	arguments := func(c *provv1.Cluster, value any) {
		c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"kube-apiserver-arg": value}
	}
	for name, tc := range map[string]struct {
		edit     func(*provv1.Cluster)
		files    []rkev1.RKEProvisioningFiles
		args     any
		selected any
	}{
		"nothing else": {nil, []rkev1.RKEProvisioningFiles{own}, []any{podSecurityArg}, nil},
		"files and arguments of the user": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{other}
				arguments(c, []any{"v=4"})
			}, []rkev1.RKEProvisioningFiles{other, own}, []any{podSecurityArg, "v=4"}, nil,
		},
		"one argument, as a string": {
			func(c *provv1.Cluster) { arguments(c, "v=4") }, []rkev1.RKEProvisioningFiles{own},
			[]any{podSecurityArg, "v=4"}, nil,
		},
		"a manifest from Rancher": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{fromRancher, other}
				arguments(c, []any{"v=4", podSecurityArg})
			}, []rkev1.RKEProvisioningFiles{own, other}, []any{"v=4", podSecurityArg}, nil,
		},
		"arguments for some machines replace those for all": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineSelectorConfig = []rkev1.RKESystemConfig{{Config: rkev1.GenericMap{
					Data: map[string]any{"kube-apiserver-arg": []any{"v=5"}}}}}
			}, []rkev1.RKEProvisioningFiles{own}, []any{podSecurityArg}, []any{podSecurityArg, "v=5"},
		},
		"other keys for some machines": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineSelectorConfig = []rkev1.RKESystemConfig{{Config: rkev1.GenericMap{
					Data: map[string]any{"kubelet-arg": []any{"v=5"}}}}}
			}, []rkev1.RKEProvisioningFiles{own}, []any{podSecurityArg}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var edits []func(*provv1.Cluster)
			if tc.edit != nil {
				edits = append(edits, tc.edit)
			}
			in := secured(t, edits...)
			before := in.Cluster.DeepCopy()
			spec := controlPlaneOf(t, in).Spec
			if diff := cmp.Diff(tc.files, spec.MachineSelectorFiles); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.args, spec.MachineGlobalConfig.Data["kube-apiserver-arg"]); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			for _, selected := range spec.MachineSelectorConfig {
				if diff := cmp.Diff(tc.selected, selected.Config.Data["kube-apiserver-arg"]); diff != "" {
					t.Errorf("arguments for some machines (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(before, in.Cluster); diff != "" {
				t.Errorf("the Cluster has changed:\n%s", diff)
			}
			bare := demo(t, edits...)
			if got, want := controlPlaneOf(t, in).Annotations[rkev1.ClusterSpecAnnotation],
				controlPlaneOf(t, bare).Annotations[rkev1.ClusterSpecAnnotation]; got == want {
				t.Error("the recorded spec lacks the name of the template")
			}
		})
	}
}

// A template that cannot be used stops a new cluster. An existing one keeps what it has.
func TestPodSecurity_WrongTemplates(t *testing.T) {
	defaults := func(edit func(*mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec)) func(*topology.Input) {
		return func(in *topology.Input) { edit(&in.PodSecurity.Configuration) }
	}
	for name, tc := range map[string]struct {
		edit func(*topology.Input)
		want string
	}{
		"valid": {func(*topology.Input) {}, ""},
		"missing": {func(in *topology.Input) { in.PodSecurity = nil }, `Not found: "strict": no ` +
			`PodSecurityAdmissionConfigurationTemplate has this name; create it, or correct the name`},
		"an old Kubernetes": {func(in *topology.Input) { in.Cluster.Spec.KubernetesVersion = "v1.22.17+rke2r1" },
			"requires Kubernetes v1.23 or newer: remove the field, or raise spec.kubernetesVersion"},
		"a release candidate of the oldest Kubernetes": {
			func(in *topology.Input) { in.Cluster.Spec.KubernetesVersion = "v1.23.0-rc1+rke2r1" }, ""},
		"a level": {defaults(func(c *mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec) {
			c.Defaults.Warn = "loose"
		}), "configuration.defaults.warn must be privileged, baseline or restricted"},
		"a version": {defaults(func(c *mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec) {
			c.Defaults.AuditVersion = "1.25"
		}), "configuration.defaults.audit-version must be latest or a minor version such as v1.36"},
		"an empty user": {defaults(func(c *mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec) {
			c.Exemptions.Usernames = []string{""}
		}), "configuration.exemptions.usernames must not be empty, and unique"},
		"a namespace twice": {defaults(func(c *mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec) {
			c.Exemptions.Namespaces = []string{"a", "a"}
		}), "configuration.exemptions.namespaces must be names of namespaces, and unique"},
		"a namespace with a dot": {defaults(func(c *mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec) {
			c.Exemptions.Namespaces = []string{"a.b"}
		}), "configuration.exemptions.namespaces must be names of namespaces, and unique"},
		"a runtime class": {defaults(func(c *mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec) {
			c.Exemptions.RuntimeClasses = []string{"A"}
		}), "configuration.exemptions.runtimeClasses must be names of RuntimeClasses, and unique"},
	} {
		t.Run(name, func(t *testing.T) {
			in := secured(t)
			tc.edit(&in)
			refused, tolerated := topology.Tolerated(topology.Validate(in))
			if len(refused) > 0 || len(tolerated) > 1 {
				t.Fatalf("refused %v, tolerated %v", refused, tolerated)
			}
			got := ""
			if len(tolerated) > 0 {
				got = tolerated[0].Error()
			}
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) ||
				got != "" && !strings.HasPrefix(got, podSecurityField) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			secret, err := topology.PodSecuritySecret(in)
			if err != nil || (secret != nil) != (tc.want == "") {
				t.Errorf("Secret %v, %v", secret, err)
			}
			in.PodSecurityStored = true
			keeps := len(controlPlaneOf(t, in).Spec.MachineSelectorFiles) == 1
			if old := strings.Contains(tc.want, "v1.23"); keeps == old {
				t.Errorf("keeps the stored configuration: %v", keeps)
			}
			in.PodSecurityStored = false
			if uses := len(controlPlaneOf(t, in).Spec.MachineSelectorFiles) == 1; uses != (tc.want == "") {
				t.Errorf("uses the template: %v", uses)
			}
		})
	}
}

// Without the field, or with a file of the user, the configuration stays as it is written.
func TestPodSecurity_StaysAway(t *testing.T) {
	other := "admission-control-config-file=/etc/mine.yaml"
	for name, edit := range map[string]func(*provv1.Cluster){
		"no template": func(c *provv1.Cluster) { c.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName = "" },
		"a file of the user": func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"kube-apiserver-arg": []any{other}}
		},
		"a file of the user for some machines": func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachineSelectorConfig = []rkev1.RKESystemConfig{{Config: rkev1.GenericMap{
				Data: map[string]any{"kube-apiserver-arg": other}}}}
		},
	} {
		in := secured(t, edit)
		in.PodSecurityStored = true
		spec := controlPlaneOf(t, in).Spec
		if diff := cmp.Diff(in.Cluster.Spec.RKEConfig.ClusterConfiguration, spec.ClusterConfiguration); diff != "" {
			t.Errorf("%s (-Cluster +control plane):\n%s", name, diff)
		}
		if secret, err := topology.PodSecuritySecret(in); err != nil || secret != nil {
			t.Errorf("%s: Secret %v, %v", name, secret, err)
		}
		if errs := topology.Validate(in); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

func TestMergePodSecurity(t *testing.T) {
	wanted, err := topology.PodSecuritySecret(secured(t))
	if err != nil {
		t.Fatal(err)
	}
	if changed := topology.MergePodSecurity(wanted.DeepCopy(), wanted); changed != nil {
		t.Errorf("a settled Secret changes: %v", changed)
	}
	found := wanted.DeepCopy() // as Rancher makes it, with a label of a user
	found.OwnerReferences, found.Labels["team"] = nil, "a"
	found.Data["admission-config-psact"] = []byte("old")
	want := wanted.DeepCopy()
	want.Labels["team"] = "a"
	if diff := cmp.Diff(want, topology.MergePodSecurity(found, wanted)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAuthorizes(t *testing.T) {
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "demo"}}
	for list, want := range map[string]bool{
		"": false, "demo": true, "other, demo": true, "team/demo": true, "team/*": true,
		"demo2,other/demo,other/*": false,
	} {
		for _, key := range []string{rkev1.AuthorizedObjectAnnotation, rkev1.AuthorizedSecretAnnotation} {
			if got := topology.Authorizes(map[string]string{key: list}, cluster); got != want {
				t.Errorf("%s=%s: %v", key, list, got)
			}
		}
	}
}
