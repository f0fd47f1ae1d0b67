package backup

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ofTwoTeams is a backup of the objects of twoTeams. It adds their namespaces, a credential for each team, and a Secret
// that no cluster names.
func ofTwoTeams(t *testing.T) *Backup {
	t.Helper()
	w := twoTeams()
	for _, team := range []string{"a", "b"} {
		cluster := w.kinds[slices.IndexFunc(w.kinds, func(o *unstructured.Unstructured) bool {
			return string(o.GetUID()) == team+"-cluster"
		})]
		machine := in(team, object("rke-machine.cattle.io/v1", "SimMachine", "m", team+"-machine", cluster))
		w.kinds = append(w.kinds, set(machine, "cattle-global-data:"+team, "status", "cloudCredentialSecretName"))
		w.core = append(w.core, in("cattle-global-data", object("v1", "Secret", team, team+"-cloud")),
			in(team, object("v1", "ServiceAccount", "m", team+"-account", machine)))
	}
	objects, err := w.choose(nil)
	check(t, err)
	objects = append(objects, in(systemSpace, object("v1", "Secret", "registry", "servers-own")),
		in("", object("apiextensions.k8s.io/v1", kindCRD, "clusters", "definition")))
	for _, name := range []string{"a", "b", "c-m-a", "c-m-b", "cattle-global-data", systemSpace} {
		objects = append(objects, in("", object("v1", "Namespace", name, "namespace-"+name)))
	}
	objects, err = order(objects)
	check(t, err)
	return &Backup{Manifest: Manifest{ID: "backup"}, Objects: objects}
}

func TestBackup_PartHasWhatItsClustersNeed(t *testing.T) {
	whole := ofTwoTeams(t)
	part, err := whole.Of("a")
	check(t, err)
	want := []string{
		"CustomResourceDefinition.apiextensions.k8s.io clusters",
		"Namespace a", "Namespace c-m-a", "Namespace cattle-global-data", "Namespace drover-system",
		"Cluster.management.cattle.io c-m-a", "Cluster.provisioning.cattle.io a/demo",
		"ClusterRegistrationToken.management.cattle.io c-m-a/default",
		"ConfigMap a/copied",
		"NodeDriver.management.cattle.io sim", "Secret a/state", "Secret cattle-global-data/a",
		"Secret drover-system/drover-ca", "Secret drover-system/drover-grants", "Secret drover-system/registry",
		"ServiceAccount a/m", "SimMachine.rke-machine.cattle.io a/m",
	}
	got := names(part.Objects)
	if slices.Sort(got); !cmp.Equal(slices.Sorted(slices.Values(want)), got) {
		t.Errorf("-want +got:\n%s", cmp.Diff(slices.Sorted(slices.Values(want)), got))
	}
	if part.Manifest.ID != "backup" || part.Manifest.Counts["Secret"] != 5 ||
		!slices.Equal(part.Manifest.Namespaces, []string{"a"}) {
		t.Errorf("manifest: %+v", part.Manifest)
	}
	for _, namespaces := range [][]string{nil, {"b", "a"}} {
		all, err := whole.Of(namespaces...)
		check(t, err)
		if diff := cmp.Diff(names(whole.Objects), names(all.Objects)); diff != "" {
			t.Errorf("of %v (-want +got):\n%s", namespaces, diff)
		}
	}
}

func TestBackup_PartWithoutClustersIsAnError(t *testing.T) {
	if _, err := ofTwoTeams(t).Of("a", "team-c"); err == nil ||
		!strings.Contains(err.Error(), `no cluster in namespace "team-c"; it has clusters in a, b`) {
		t.Errorf("error %v", err)
	}
}
