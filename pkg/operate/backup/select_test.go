package backup

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/reach/connect"
)

func in(namespace string, object *unstructured.Unstructured) *unstructured.Unstructured {
	object.SetNamespace(namespace)
	return object
}

func set(object *unstructured.Unstructured, value string, path ...string) *unstructured.Unstructured {
	_ = unstructured.SetNestedField(object.Object, value, path...) // cannot fail: the test owns every map on the path
	return object
}

func labelled(object *unstructured.Unstructured) *unstructured.Unstructured {
	object.SetLabels(map[string]string{rkev1.BackupLabel: "true"})
	return object
}

// twoTeams have one cluster each, with the identities c-m-a and c-m-b. They share drivers and the manager's own
// objects.
func twoTeams() *world {
	w := &world{
		kinds: []*unstructured.Unstructured{in("", object("management.cattle.io/v3", "NodeDriver", "sim", "driver"))}}
	for _, team := range []string{"a", "b"} {
		id := "c-m-" + team
		cluster := set(in(team, object("provisioning.cattle.io/v1", "Cluster", "demo", team+"-cluster")), id, "status",
			"clusterName")
		w.kinds = append(w.kinds, cluster,
			in("", object("management.cattle.io/v3", "Cluster", id, team+"-identity")),
			in(id, object("management.cattle.io/v3", "ClusterRegistrationToken", "default", team+"-registration")))
		copied := in(team, object("v1", "ConfigMap", "copied", team+"-copied"))
		copied.SetAnnotations(map[string]string{"provisioning.cattle.io/sync": "true"})
		w.core = append(w.core, copied,
			labelled(in(team, object("v1", "Secret", "state", team+"-state"))),
			in(team, object("v1", "Secret", "anybodys", team+"-anybodys")))
	}
	for _, name := range []string{AuthorityName, access.KeySecret} {
		w.core = append(w.core, in(systemSpace, object("v1", "Secret", name, name)))
	}
	return w
}

func TestChoose_OneNamespaceAndAll(t *testing.T) {
	shared := []string{"NodeDriver.management.cattle.io sim", "Secret drover-system/drover-ca",
		"Secret drover-system/drover-grants"}
	of := func(team string) []string {
		return []string{
			"Cluster.management.cattle.io c-m-" + team, "Cluster.provisioning.cattle.io " + team + "/demo",
			"ClusterRegistrationToken.management.cattle.io c-m-" + team + "/default",
			"ConfigMap " + team + "/copied", "Secret " + team + "/state",
		}
	}
	for name, c := range map[string]struct {
		namespaces []string
		want       []string
	}{
		"one namespace":  {[]string{"a"}, slices.Concat(of("a"), shared)},
		"all namespaces": {nil, slices.Concat(of("a"), of("b"), shared)},
	} {
		chosen, err := twoTeams().choose(c.namespaces)
		check(t, err)
		got := names(chosen)
		slices.Sort(got)
		slices.Sort(c.want)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestChoose_KeepsTokensOfNewMachinesOnly(t *testing.T) {
	account := in("ns", object("v1", "ServiceAccount", "m", "account"))
	token := func(name string) *unstructured.Unstructured {
		return labelled(set(in("ns", object("v1", "Secret", name, name, account)),
			string(corev1.SecretTypeServiceAccountToken), "type"))
	}
	first := token("first")
	first.SetAnnotations(map[string]string{rkev1.BootstrapTokenAnnotation: "true"})
	w := &world{core: []*unstructured.Unstructured{labelled(account), first, token("second")}}
	chosen, err := w.choose(nil)
	check(t, err)
	if diff := cmp.Diff([]string{"ServiceAccount ns/m", "Secret ns/first"}, names(chosen)); diff != "" {
		t.Error(diff)
	}
}

// A backup contains the credentials with which a machine was created and a snapshot was stored, even if the cluster
// names others now.
func TestChoose_CredentialsOfMachinesAndSnapshots(t *testing.T) {
	machine := set(in("ns", object(groupMachines+"/v1", "SimMachine", "m", "machine")), "old-cloud", "status",
		"cloudCredentialSecretName")
	another := set(in("ns", object(groupMachines+"/v1", "SimMachine", "n", "another")), "its-cloud", "spec", "common",
		"cloudCredentialSecretName")
	snapshot := set(in("ns", object("rke.cattle.io/v1", "ETCDSnapshot", "s", "snapshot")), "old-storage",
		"snapshotFile", "s3", "cloudCredentialName")
	w := &world{kinds: []*unstructured.Unstructured{machine, another, snapshot}}
	for _, name := range []string{"old-cloud", "its-cloud", "old-storage", "nobodys"} {
		w.core = append(w.core, in("ns", object("v1", "Secret", name, name)))
	}
	chosen, err := w.choose(nil)
	check(t, err)
	want := []string{"Secret ns/old-cloud", "Secret ns/its-cloud", "Secret ns/old-storage"}
	if diff := cmp.Diff(want, names(chosen)[3:]); diff != "" {
		t.Error(diff)
	}
}

func TestChoose_RecordsTheAgentsTokens(t *testing.T) {
	bootstrap := in("ns", object("rke.cattle.io/v1", "RKEBootstrap", "b", "boot-uid"))
	came := in("ns", object("rke.cattle.io/v1", "RKEBootstrap", "c", "c-uid"))
	came.SetAnnotations(map[string]string{rkev1.AgentCredentialAnnotation: "of the former management cluster"})
	w := &world{kinds: []*unstructured.Unstructured{bootstrap, came}}
	for _, name := range []string{"b-machine-plan", "c-machine-plan"} {
		token := set(in("ns", object("v1", "Secret", name+"-token", name+"-token")),
			string(corev1.SecretTypeServiceAccountToken), "type")
		token = set(token, "dG9rZW4=", "data", corev1.ServiceAccountTokenKey)
		token.SetAnnotations(map[string]string{corev1.ServiceAccountNameKey: name})
		w.core = append(w.core, token)
	}
	chosen, err := w.choose(nil)
	check(t, err)
	got := map[string]string{}
	for _, object := range chosen {
		got[object.GetName()] = object.GetAnnotations()[rkev1.AgentCredentialAnnotation]
	}
	want := map[string]string{"b": connect.AgentCredential("boot-uid", "token"),
		"c": "of the former management cluster"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOrphans_OwnersOfEarlierKinds(t *testing.T) {
	owner, late := object("v1", "Secret", "o", "o"), object("v1", "Secret", "late", "late")
	owned, strange := object("v1", "Secret", "x", "x", late), object("v1", "Secret", "y", "y")
	strange.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"}})
	if got := orphans([]*unstructured.Unstructured{owner, owned, strange}); len(got) != 1 {
		t.Errorf("the orphans are %v", got)
	}
	if got := orphans([]*unstructured.Unstructured{owner, owned, strange, late}); len(got) > 0 {
		t.Errorf("the orphans are %v", got)
	}
}
