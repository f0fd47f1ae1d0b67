package provisioningcluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

const podSecuritySecret = "demo-admission-configuration-psact"

func podSecurityTemplate(level string) map[string]*mgmtv3.PodSecurityAdmissionConfigurationTemplate {
	return map[string]*mgmtv3.PodSecurityAdmissionConfigurationTemplate{"strict": {
		Configuration: mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec{
			Defaults: mgmtv3.PodSecurityAdmissionConfigurationTemplateDefaults{Enforce: level},
		},
	}}
}

// The Secret with the Pod Security configuration is written before the control plane that names it. It follows the
// template, and is deleted after the control plane that no longer names it. A missing template changes nothing.
func TestOnChange_PodSecurity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.cluster.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName = "strict"
	})
	handle := w.register()
	pass := func(what string, want ...string) *rkev1.GenericCondition {
		t.Helper()
		w.clock, w.writes = w.clock.Add(time.Hour), nil
		if _, err := handle("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(w.writes, func(write string) bool {
			return write == "apply management" || write == "update cluster status"
		})
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +writes):\n%s", what, diff)
		}
		for _, object := range w.applied {
			if plane, ok := object.(*rkev1.RKEControlPlane); ok {
				w.controlPlane = plane
			}
		}
		return conditions.Get(w.cluster.Status.Conditions, "ConfigurationUnderstood")
	}
	content := func() string {
		secret := w.secrets["fleet-default/"+podSecuritySecret]
		if secret == nil {
			return ""
		}
		return string(secret.Data["admission-config-psact"])
	}
	pass("a new cluster without the template")
	if got := conditions.Get(w.cluster.Status.Conditions, "RKECluster"); got == nil || got.Reason != "InvalidSpec" ||
		!strings.Contains(got.Message, "no PodSecurityAdmissionConfigurationTemplate has this name; create it") {
		t.Errorf("condition RKECluster %+v", got)
	}
	w.templates = podSecurityTemplate("baseline")
	pass("the template exists", "create Secret "+podSecuritySecret)
	pass("the Secret is in the cache", "apply")
	if !strings.Contains(content(), "enforce: baseline") || len(w.controlPlane.Spec.MachineSelectorFiles) != 1 {
		t.Errorf("content %q, files %v", content(), w.controlPlane.Spec.MachineSelectorFiles)
	}
	pass("settled", "apply")
	w.templates = podSecurityTemplate("restricted")
	pass("the template is edited", "update Secret "+podSecuritySecret)
	if !strings.Contains(content(), "enforce: restricted") {
		t.Errorf("content %q", content())
	}
	w.templates = nil
	if got := pass("the template is deleted", "apply"); got == nil || got.Status != "False" ||
		got.Reason != "SafeValueUsed" ||
		!strings.Contains(got.Message, "spec.defaultPodSecurityAdmissionConfigurationTemplateName: Not found") {
		t.Errorf("condition %+v", got)
	}
	if len(w.controlPlane.Spec.MachineSelectorFiles) != 1 || content() == "" {
		t.Error("the configuration that is in use goes with its template")
	}
	w.templates = podSecurityTemplate("restricted")
	if got := pass("the template is back", "apply"); got == nil || got.Status != "True" {
		t.Errorf("condition %+v", got)
	}
	w.cluster.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName = ""
	pass("the field is removed, and the control plane in the cache has the file", "apply")
	pass("the control plane has no file", "apply", "delete Secret "+podSecuritySecret)
	pass("settled", "apply")
}

// An imported cluster has its own API servers.
func TestOnChange_PodSecurityOfAnImportedCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.cluster.Spec = provv1.ClusterSpec{DefaultPodSecurityAdmissionConfigurationTemplateName: "strict"}
		w.templates = podSecurityTemplate("restricted")
	})
	handle := w.register()
	pass := func() *rkev1.GenericCondition {
		if _, err := handle("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		return conditions.Get(w.cluster.Status.Conditions, "ConfigurationUnderstood")
	}
	if got := pass(); got == nil || got.Reason != "FieldWithoutEffect" ||
		!strings.Contains(got.Message, "has no effect on an imported cluster") || len(w.secrets) > 0 {
		t.Errorf("condition %+v, Secrets %v", got, w.secrets)
	}
	w.cluster.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName = ""
	if got := pass(); got == nil || got.Status != "True" {
		t.Errorf("condition %+v", got)
	}
}

// Secrets are deleted with the last of the clusters that they authorize, if they ask for it.
func TestRemove_DeletesAuthorizedSecrets(t *testing.T) {
	t.Parallel()
	const list, deletes = rkev1.AuthorizedObjectAnnotation, rkev1.AuthorizedSecretDeletesAnnotation
	other := func(name string) *provv1.Cluster {
		return &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name, UID: "u-2"}}
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		others      []*provv1.Cluster
		deleted     bool
	}{
		"of this cluster": {map[string]string{list: "demo", deletes: "true"}, nil, true},
		"with the older annotation": {
			map[string]string{rkev1.AuthorizedSecretAnnotation: "demo", deletes: "true"}, nil, true},
		"not asked for":      {map[string]string{list: "demo"}, nil, false},
		"asked for by false": {map[string]string{list: "demo", deletes: "false"}, nil, false},
		"of no cluster":      {map[string]string{deletes: "true"}, nil, false},
		"of another cluster": {map[string]string{list: "other", deletes: "true"}, nil, false},
		"shared with an existing cluster": {
			map[string]string{list: "demo,other", deletes: "true"}, []*provv1.Cluster{other("other")}, false},
		"shared through the older annotation": {map[string]string{list: "demo",
			rkev1.AuthorizedSecretAnnotation: "other", deletes: "true"}, []*provv1.Cluster{other("other")}, false},
		"shared with a cluster that is gone": {
			map[string]string{list: "demo,other", deletes: "true"}, []*provv1.Cluster{other("third")}, true},
		"of all clusters of the namespace": {
			map[string]string{list: "fleet-default/*", deletes: "true"}, []*provv1.Cluster{other("third")}, false},
		"of all clusters, and this is the last": {
			map[string]string{list: "fleet-default/*", deletes: "true"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(w *world) {
				w.cluster.DeletionTimestamp = &metav1.Time{Time: now}
				w.others = tc.others
				w.secrets["fleet-default/files"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
					Namespace: "fleet-default", Name: "files", UID: "s", Annotations: tc.annotations}}
			})
			if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(wholeRemoval)
			if tc.deleted {
				want = slices.Insert(want, 2, "delete Secret files")
			}
			if diff := cmp.Diff(want, w.writes); diff != "" {
				t.Errorf("(-want +writes):\n%s", diff)
			}
		})
	}
}

// Two clusters that are deleted at the same time do not both leave their Secret to the other one.
func TestRemove_SharedSecretGoesWithTheLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.cluster.DeletionTimestamp = &metav1.Time{Time: now}
		second := w.cluster.DeepCopy()
		second.Name, second.UID = "second", "u-2"
		w.others = []*provv1.Cluster{second}
		w.secrets["fleet-default/files"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-default", Name: "files", UID: "s", Annotations: map[string]string{
				rkev1.AuthorizedObjectAnnotation: "demo,second", rkev1.AuthorizedSecretDeletesAnnotation: "true"}}}
	})
	handle, first := w.register(), w.cluster.DeepCopy()
	if _, err := handle("", first); err != nil {
		t.Fatal(err)
	}
	if len(w.secrets) == 0 {
		t.Fatal("the Secret goes before the second cluster")
	}
	w.cluster, w.others = w.others[0], []*provv1.Cluster{first} // the cache still shows the first one
	if _, err := handle("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if len(w.secrets) > 0 {
		t.Error("the Secret stays")
	}
}
