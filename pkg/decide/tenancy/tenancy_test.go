package tenancy_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/testkit/build"
)

var (
	key   = bytes.Repeat([]byte{7}, tenancy.KeySize)
	alice = tenancy.Author{Username: "alice", Groups: []string{"team-a"}, Extra: map[string][]string{"scopes": {"all"}}}
	bob   = tenancy.Author{Username: "bob"}
)

// naming is a cluster that refers to Secrets of other namespaces in every possible way, and to one of its own.
func naming(edits ...func(*provv1.Cluster)) *provv1.Cluster {
	cluster := build.Cluster("demo", build.Pool("a", "ecw", 1), build.Pool("b", "w", 1))
	config := cluster.Spec.RKEConfig
	cluster.Spec.CloudCredentialSecretName = "cattle-global-data:cc"
	config.MachinePools[0].CloudCredentialSecretName = "own"
	config.MachinePools[1].CloudCredentialSecretName = "cattle-global-data:pool"
	config.ETCD = &rkev1.ETCD{S3: &rkev1.ETCDSnapshotS3{CloudCredentialName: "cattle-global-data:s3"}}
	config.MachineGlobalConfig.Data = map[string]any{"cloud-provider-config": "secret://clouds:vsphere"}
	config.MachineSelectorConfig = []rkev1.RKESystemConfig{{Config: rkev1.GenericMap{
		Data: map[string]any{"cloud-provider-config": "secret://" + build.Namespace + ":own"},
	}}}
	for _, edit := range edits {
		edit(cluster)
	}
	return cluster
}

func TestReferences_PointToOtherNamespaces(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, ref := range tenancy.References(naming()) {
		got[ref.String()] = ref.Field
	}
	want := map[string]string{
		"cattle-global-data/cc":   "spec.cloudCredentialSecretName",
		"cattle-global-data/pool": "spec.rkeConfig.machinePools[1].cloudCredentialSecretName",
		"cattle-global-data/s3":   "spec.rkeConfig.etcd.s3.cloudCredentialName",
		"clouds/vsphere":          "spec.rkeConfig.machineGlobalConfig or machineSelectorConfig, cloud-provider-config",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	inGlobal := naming(func(c *provv1.Cluster) { c.Namespace = "cattle-global-data" })
	for _, ref := range tenancy.References(inGlobal) {
		if ref.Namespace == "cattle-global-data" {
			t.Errorf("%s is in the cluster's own namespace", ref)
		}
	}
	if refs := tenancy.References(&provv1.Cluster{}); refs != nil {
		t.Errorf("an imported cluster names %v", refs)
	}
}

func TestOffered_RefusesBareNames(t *testing.T) {
	t.Parallel()
	demo := types.NamespacedName{Namespace: "a", Name: "demo"}
	for list, want := range map[string]bool{
		"": false, "demo": false, "a/demo": true, "x, a/demo": true, "a/*": true, "b/*": false, "b/demo": false,
		"*": false, "*/*": false, "a/": false,
	} {
		for _, annotation := range []string{rkev1.AuthorizedObjectAnnotation, rkev1.AuthorizedSecretAnnotation} {
			if got := tenancy.Offered(map[string]string{annotation: list}, demo); got != want {
				t.Errorf("%s: %q offers it: %t", annotation, list, got)
			}
		}
	}
}

// granted is a cluster with one author for all references.
func granted(t *testing.T, author tenancy.Author) *provv1.Cluster {
	t.Helper()
	cluster := naming()
	write(t, nil, cluster, author)
	return cluster
}

func write(t *testing.T, before, after *provv1.Cluster, author tenancy.Author) {
	t.Helper()
	text, err := tenancy.WriteGrants(before, after, author, tenancy.NewReferences(before, after), key)
	if err != nil {
		t.Fatal(err)
	}
	after.Annotations = map[string]string{tenancy.GrantsAnnotation: text}
}

func authors(cluster *provv1.Cluster) string {
	var list []string
	for _, ref := range tenancy.References(cluster) {
		if who, ok := tenancy.Grants(cluster, key)[ref.NamespacedName]; ok {
			list = append(list, ref.Name+"="+who.Username)
		}
	}
	return strings.Join(list, " ")
}

func TestGrants_RecordTheAuthorOfEachReference(t *testing.T) {
	t.Parallel()
	before := granted(t, alice)
	if got := authors(before); got != "cc=alice pool=alice s3=alice vsphere=alice" {
		t.Fatalf("authors: %s", got)
	}
	if diff := cmp.Diff(alice,
		tenancy.Grants(before, key)[types.NamespacedName{Namespace: "clouds", Name: "vsphere"}]); diff != "" {
		t.Errorf("the author (-want +got):\n%s", diff)
	}
	after := before.DeepCopy()
	after.Annotations = nil // as when the user applies a manifest without it
	after.Spec.CloudCredentialSecretName = "cattle-global-data:new"
	after.Spec.RKEConfig.ETCD = nil
	if added := tenancy.NewReferences(before, after); len(added) != 1 || added[0].Name != "new" {
		t.Errorf("new: %v", added)
	}
	write(t, before, after, bob)
	if got := authors(after); got != "new=bob pool=alice vsphere=alice" {
		t.Errorf("authors: %s", got)
	}
}

// TestGrants_UnrelatedEditsGrantNothing checks that an existing reference without a grant gets none by another edit.
// Controllers edit Clusters too.
func TestGrants_UnrelatedEditsGrantNothing(t *testing.T) {
	t.Parallel()
	before, after := naming(), naming()
	write(t, before, after, tenancy.Author{Username: "system:serviceaccount:drover-system:drover"})
	if got := authors(after); got != "" {
		t.Errorf("authors: %s", got)
	}
}

func TestGrants_CannotBeForged(t *testing.T) {
	t.Parallel()
	good := granted(t, alice)
	for name, edit := range map[string]func(*provv1.Cluster){
		"another author": func(c *provv1.Cluster) { replace(c, "alice", "admin") },
		"another group":  func(c *provv1.Cluster) { replace(c, "team-a", "system:masters") },
		"another Secret": func(c *provv1.Cluster) {
			replace(c, "clouds/vsphere", "clouds/other")
			c.Spec.RKEConfig.MachineGlobalConfig.Data["cloud-provider-config"] = "secret://clouds:other"
		},
		"a cluster of the same name": func(c *provv1.Cluster) { c.Namespace = "other" },
		"another cluster":            func(c *provv1.Cluster) { c.Name = "other" },
		"nonsense":                   func(c *provv1.Cluster) { c.Annotations[tenancy.GrantsAnnotation] = "[{" },
	} {
		forged := good.DeepCopy()
		edit(forged)
		for _, ref := range tenancy.References(forged) {
			touched := name != "another Secret" || ref.Namespace == "clouds"
			if _, ok := tenancy.Grants(forged, key)[ref.NamespacedName]; ok && touched {
				t.Errorf("%s: %s is granted", name, ref)
			}
		}
	}
	if got := tenancy.Grants(good, bytes.Repeat([]byte{8}, tenancy.KeySize)); len(got) > 0 {
		t.Errorf("with another key: %v", got)
	}
	if got := tenancy.Grants(good, nil); len(got) > 0 {
		t.Errorf("without a key: %v", got)
	}
}

// TestGrants_AreNotReadFromTheChange checks that the annotation in a change does not count.
func TestGrants_AreNotReadFromTheChange(t *testing.T) {
	t.Parallel()
	after := granted(t, alice)
	text, err := tenancy.WriteGrants(naming(), after, bob, nil, key)
	if err != nil || text != "" {
		t.Errorf("the change keeps %q, error %v", text, err)
	}
}

func replace(c *provv1.Cluster, old, other string) {
	c.Annotations[tenancy.GrantsAnnotation] = strings.ReplaceAll(c.Annotations[tenancy.GrantsAnnotation], old, other)
}
