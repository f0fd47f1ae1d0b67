package endpointtoken

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestFor(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(noon)
	type facts struct {
		cluster    *provv1.Cluster
		management *mgmtv3.Cluster
		secret     *corev1.Secret
	}
	for name, c := range map[string]struct {
		edit func(*facts)
		want string // "" for none
		is   error
	}{
		"complete": {func(*facts) {}, "", nil},
		"disabled": {func(f *facts) { f.cluster.Spec.LocalClusterAuthEndpoint.Enabled = false },
			"spec.localClusterAuthEndpoint.enabled", ErrOff},
		"imported":      {func(f *facts) { f.cluster.Spec.RKEConfig = nil }, "imported", ErrOff},
		"being deleted": {func(f *facts) { f.cluster.DeletionTimestamp = &now }, "being deleted", ErrOff},
		"no keys":       {func(f *facts) { f.secret = nil }, "do not exist yet", ErrNotYet},
		"keys that are being deleted": {func(f *facts) { f.secret.DeletionTimestamp = &now }, "do not exist yet",
			ErrNotYet},
		"no management cluster": {func(f *facts) { f.management = nil }, "do not exist yet", ErrNotYet},
		"another Secret has the name": {func(f *facts) { f.secret.Type = corev1.SecretTypeOpaque },
			"fleet-default/demo-endpoint-keys must have type drover.io/endpoint-keys", ErrInvalidKeys},
		"the key is invalid": {func(f *facts) { f.secret.Data["current"] = nil },
			"current must be an Ed25519 private key", ErrInvalidKeys},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts{
				cluster: &provv1.Cluster{
					ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo"},
					Spec: provv1.ClusterSpec{
						RKEConfig:                &provv1.RKEConfig{},
						LocalClusterAuthEndpoint: rkev1.LocalClusterAuthEndpoint{Enabled: true},
					},
				},
				management: &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-1", UID: "uid-1"}},
			}
			var err error
			f.secret, err = newKeys(t, 1).Secret(f.cluster)
			check(t, err)
			c.edit(&f)
			endpoint, err := For(f.cluster, f.management, f.secret)
			if c.want == "" {
				if err != nil || endpoint.Audience != here {
					t.Errorf("audience %q, error %v", endpoint.Audience, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
