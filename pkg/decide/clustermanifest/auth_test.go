package clustermanifest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

const trust = `{"audience":"a","keys":[]}`

func auth(t *testing.T, in clustermanifest.Input, loopback string) clustermanifest.AuthObjects {
	t.Helper()
	objects, err := clustermanifest.RenderAuth(in, loopback, []byte(trust))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestAuth_Golden records the manifest: a difference restarts the token verification in every cluster that has it.
func TestAuth_Golden(t *testing.T) {
	for name, c := range map[string]struct {
		in       clustermanifest.Input
		loopback string
	}{
		"auth": {minimal(planFile), "localhost"}, "auth-everything": {minimal(everything, planFile), "[::1]"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := auth(t, c.in, c.loopback)
			got, err := clustermanifest.YAML([]runtime.Object{objects.Keys, objects.Server})
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "testdata/"+name+".golden.yaml", string(got))
		})
	}
}

// TestAuth_HasNoRights checks that the token verification has no credential, no right and no file of its host.
func TestAuth_HasNoRights(t *testing.T) {
	t.Parallel()
	objects := auth(t, minimal(everything, planFile), "localhost")
	content, err := clustermanifest.YAML([]runtime.Object{objects.Keys, objects.Server})
	if err != nil || strings.Contains(string(content), token) ||
		strings.Contains(string(content), "cattle-credentials") || strings.Contains(string(content), "proxy:3128") {
		t.Errorf("error %v, manifest %s", err, content)
	}
	pod := objects.Server.Spec.Template.Spec
	security := pod.Containers[0].SecurityContext
	if *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "" || len(pod.Volumes) != 1 ||
		pod.Volumes[0].ConfigMap == nil || len(pod.InitContainers) > 0 || len(pod.Containers) != 1 {
		t.Errorf("pod %+v", pod)
	}
	if *security.AllowPrivilegeEscalation || !*security.RunAsNonRoot || !*security.ReadOnlyRootFilesystem ||
		*pod.SecurityContext.RunAsUser == 0 || security.Privileged != nil ||
		security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		!slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		len(security.Capabilities.Add) > 0 || pod.HostPID || pod.HostIPC {
		t.Errorf("%+v", security)
	}
	if !pod.HostNetwork || len(pod.Tolerations) != 1 ||
		pod.Tolerations[0] != (corev1.Toleration{Operator: corev1.TolerationOpExists}) {
		t.Errorf("it must run on all nodes: host network %v, tolerations %v", pod.HostNetwork, pod.Tolerations)
	}
}

// TestAuth_OtherKeysRestartNothing checks that new keys do not restart the program.
func TestAuth_OtherKeysRestartNothing(t *testing.T) {
	t.Parallel()
	one := auth(t, minimal(planFile), "localhost")
	two, err := clustermanifest.RenderAuth(minimal(planFile), "localhost", []byte(`{"audience":"b","keys":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(one.Server, two.Server); diff != "" || one.Keys.Annotations[clustermanifest.DigestAnnotation] ==
		two.Keys.Annotations[clustermanifest.DigestAnnotation] {
		t.Errorf("the server must not change with keys, and the keys must differ:\n%s", diff)
	}
}
