package machinejob_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

func pullSecret(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "drover-system", Name: name}
}

func simInput() machinejob.Input {
	return machinejob.Input{
		Machine: machinejob.Machine{
			APIVersion: "rke-machine.cattle.io/v1", Kind: "SimMachine", Namespace: "fleet-default",
			Name: "demo-pool-a-7c9fd-x2k4q",
			UID:  "0d1b9b1c", CAPIMachineName: "demo-pool-a-7c9fd-x2k4q",
			Spec: map[string]any{
				"size": "small", "tags": []any{"a=1", "b=2"}, "monitoring": true, "backups": false, "count": "3",
				"empty": "", "none": nil,
				"sshKeyContents": "-----BEGIN KEY-----", "userdata": "#cloud-config\n",
				"common": map[string]any{"cloudCredentialSecretName": "cattle-global-data:cc-abcde"},
			},
		},
		Driver: machinejob.Driver{
			Name: "sim", URL: "https://example.org/docker-machine-driver-sim", SHA256: strings.Repeat("ab", 32),
			Aliases: map[string]string{"sshKeyContents": "sshKeyPath", "userdata": "userdata", "absent": "absent"},
		},
		Cluster:         machinejob.Cluster{Name: "demo", ProvisioningName: "demo", ManagementName: "c-m-abcdefgh"},
		BootstrapSecret: "demo-pool-a-7c9fd-x2k4q-machine-bootstrap",
		Credential:      map[string][]byte{"simcredentialConfig-apiToken": []byte("s3cret")},
		PullSecrets: map[types.NamespacedName][]byte{
			pullSecret("pull"): []byte(`{"auths":{"https://index.docker.io/v1/":{"auth":"eA=="}}}`)},
		Extended: true,
		Settings: machinejob.Settings{
			Image: "rancher/machine:v1", PullPolicy: "Whenever", PullSecrets: []types.NamespacedName{pullSecret("gone"),
				pullSecret("pull")}, Proxy: map[string]string{"HTTPS_PROXY": "http://proxy:3128"},
			Certificates: map[string]string{"tls.crt": "PEM\n", "extra.crt": "PEM\n"}, CreateDeadline: time.Hour,
			RemoveDeadline: 30 * time.Minute,
		},
	}
}

// text prints all objects of a rendering, so that a review shows every change.
func text(t *testing.T, o machinejob.Objects) []byte {
	t.Helper()
	objects := []runtime.Object{o.State}
	for _, secret := range o.Secrets() {
		objects = append(objects, secret)
	}
	objects = append(objects, o.ServiceAccount, o.Role)
	for _, binding := range o.RoleBindings {
		objects = append(objects, binding)
	}
	var out []string
	for _, object := range append(objects, o.Job) {
		encoded, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(encoded))
	}
	return []byte(strings.Join(out, "---\n"))
}

func TestRender_Golden(t *testing.T) {
	golden.Check(t, "testdata/create.yaml", string(text(t, machinejob.RenderCreate(simInput()))))
	golden.Check(t, "testdata/remove.yaml", string(text(t, machinejob.RenderRemove(simInput(), 2))))
	bare := simInput()
	bare.Driver, bare.Extended = machinejob.Driver{Name: "sim"}, false
	bare.Machine.Spec, bare.Credential, bare.Settings = nil, nil,
		machinejob.Settings{Image: "rancher/machine:v1", PullPolicy: "IfNotPresent"}
	golden.Check(t, "testdata/create-bare.yaml", string(text(t, machinejob.RenderCreate(bare))))
}

// TestPodSecrets_AreThoseThatDroverWrites checks that the Secrets that a removal needs are exactly those that are
// written for it, whatever other programs and users add to its pods.
func TestPodSecrets_AreThoseThatDroverWrites(t *testing.T) {
	o := machinejob.RenderRemove(simInput(), 1)
	var want []string
	for _, secret := range o.Secrets() {
		want = append(want, secret.Name)
	}
	pod := &o.Job.Spec.Template.Spec
	pod.ImagePullSecrets = append([]corev1.LocalObjectReference{{Name: "of-the-user"}}, pod.ImagePullSecrets...)
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "other"}, corev1.Volume{Name: "added",
		VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "of-the-webhook"}}})
	pod.Containers = append(pod.Containers, corev1.Container{EnvFrom: []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{}}, {SecretRef: &corev1.SecretEnvSource{}}}})
	got := machinejob.PodSecrets(o.Job)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 3 {
		t.Errorf("Secrets of the Job (-want +got):\n%s", diff)
	}
}

// TestRender_NoContentNoFiles checks that a machine without the content of a file gets neither a Secret of files nor a
// volume for it, although its driver has such fields.
func TestRender_NoContentNoFiles(t *testing.T) {
	in := simInput()
	in.Machine.Spec = map[string]any{"size": "small", "userdata": ""}
	o := machinejob.RenderCreate(in)
	if o.Files != nil || strings.Contains(string(text(t, o)), "machine-files") {
		t.Errorf("the Job has files:\n%s", text(t, o))
	}
}

// TestRender_CopiesPullSecretsOfTheImage checks that the Job gets copies of exactly the Secrets for its image's
// registry. A pod cannot use Secrets of another namespace, and tenants can read the copies.
func TestRender_CopiesPullSecretsOfTheImage(t *testing.T) {
	const (
		named  = "pull"
		copied = "demo-pool-a-7c9fd-x2k4q-machine-pull-0"
		other  = `{"auths":{"quay.io":{"auth":"eA=="}}}`
		r      = `{"auths":{"r.example.com":{"auth":"eA=="}}}`
	)
	for name, tc := range map[string]struct {
		registry, image, content string // content: of the Secret in drover-system; empty: there is none
		want                     string
	}{
		"of the default registry": {"r.example.com", "r.example.com/rancher/machine:v1", r, copied},
		"of the default registry, with any content": {"r.example.com", "r.example.com/rancher/machine:v1", other,
			copied},
		"missing":                          {"r.example.com", "r.example.com/rancher/machine:v1", "", named},
		"for an image of another registry": {"r.example.com", "quay.io/rancher/machine:v1", r, named},
		"without a default registry, for a listed registry":    {"", "r.example.com/rancher/machine:v1", r, copied},
		"without a default registry, for an unlisted registry": {"", "r.example.com/rancher/machine:v1", other, named},
		"without a default registry, for Docker Hub":           {"", "rancher/machine:v1", r, named},
	} {
		t.Run(name, func(t *testing.T) {
			in := simInput()
			in.Settings.Registry, in.Settings.Image, in.Settings.PullSecrets = tc.registry, tc.image,
				[]types.NamespacedName{pullSecret(named)}
			in.PullSecrets = nil
			if tc.content != "" {
				in.PullSecrets = map[types.NamespacedName][]byte{pullSecret(named): []byte(tc.content)}
			}
			for job, o := range map[string]machinejob.Objects{"create": machinejob.RenderCreate(in),
				"remove": machinejob.RenderRemove(in, 1)} {
				if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: tc.want}},
					o.Job.Spec.Template.Spec.ImagePullSecrets); diff != "" {
					t.Errorf("%s: the pod names (-want +got):\n%s", job, diff)
				}
				if want := tc.want == copied; want != (len(o.Pull) == 1) || want &&
					!strings.Contains(string(text(t, o)), "kubernetes.io/dockerconfigjson") {
					t.Errorf("%s: %d copies", job, len(o.Pull))
				} else if want &&
					(o.Pull[0].Name != copied || string(o.Pull[0].Data[corev1.DockerConfigJsonKey]) != tc.content) {
					t.Errorf("%s: the copy is %s with %s", job, o.Pull[0].Name, o.Pull[0].Data)
				}
			}
		})
	}
}

func TestRender_LongNames(t *testing.T) {
	in := simInput()
	in.Machine.Name = "north-europe-production-cluster-large-memory-pool-7c9fd6bb58-x2k4q"
	in.Machine.CAPIMachineName = in.Machine.Name
	o := machinejob.RenderCreate(in)
	for what, got := range map[string][2]string{
		"state Secret": {o.State.Name, "north-europe-production-cluster-large-memory-pool-7c9fd6b-d2a9b"},
		"env Secret":   {o.Env.Name, "north-europe-production-cluster-large-memory-pool-7c9fd6b-21f11"},
		"Job":          {o.Job.Name, "north-europe-production-cluster-large-memory-pool-7c9fd6b-43a2d"},
		"extension's binding": {o.RoleBindings[1].Name,
			"north-europe-production-cluster-large-memory-pool-7c9fd6b-ec295"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is named %s, want %s", what, got[0], got[1])
		}
	}
	for key, value := range o.Job.Labels {
		if len(value) > 63 {
			t.Errorf("label %s has %d bytes, want at most 63", key, len(value))
		}
	}
	if got := o.Job.Spec.Template.Annotations[machinejob.InfraMachineAnnotation]; got != in.Machine.Name {
		t.Errorf("the pod's annotation names %q, want the whole name", got)
	}
}

// argv is the command line without the common part.
func argv(in machinejob.Input) []string {
	args := machinejob.RenderCreate(in).Job.Spec.Template.Spec.Containers[0].Args
	return args[slices.Index(args, "create")+3:]
}

func TestArguments(t *testing.T) {
	tests := map[string]struct {
		driver  machinejob.Driver
		name    string
		limit   int
		spec    map[string]any
		want    []string
		wantKey string
	}{
		"an empty spec means the driver's defaults": {driver: machinejob.Driver{Name: "digitalocean"},
			want: []string{"m1"}},
		"amazonec2 tags what belongs to the cluster": {
			driver: machinejob.Driver{Name: "amazonec2"}, spec: map[string]any{"region": "eu-1"},
			want: []string{"--amazonec2-region=eu-1", "--amazonec2-tags=kubernetes.io/cluster/c-m-abcdefgh,owned",
				"m1"},
		},
		"amazonec2 adds its tag to the user's": {
			driver: machinejob.Driver{Name: "amazonec2"}, spec: map[string]any{"tags": "owner,me"},
			want: []string{"--amazonec2-tags=owner,me,kubernetes.io/cluster/c-m-abcdefgh,owned", "m1"},
		},
		"amazonec2 keeps a cluster tag of the user": {
			driver: machinejob.Driver{Name: "amazonec2"},
			spec:   map[string]any{"tags": "kubernetes.io/cluster/mine,shared"},
			want:   []string{"--amazonec2-tags=kubernetes.io/cluster/mine,shared", "m1"},
		},
		"amazonec2 does not change other security groups": {
			driver: machinejob.Driver{Name: "amazonec2"}, spec: map[string]any{"tags": "kubernetes.io/cluster/x,y",
				"securityGroup": []any{"sg-1", "sg-2"}},
			want: []string{
				"--amazonec2-security-group-readonly", "--amazonec2-security-group=sg-1",
				"--amazonec2-security-group=sg-2",
				"--amazonec2-tags=kubernetes.io/cluster/x,y", "m1",
			},
		},
		"amazonec2 keeps managing its own security group": {
			driver: machinejob.Driver{Name: "amazonec2"}, spec: map[string]any{"tags": "kubernetes.io/cluster/x,y",
				"securityGroup": []any{"rancher-nodes"}},
			want: []string{"--amazonec2-security-group=rancher-nodes", "--amazonec2-tags=kubernetes.io/cluster/x,y",
				"m1"},
		},
		"amazonec2 obeys a choice about security groups": {
			driver: machinejob.Driver{Name: "amazonec2"},
			spec: map[string]any{"tags": "kubernetes.io/cluster/x,y", "securityGroup": []any{"sg-1"},
				"securityGroupReadonly": false},
			want: []string{"--amazonec2-security-group=sg-1", "--amazonec2-tags=kubernetes.io/cluster/x,y", "m1"},
		},
		"vmwarevsphere takes a file under a name that has a dash": {
			driver: machinejob.Driver{Name: "vmwarevsphere", Aliases: map[string]string{"cloudConfig": "cloud-config"}},
			spec: map[string]any{"cloudConfig": "#cloud-config", "cpuCount": "4",
				"cfgparam": []any{"disk.enableUUID=TRUE"}},
			want: []string{
				"--vmwarevsphere-cfgparam=disk.enableUUID=TRUE",
				"--vmwarevsphere-cloud-config=/path/to/machine/files/cloud-config",
				"--vmwarevsphere-cpu-count=4", "m1",
			},
			wantKey: "cloud-config",
		},
		"harvester learns the cluster's name": {
			driver: machinejob.Driver{Name: "harvester"}, want: []string{"--harvester-cluster-name=demo", "m1"},
		},
		"digitalocean's key is a file that ssh accepts": {
			driver: machinejob.Driver{Name: "digitalocean",
				Aliases: map[string]string{"sshKeyContents": "sshKeyPath"}},
			spec:    map[string]any{"sshKeyContents": "KEY"},
			want:    []string{"--digitalocean-ssh-key-path=/path/to/machine/files/id_rsa", "m1"},
			wantKey: "id_rsa",
		},
		"numbers of any type are passed": {
			driver: machinejob.Driver{Name: "sim"}, spec: map[string]any{"rootSize": int64(40), "price": 0.5,
				"ipv6AddressCount": "1", "providerID": "x"},
			want: []string{"--sim-ipv6-address-count=1", "--sim-price=0.5", "--sim-root-size=40", "m1"},
		},
		"a short host name differs from the machine's": {
			driver: machinejob.Driver{Name: "sim"}, name: "demo-pool-a-7c9fd-x2k4q", limit: 15,
			want: []string{"--hostname-override=demo-pool-06c63", "demo-pool-a-7c9fd-x2k4q"},
		},
		"host names have no dots": {driver: machinejob.Driver{Name: "sim"}, name: "a.b", want: []string{"a-b"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := simInput()
			in.Driver, in.Machine.Spec, in.Machine.HostnameLimit = test.driver, test.spec, test.limit
			in.Machine.Name = "m1"
			if test.name != "" {
				in.Machine.Name = test.name
			}
			before := machinejob.Machine{Spec: test.spec}
			snapshot := runtime.DeepCopyJSON(map[string]any{"spec": test.spec})
			if diff := cmp.Diff(test.want, argv(in)); diff != "" {
				t.Errorf("driver's arguments (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(snapshot["spec"], any(before.Spec)); diff != "" {
				t.Errorf("the machine's spec was modified:\n%s", diff)
			}
			files := machinejob.RenderCreate(in).Files
			if test.wantKey != "" && (files == nil || !strings.HasSuffix(string(files.Data[test.wantKey]), "\n")) {
				t.Errorf("the Secret of files must contain %s with a final newline", test.wantKey)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	for name, test := range map[string]struct {
		driver string
		keys   map[string][]byte
		want   map[string][]byte
	}{
		"amazonec2 uses variables of AWS": {
			"amazonec2", map[string][]byte{"amazonec2credentialConfig-accessKey": []byte("a"),
				"amazonec2credentialConfig-defaultRegion": []byte("r")},
			map[string][]byte{"AWS_ACCESS_KEY": []byte("a"), "AWS_DEFAULT_REGION": []byte("r")},
		},
		"vmwarevsphere": {"vmwarevsphere",
			map[string][]byte{"vmwarevspherecredentialConfig-vcenterPort": []byte("443")},
			map[string][]byte{"VSPHERE_VCENTER_PORT": []byte("443")}},
		"openstack": {"openstack", map[string][]byte{"password": []byte("p")},
			map[string][]byte{"OS_PASSWORD": []byte("p")}},
		"any other driver": {"digitalocean", map[string][]byte{"x-y-accessToken": []byte("t"), "odd-": []byte("-")},
			map[string][]byte{"DIGITALOCEAN_ACCESS_TOKEN": []byte("t")}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, machinejob.Environment(test.driver, nil, test.keys)); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRender_SecretsStayInSecrets checks that values of credentials and files appear only in Secrets.
func TestRender_SecretsStayInSecrets(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		secret := rapid.StringMatching(`[A-Z]{24}`).Draw(r, "secret")
		in := simInput()
		in.Credential = map[string][]byte{"simcredentialConfig-apiToken": []byte(secret)}
		in.Machine.Spec["sshKeyContents"] = secret
		for _, o := range []machinejob.Objects{machinejob.RenderCreate(in), machinejob.RenderRemove(in, 1)} {
			encoded, err := yaml.Marshal([]any{o.Job, o.Role, o.RoleBindings, o.ServiceAccount})
			if err != nil {
				r.Fatal(err)
			}
			if strings.Contains(string(encoded), secret) {
				r.Fatalf("a secret is printed:\n%s", encoded)
			}
		}
	})
}

func TestRender_PodRunsUnprivileged(t *testing.T) {
	pod := machinejob.RenderCreate(simInput()).Job.Spec.Template.Spec
	security := pod.Containers[0].SecurityContext
	if *security.RunAsUser != 1000 || *security.AllowPrivilegeEscalation || !slices.Contains(security.Capabilities.Drop,
		corev1.Capability("ALL")) {
		t.Errorf("security context is %+v", security)
	}
	for _, volume := range pod.Volumes {
		if volume.HostPath != nil {
			t.Errorf("volume %s is a host path", volume.Name)
		}
	}
}

// A flag would override the environment, so a default of the machine config would hide the credential's value.
func TestRenderCreate_TheCredentialWins(t *testing.T) {
	for value, want := range map[string]bool{"9443": false, "": true} {
		in := simInput()
		in.Machine.Spec["vcenterPort"] = "443"
		in.Credential["simcredentialConfig-vcenterPort"] = []byte(value)
		args := machinejob.RenderCreate(in).Job.Spec.Template.Spec.Containers[0].Args
		if got := slices.Contains(args, "--sim-vcenter-port=443"); got != want {
			t.Errorf("credential has port %q: flag %v, want %v in %v", value, got, want, args)
		}
		if in.Machine.Spec["vcenterPort"] != "443" {
			t.Error("the machine's spec was changed")
		}
	}
}
