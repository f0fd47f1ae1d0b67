package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/admission"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

// restore requests a restore with a generation.
func restore(name string, generation int, mode rkev1.RestoreMode) func(*provv1.Cluster) {
	return func(c *provv1.Cluster) {
		c.Spec.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: name, Generation: generation,
			RestoreRKEConfig: mode}
	}
}

// taken returns a snapshot of a cluster with a spec.
func taken(spec string) *rkev1.ETCDSnapshot {
	return &rkev1.ETCDSnapshot{SnapshotFile: rkev1.ETCDSnapshotFile{Metadata: packed.Metadata(spec)}}
}

func TestDecide_ChecksTheContentOfASnapshot(t *testing.T) {
	t.Parallel()
	const at = "spec.rkeConfig.etcdSnapshotRestore"
	all := taken(`{"kubernetesVersion":"v1.35.1+rke2r1","rkeConfig":{}}`)
	versioned := taken(`{"kubernetesVersion":"v1.35.1+rke2r1","rkeConfig":null}`)
	other := taken(`{"kubernetesVersion":"v1.35.1+rke2r1","rkeConfig":{}}`)
	other.Spec.ClusterName = "other"
	damaged := &rkev1.ETCDSnapshot{SnapshotFile: rkev1.ETCDSnapshotFile{Metadata: "no base64"}}
	for name, tc := range map[string]struct {
		before, after *provv1.Cluster
		snapshot      *rkev1.ETCDSnapshot
		unknown       bool
		want, warned  string
	}{
		"everything": {demo(), demo(restore("s", 1, "all")), all, false, "",
			"changes the spec, before machines stop: spec.kubernetesVersion ("},
		"everything of a snapshot without a configuration": {demo(), demo(restore("s", 1, "all")), versioned, false,
			at + `.name: Invalid value: "s": the snapshot does not contain the rkeConfig`, ""},
		"the version": {demo(), demo(restore("s", 1, "kubernetesVersion")), versioned, false, "",
			"→ v1.35.1+rke2r1)"},
		"the version that it has": {demo(), demo(restore("s", 1, "kubernetesVersion")),
			taken(`{"kubernetesVersion":"` + demo().Spec.KubernetesVersion + `"}`), false, "", "changes nothing"},
		"everything of another cluster": {demo(), demo(restore("s", 1, "all")), other, false,
			at + `.name: Invalid value: "s": the snapshot is of cluster other`, ""},
		"the version of a snapshot without a version": {demo(), demo(restore("s", 1, "kubernetesVersion")),
			&rkev1.ETCDSnapshot{}, false,
			at + `.name: Invalid value: "s": the snapshot does not contain the Kubernetes version`, ""},
		"an unreadable snapshot": {demo(), demo(restore("s", 1, "all")), damaged, false,
			at + `.name: Invalid value: "s": the snapshot's metadata must be base64`, ""},
		"a missing snapshot": {demo(), demo(restore("s", 1, "all")), nil, false,
			at + `.name: Not found: "s"`, ""},
		"the snapshots are unknown": {demo(), demo(restore("s", 1, "all")), nil, true, "", ""},
		"an invalid mode": {demo(), demo(restore("s", 1, "everything")), all, false,
			at + `.restoreRKEConfig: Unsupported value: "everything"`, ""},
		"data of a file without an object": {demo(), demo(restore("s", 1, "none")), nil, false, "", ""},
		"again, of a deleted snapshot": {demo(restore("s", 1, "all")), demo(restore("s", 2, "all")), nil, false,
			at + ".name: Not found", ""},
		"unchanged": {demo(restore("s", 1, "all")), demo(restore("s", 1, "all"), withTwo), nil,
			false, "", ""},
		"no name":                      {demo(), demo(restore("", 1, "all")), nil, false, "", ""},
		"a new cluster with a restore": {nil, demo(restore("s", 1, "all")), nil, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(t, func(f *admission.Facts) { f.Snapshot, f.Known = tc.snapshot, !tc.unknown })
			a := decide(t, ofCluster(t, f, tc.before, tc.after))
			if got := topology.Explain(a.Errors); (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q", got)
			}
			if got := strings.Join(a.Warnings, ""); (got == "") != (tc.warned == "") ||
				!strings.Contains(got, tc.warned) {
				t.Errorf("warnings %q", got)
			}
		})
	}
}

func storedIn(credential string) func(*provv1.Cluster) {
	return func(c *provv1.Cluster) {
		c.Spec.RKEConfig.ETCD = &rkev1.ETCD{S3: &rkev1.ETCDSnapshotS3{Bucket: "b", CloudCredentialName: credential}}
	}
}

func TestDecide_ChecksTheCredentialOfSnapshots(t *testing.T) {
	t.Parallel()
	const want = `spec.rkeConfig.etcd.s3.cloudCredentialName: Invalid value: "cattle-global-data:cc": Secret cc does not exist in namespace cattle-global-data: create it first`
	stored := storedIn("cattle-global-data:cc")
	for name, tc := range map[string]struct {
		before, after *provv1.Cluster
		missing       bool
		want, warned  string
	}{
		"of an existing cluster":  {demo(), demo(stored), true, want, ""},
		"another credential":      {demo(storedIn("old")), demo(stored), true, want, ""},
		"of a new cluster":        {nil, demo(stored), true, "", want},
		"that exists":             {demo(), demo(stored), false, "", ""},
		"that was missing before": {demo(stored), demo(stored, withTwo), true, "", ""},
		"that is no longer used":  {demo(stored), demo(), true, "", ""},
		"of clusters of another manager": {demo(), demo(stored, func(c *provv1.Cluster) {
			c.Annotations[rkev1.InstanceAnnotation] = "other"
		}), true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(t, func(f *admission.Facts) { f.CredentialMissing = tc.missing })
			a := decide(t, ofCluster(t, f, tc.before, tc.after))
			if diff := cmp.Diff([]string{tc.want, tc.warned},
				[]string{topology.Explain(a.Errors), strings.Join(a.Warnings, "")}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNamedBy_NewReferences(t *testing.T) {
	t.Parallel()
	own := types.NamespacedName{Namespace: build.Namespace, Name: "cc"}
	snapshot := types.NamespacedName{Namespace: build.Namespace, Name: "s"}
	for name, tc := range map[string]struct {
		before, after any
		resource      string
		want          admission.Named
	}{
		"both": {demo(), demo(storedIn("cc"), restore("s", 1, "all")), "clusters",
			admission.Named{Snapshot: snapshot, Credential: own}},
		"of a new cluster": {nil, demo(storedIn("cc"), restore("s", 1, "all")), "clusters",
			admission.Named{Credential: own}},
		"the same as before": {demo(storedIn("cc"), restore("s", 1, "all")),
			demo(storedIn("cc"), restore("s", 1, "all")), "clusters", admission.Named{}},
		"data only":                 {demo(), demo(restore("s", 1, "")), "clusters", admission.Named{}},
		"of an unreadable object":   {nil, map[string]any{"spec": 1}, "clusters", admission.Named{}},
		"of a deleted Cluster":      {demo(storedIn("cc")), nil, "clusters", admission.Named{}},
		"of another kind of object": {nil, demo(storedIn("cc")), "etcdsnapshots", admission.Named{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want,
				admission.NamedBy(request(t, "provisioning.cattle.io", tc.resource, facts(t), tc.before,
					tc.after))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestComplete_RecordsTheCreatorOfACredential(t *testing.T) {
	t.Parallel()
	const key = "field.cattle.io/creatorId"
	secret := func(kind, key, value string) *corev1.Secret {
		return &corev1.Secret{Type: corev1.SecretType(kind),
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}}}
	}
	const cloud = "provisioning.cattle.io/cloud-credential"
	recorded := []admission.Patch{{Op: "add", Path: "/metadata/annotations/field.cattle.io~1creatorId", Value: "alice"}}
	for name, tc := range map[string]struct {
		user   string
		secret *corev1.Secret
		want   []admission.Patch
	}{
		"no creator": {"alice", secret(cloud, "a", "b"), recorded},
		"there are no annotations": {"alice", &corev1.Secret{Type: cloud},
			[]admission.Patch{{Op: "add", Path: "/metadata/annotations", Value: map[string]string{key: "alice"}}}},
		"another creator; the policy judges it": {"alice", secret(cloud, key, "bob"), nil},
		"explicitly without a creator": {
			"alice", secret(cloud, "field.cattle.io/no-creator-rbac", "true"), nil},
		"restored": {
			"alice", secret(cloud, rkev1.RestoredFromAnnotation, "backup"), nil},
		"by a program": {"system:serviceaccount:flux:flux", secret(cloud, "a", "b"), nil},
		"another type": {"alice", secret("Opaque", "a", "b"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request(t, "", "secrets", facts(t), nil, tc.secret)
			r.User.Username = tc.user
			if diff := cmp.Diff(tc.want, complete(t, r).Patches); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestComplete_RecordsTheCreator(t *testing.T) {
	t.Parallel()
	const at = "/metadata/annotations/field.cattle.io~1creatorId"
	annotate := func(key, value string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) { c.Annotations[key] = value }
	}
	for name, tc := range map[string]struct {
		before, after *provv1.Cluster
		want          []admission.Patch
	}{
		"no creator": {nil, demo(), []admission.Patch{{Op: "add", Path: at, Value: "alice"}}},
		"there are no annotations": {nil, demo(func(c *provv1.Cluster) {
			c.Annotations = nil
		}), []admission.Patch{{Op: "add", Path: "/metadata/annotations",
			Value: map[string]string{"field.cattle.io/creatorId": "alice"}}}},
		"another creator": {nil, demo(annotate("field.cattle.io/creatorId", "bob")),
			[]admission.Patch{{Op: "add", Path: at, Value: "alice"}}},
		"the same creator":             {nil, demo(annotate("field.cattle.io/creatorId", "alice")), nil},
		"explicitly without a creator": {nil, demo(annotate("field.cattle.io/no-creator-rbac", "true")), nil},
		"another Drover's":             {nil, demo(annotate(rkev1.InstanceAnnotation, "other")), nil},
		"an existing Cluster":          {demo(), demo(withTwo), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ofCluster(t, facts(t), tc.before, tc.after)
			r.User.Username = "alice"
			if diff := cmp.Diff(tc.want, complete(t, r).Patches); diff != "" {
				t.Error(diff)
			}
		})
	}
}
