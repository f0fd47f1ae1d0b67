package registries_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/registries"
)

// cache is a cache of one kind, and the error it gives instead when there is one.
type cache[T any] struct {
	objects map[string]T
	err     error
}

func (c cache[T]) Get(namespace, name string) (T, error) {
	object, ok := c.objects[namespace+"/"+name]
	switch {
	case c.err != nil:
		return object, c.err
	case !ok:
		return object, apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	return object, nil
}

func name(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func controlPlane() *rkev1.RKEControlPlane {
	cp := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo"}}
	cp.Spec.Registries = &rkev1.Registry{Configs: map[string]rkev1.RegistryConfig{
		"a.example.com": {AuthConfigSecretName: "auth", TLSSecretName: "tls"},
		"b.example.com": {AuthConfigSecretName: "auth"},
	}}
	cp.Spec.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{{FileSources: []rkev1.ProvisioningFileSource{
		{ConfigMap: rkev1.K8sObjectFileSource{Name: "files"}},
	}}}
	cp.Spec.ETCD = &rkev1.ETCD{S3: &rkev1.ETCDSnapshotS3{CloudCredentialName: "cattle-global-data:cc"}}
	cp.Spec.MachineGlobalConfig.Data = map[string]any{"cloud-provider-config": "secret://clouds:vsphere"}
	return cp
}

func TestGather_ReadsWhatExists(t *testing.T) {
	t.Parallel()
	secrets := cache[*corev1.Secret]{objects: map[string]*corev1.Secret{
		"fleet-default/auth": {
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				rkev1.AuthorizedObjectAnnotation: "demo", "noise.example.com/changed": "often",
			}},
			Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("u")},
		},
		"fleet-default/unrelated": {},
	}}
	configMaps := cache[*corev1.ConfigMap]{objects: map[string]*corev1.ConfigMap{
		"fleet-default/files": {Data: map[string]string{"a": "text"}, BinaryData: map[string][]byte{"b": {0xff}}},
	}}
	cp := controlPlane()
	got, err := registries.Gather(render.References(cp.Namespace, &cp.Spec, render.Settings{}), secrets, configMaps)
	if err != nil {
		t.Fatal(err)
	}
	want := render.Objects{
		Secrets: map[types.NamespacedName]render.Secret{name("fleet-default", "auth"): {
			Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("u")},
			Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: "demo"},
		}},
		ConfigMaps: map[types.NamespacedName]render.ConfigMap{name("fleet-default", "files"): {
			Data: map[string][]byte{"a": []byte("text"), "b": {0xff}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestGather_TellsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	cp := controlPlane()
	refs := render.References(cp.Namespace, &cp.Spec, render.Settings{})
	broken := errors.New("the cache is broken")
	for kind, caches := range map[string]struct {
		secrets    cache[*corev1.Secret]
		configMaps cache[*corev1.ConfigMap]
	}{
		"Secret":    {secrets: cache[*corev1.Secret]{err: broken}},
		"ConfigMap": {configMaps: cache[*corev1.ConfigMap]{err: broken}},
	} {
		if _, err := registries.Gather(refs, caches.secrets, caches.configMaps); !errors.Is(err, broken) || !strings.Contains(err.Error(), kind) {
			t.Errorf("broken cache of %s: error %v", kind, err)
		}
	}
	odd := []render.Reference{{Kind: "Pod", NamespacedName: name("a", "b")}}
	if _, err := registries.Gather(odd, cache[*corev1.Secret]{}, cache[*corev1.ConfigMap]{}); err == nil {
		t.Error("a reference to a Pod is followed")
	}
}

func TestIndexKeys_FindControlPlanesByWhatTheyReferTo(t *testing.T) {
	t.Parallel()
	got := registries.IndexKeys(controlPlane(), render.Settings{RegistryPullSecrets: []types.NamespacedName{name("cattle-system", "pull")}})
	want := []string{
		"ConfigMap/fleet-default/files",
		"Secret/cattle-global-data/cc",
		"Secret/cattle-system/pull",
		"Secret/clouds/vsphere",
		"Secret/fleet-default/auth",
		"Secret/fleet-default/tls",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if key := registries.IndexKey(render.KindSecret, "clouds", "vsphere"); key != want[3] {
		t.Errorf("key of the object is %q, of the reference %q", key, want[3])
	}
}

func TestAuthorizedClusters(t *testing.T) {
	t.Parallel()
	for title, tc := range map[string]struct {
		annotation string
		want       []types.NamespacedName
	}{
		"nobody":                 {},
		"one":                    {annotation: "demo", want: []types.NamespacedName{name("ns", "demo")}},
		"several, with mistakes": {annotation: "b, a,,b", want: []types.NamespacedName{name("ns", "a"), name("ns", "b")}},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
			if tc.annotation != "" {
				secret.Annotations = map[string]string{rkev1.AuthorizedObjectAnnotation: tc.annotation}
			}
			if diff := cmp.Diff(tc.want, registries.AuthorizedClusters(secret)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
}
