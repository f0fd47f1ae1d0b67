package processkubelet

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// objects simulates the API server. It has Secrets and ConfigMaps by name, with their keys.
type objects struct {
	secrets    map[string]map[string]string
	configMaps map[string]map[string]string
}

func (o objects) Secret(_, name string) (*corev1.Secret, error) {
	keys, ok := o.secrets[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	secret := &corev1.Secret{Data: map[string][]byte{}}
	for key, value := range keys {
		secret.Data[key] = []byte(value)
	}
	return secret, nil
}

func (o objects) ConfigMap(_, name string) (*corev1.ConfigMap, error) {
	keys, ok := o.configMaps[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &corev1.ConfigMap{Data: keys}, nil
}

func (o objects) Token(_ context.Context, pod *corev1.Pod, projection *corev1.ServiceAccountTokenProjection) ([]byte,
	error) {
	return []byte("token of " + pod.Spec.ServiceAccountName + " for " + projection.Audience), nil
}

var (
	somewhere = nodeFacts{Name: "n1", Address: "10.0.0.5", PodAddress: "10.0.0.6", APIHost: "10.0.0.1", APIPort: "6443"}
	some      = objects{
		secrets:    map[string]map[string]string{"cred": {"USER": "u", "PASSWORD": "p", "not a name=": "x"}},
		configMaps: map[string]map[string]string{"conf": {"COLOUR": "red", "a.b": "dotted"}},
	}
	yes = true
)

func podWith(container corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u-1", Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{ServiceAccountName: "sa", Containers: []corev1.Container{container}},
	}
}

func TestImageTable(t *testing.T) {
	table := []Image{
		{Match: "rancher/machine:v?", Program: "/first"}, {Match: "*/drover*", Program: "/second"},
		{Match: "a.b/c", Program: "/third"},
	}
	tests := map[string]struct{ want string }{
		"rancher/machine:v1":          {"/first"},
		"rancher/machine:v12":         {""},
		"registry.test:5/x/drover:v1": {"/second"},
		"drover:v1":                   {""},
		"a.b/c":                       {"/third"},
		"aXb/c":                       {""},
		"a.b/c\nrancher/machine:v1":   {""},
	}
	for reference, test := range tests {
		t.Run(reference, func(t *testing.T) {
			image, err := findImage(table, reference)
			if image.Program != test.want || (err == nil) != (test.want != "") {
				t.Errorf("found %q, %v; want %q", image.Program, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), "rancher/machine:v?") {
				t.Errorf("error %v does not list the known images", err)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	base := map[string]string{
		"HOME": "/home/x", "HOSTNAME": "p", "KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443",
		"KUBERNETES_SERVICE_PORT_HTTPS": "6443", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	secretKey := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name},
				Key: key, Optional: optional}}
	}
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	secretAll := func(name, prefix string, optional *bool) corev1.EnvFromSource {
		return corev1.EnvFromSource{Prefix: prefix,
			SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name},
				Optional: optional}}
	}
	tests := map[string]struct {
		image   Image
		from    []corev1.EnvFromSource
		env     []corev1.EnvVar
		want    map[string]string // in addition to base
		wantErr string
	}{
		"no variables of the kubelet": {},
		"image, then envFrom, then env": {
			image: Image{Env: []string{"A=image", "USER=image", "B=image"}},
			from:  []corev1.EnvFromSource{secretAll("cred", "", nil)},
			env:   []corev1.EnvVar{{Name: "B", Value: "own"}},
			want:  map[string]string{"A": "image", "USER": "u", "PASSWORD": "p", "B": "own"},
		},
		"prefix": {from: []corev1.EnvFromSource{secretAll("cred", "X_", nil)},
			want: map[string]string{"X_USER": "u", "X_PASSWORD": "p"}},
		"references": {env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)$(C)$$(A)"}},
			want: map[string]string{"A": "1", "B": "1$(C)$(A)"}},
		"secret key": {env: []corev1.EnvVar{{Name: "A", ValueFrom: secretKey("cred", "USER", nil)}},
			want: map[string]string{"A": "u"}},
		"secret missing": {env: []corev1.EnvVar{{Name: "A", ValueFrom: secretKey("gone", "USER", nil)}},
			wantErr: `env A: secrets "gone" not found`},
		"secret key missing": {env: []corev1.EnvVar{{Name: "A", ValueFrom: secretKey("cred", "x", nil)}},
			wantErr: `env A: Secret cred has no key "x"`},
		"optional secret missing": {env: []corev1.EnvVar{{Name: "A", ValueFrom: secretKey("gone", "USER", &yes)}}},
		"optional key missing":    {env: []corev1.EnvVar{{Name: "A", ValueFrom: secretKey("cred", "x", &yes)}}},
		"envFrom missing": {from: []corev1.EnvFromSource{secretAll("gone", "", nil)},
			wantErr: `secrets "gone" not found`},
		"optional envFrom": {from: []corev1.EnvFromSource{secretAll("gone", "", &yes)}},
		"fields": {
			env: []corev1.EnvVar{{Name: "A", ValueFrom: field("metadata.name")},
				{Name: "B", ValueFrom: field("status.podIP")}, {Name: "C", ValueFrom: field("metadata.labels['app']")}},
			want: map[string]string{"A": "p", "B": "10.0.0.6", "C": "x"},
		},
		"unknown field": {env: []corev1.EnvVar{{Name: "A", ValueFrom: field("status.phase")}},
			wantErr: "does not support field status.phase"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			container := corev1.Container{Name: "c", EnvFrom: test.from, Env: test.env}
			got, err := environment(podWith(container), &container, test.image, "/home/x", somewhere, some)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error is %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, m := range []map[string]string{base, test.want} {
				maps.Copy(want, m)
			}
			gotMap := map[string]string{}
			for _, entry := range got {
				name, value, _ := strings.Cut(entry, "=")
				gotMap[name] = value
			}
			if diff := cmp.Diff(want, gotMap); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	image := Image{Program: "/entry", Args: []string{"fixed"}}
	tests := map[string]struct {
		command, args []string
		want          string
	}{
		"only the image": {want: "/entry fixed"},
		"arguments":      {args: []string{"a", "$(V)"}, want: "/entry fixed a 1"},
		"command replaces entrypoint and arguments": {command: []string{"/own", "x"}, want: "/own x"},
		"command and args":                          {command: []string{"/own"}, args: []string{"a"}, want: "/own a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			program, args := commandLine(&corev1.Container{Command: test.command, Args: test.args}, image,
				[]string{"V=1"})
			if got := strings.Join(append([]string{program}, args...), " "); got != test.want {
				t.Errorf("runs %q, want %q", got, test.want)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	id := func(n int64) *int64 { return &n }
	tests := map[string]struct {
		image      Image
		pod        *corev1.PodSecurityContext
		container  *corev1.SecurityContext
		wantUID    int
		wantGID    int
		wantGroups []int
	}{
		"root":         {},
		"image's user": {image: Image{User: 1000}, wantUID: 1000, wantGID: 1000},
		"pod's user overrides image's user": {image: Image{User: 1000},
			pod: &corev1.PodSecurityContext{RunAsUser: id(2), RunAsGroup: id(3)}, wantUID: 2, wantGID: 3},
		"container's user overrides pod's user": {pod: &corev1.PodSecurityContext{RunAsUser: id(2)},
			container: &corev1.SecurityContext{RunAsUser: id(4), RunAsGroup: id(5)}, wantUID: 4, wantGID: 5},
		"groups": {pod: &corev1.PodSecurityContext{FSGroup: id(7), SupplementalGroups: []int64{8}},
			wantGroups: []int{8, 7}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			container := corev1.Container{SecurityContext: test.container}
			pod := podWith(container)
			pod.Spec.SecurityContext = test.pod
			uid, gid, groups := identity(pod, &container, test.image)
			if uid != test.wantUID || gid != test.wantGID || !cmp.Equal(groups, test.wantGroups) {
				t.Errorf("runs as %d:%d %v, want %d:%d %v", uid, gid, groups, test.wantUID, test.wantGID,
					test.wantGroups)
			}
		})
	}
}

func TestVolumeFiles(t *testing.T) {
	mode, own := int32(0o400), int32(0o755)
	secret := func(s corev1.SecretVolumeSource) corev1.VolumeSource { return corev1.VolumeSource{Secret: &s} }
	items := []corev1.KeyToPath{{Key: "USER", Path: "deep/user", Mode: &own}, {Key: "PASSWORD", Path: "pw"}}
	tests := map[string]struct {
		source  corev1.VolumeSource
		want    map[string]string // path → mode and content
		wantErr string
	}{
		"secret": {source: secret(corev1.SecretVolumeSource{SecretName: "cred"}),
			want: map[string]string{"USER": "644 u", "PASSWORD": "644 p", "not a name=": "644 x"}},
		"secret, items and modes": {source: secret(corev1.SecretVolumeSource{SecretName: "cred", Items: items,
			DefaultMode: &mode}), want: map[string]string{"deep/user": "755 u", "pw": "400 p"}},
		"secret missing": {source: secret(corev1.SecretVolumeSource{SecretName: "gone"}),
			wantErr: `secrets "gone" not found`},
		"optional secret missing": {source: secret(corev1.SecretVolumeSource{SecretName: "gone", Optional: &yes}),
			want: map[string]string{}},
		"item missing": {
			source: secret(corev1.SecretVolumeSource{SecretName: "cred",
				Items: []corev1.KeyToPath{{Key: "x", Path: "x"}}}), wantErr: `Secret cred has no key "x"`},
		"config map": {
			source: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}},
			want: map[string]string{"COLOUR": "644 red", "a.b": "644 dotted"},
		},
		"projected": {
			source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode,
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "api"}},
					{ConfigMap: &corev1.ConfigMapProjection{
						LocalObjectReference: corev1.LocalObjectReference{Name: "conf"},
						Items:                []corev1.KeyToPath{{Key: "COLOUR", Path: "c"}}}},
					{DownwardAPI: &corev1.DownwardAPIProjection{
						Items: []corev1.DownwardAPIVolumeFile{
							{Path: "namespace",
								FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}},
				}}},
			want: map[string]string{"token": "400 token of sa for api", "c": "400 red", "namespace": "400 ns"},
		},
		"empty directory": {source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			want: map[string]string{}},
		"network disk": {source: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}},
			wantErr: "volume v: this node does not support its kind"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files, err := volumeFiles(t.Context(), podWith(corev1.Container{}),
				corev1.Volume{Name: "v", VolumeSource: test.source}, somewhere, some, some)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error is %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "v")
			if err := writeVolume(dir, files, nil); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for path := range files {
				info, err := os.Stat(filepath.Join(dir, path))
				if err != nil {
					t.Fatal(err)
				}
				got[path] = strings.TrimPrefix(info.Mode().String(), "-") + " " + content(t, filepath.Join(dir, path))
			}
			for path, text := range test.want {
				octal, rest, _ := strings.Cut(text, " ")
				test.want[path] = map[string]string{"644": "rw-r--r--", "755": "rwxr-xr-x", "400": "r--------"}[octal] +
					" " + rest
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("volume (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVolumesAreIsolated(t *testing.T) {
	dir := t.TempDir()
	volume := filepath.Join(dir, "v")
	if err := writeVolume(volume, map[string]payload{"../out": {}}, nil); err == nil {
		t.Error("a file was written outside of its volume")
	}
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(volume, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../v2", "/etc", "link", "link/passwd", "link/new"} {
		if got, err := subPath(volume, path); err == nil {
			t.Errorf("subPath %s leads to %s", path, got)
		}
	}
	for path, want := range map[string]string{"": volume, "a/b": filepath.Join(volume, "a", "b")} {
		if got, err := subPath(volume, path); got != want || err != nil {
			t.Errorf("subPath %q leads to %s, %v; want %s", path, got, err, want)
		}
	}
}

func TestResolveInside(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"run", "var", "usr/lib"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"var/run": "/run", "lib": "usr/lib", "up": "../../..", "loop": "/loop",
		"var/rel": "../run"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/var/run/secrets/x": "/run/secrets/x", "/lib/y": "/usr/lib/y", "/new/dir": "/new/dir", "/up/run": "/run",
		"/var/rel/z": "/run/z",
		"/../../etc": "/etc", "/": "/",
	} {
		if got, err := resolveInside(root, path); got != want || err != nil {
			t.Errorf("%s is %s, %v; want %s", path, got, err, want)
		}
	}
	if _, err := resolveInside(root, "/loop/x"); err == nil {
		t.Error("a cycle of links was followed")
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := "nodeName: n\ndir: /d\nkubeconfig: /k\naddress: 10.0.0.1\nport: 10250\ntlsCertFile: /c\ntlsKeyFile: " +
		"/k\nclientCAFile: /ca\nimages:\n- {match: 'a:*', program: /a}\n"
	tests := map[string]struct{ text, want string }{
		"good":         {good, ""},
		"name missing": {strings.Replace(good, "nodeName: n\n", "", 1), "nodeName: is required"},
		"port missing": {strings.Replace(good, "port: 10250\n", "", 1), "port: is required"},
		"relative program": {strings.Replace(good, "program: /a", "program: a", 1),
			"images[0]: program: must be the absolute path"},
		"layout": {strings.Replace(good, "program: /a", "layout: /a", 1), ""},
		"relative layout": {strings.Replace(good, "program: /a", "layout: a", 1),
			"images[0]: layout: must be the absolute path"},
		"layout, program": {strings.Replace(good, "program: /a", "program: /a, layout: /b", 1),
			"images[0]: layout: the image contains program, args"},
		"misspelled": {good + "tains: []\n", `unknown field "tains"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := LoadConfig(path)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}
