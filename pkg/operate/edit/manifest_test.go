package edit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

// simSchema is a driver with a field of each type.
var simSchema = &mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{
	"size": {Type: "string"}, "private": {Type: "boolean"}, "groups": {Type: "array[string]"},
}}

// manifest is the manifest of a cluster, or the error.
func manifest(t *testing.T, n edit.NewCluster, schema *mgmtv3.DynamicSchemaSpec, pools ...string) string {
	t.Helper()
	n.Namespace = "fleet-default"
	for _, text := range pools {
		pool, err := edit.ParsePool(text)
		if err != nil {
			return "error: " + err.Error()
		}
		n.Pools = append(n.Pools, pool)
	}
	objects, wrong := n.Objects(edit.Schema(n.Driver, schema), facts(t))
	if len(wrong) > 0 {
		return "error: " + problems(edit.ProblemsOf(wrong))
	}
	data, err := edit.Manifest(objects)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// problems are lines of problems: their positions, fields and messages.
func problems(found []edit.Problem) string {
	var lines []string
	for _, one := range found {
		line := strings.TrimPrefix(one.Field+": "+one.Message, ": ")
		if one.Line > 0 {
			line = fmt.Sprintf("%d:%d %s", one.Line, one.Column, line)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestNewCluster_Manifest(t *testing.T) {
	rke2 := edit.NewCluster{Name: "shop", Version: "v1.36.3+rke2r1", Driver: "sim", Credential: "cc",
		CNI: "multus,calico"}
	for name, got := range map[string]string{
		"pools": manifest(t, rke2, simSchema, "servers=3,roles=etcd+controlplane,size=large,private=true,groups=a",
			"workers=4,roles=worker,size=small,groups=a,groups=b"),
		"without a schema": manifest(t, rke2, nil, "all=1,roles=all,size=5,private=true,groups=a,groups=b"),
		"hosts":            manifest(t, edit.NewCluster{Name: "edge", Version: "v1.36.3+k3s1"}, nil),
	} {
		golden.Check(t, "testdata/manifest/"+name+".yaml", got)
	}
}

func TestNewCluster_Refuses(t *testing.T) {
	sim := edit.NewCluster{Name: "shop", Version: "v1.36.3+k3s1", Driver: "sim"}
	with := func(change func(*edit.NewCluster)) edit.NewCluster {
		n := sim
		change(&n)
		return n
	}
	const all = "all=1,roles=all,size=s"
	for name, tc := range map[string]struct {
		cluster edit.NewCluster
		pools   []string
		want    string
	}{
		"a pool without roles": {sim, []string{"all=1"}, "pool all has no roles: add roles=all, or " +
			"roles=etcd+controlplane, or roles=worker"},
		"an unknown role": {sim, []string{"all=1,roles=master"},
			`pool all: role "master" is unknown; use all, or some ` +
				`of etcd, controlplane and worker, joined by +`},
		"no size": {sim, []string{"all,roles=all"},
			`"all" must be the name of a pool and its number of machines, for ` +
				`example workers=3`},
		"no value": {sim, []string{"all=1,roles=all,size"}, `pool all: "size" must be a field of the machine config ` +
			`and its value, for example size=large`},
		"an unknown field": {sim, []string{all + ",color=red"},
			"pools[0].config.color: the driver has no field color; its fields " +
				"are groups, private, size"},
		"a field twice": {sim, []string{all + ",size=t"},
			"pools[0].config.size: field size has two values, and takes one"},
		"no boolean": {sim, []string{all + ",private=perhaps"},
			`pools[0].config.private: field private must be true or false, not ` +
				`"perhaps"`},
		"a pool twice": {sim, []string{all, all}, "pools[1].name: two pools have the name all"},
		"no etcd": {sim, []string{"all=1,roles=controlplane,size=s"},
			"pools: Required value: no " +
				"pool has machines with etcd, which store the cluster's data: " +
				"set etcdRole to true for a pool with a quantity of at least 1; 3 machines survive the loss of one"},
		"a wrong name": {with(func(n *edit.NewCluster) { n.Name = "Shop" }), []string{all},
			`name: Invalid value: "Shop": must consist of lower case letters, ` +
				"digits and dashes, and start and end with a letter or digit"},
		"a network of RKE2": {with(func(n *edit.NewCluster) { n.CNI = "calico" }), []string{all},
			"cni: only RKE2 has this choice, and v1.36.3+k3s1 is a version of K3s"},
		"an unknown network": {with(func(n *edit.NewCluster) { n.CNI, n.Version = "weave", "v1.36.3+rke2r1" }),
			[]string{all}, `cni: "weave" is unknown; use one of calico, canal, cilium, flannel, none`},
		"an unknown version": {with(func(n *edit.NewCluster) { n.Version = "v1.99.3+k3s1" }), []string{all},
			`version: "v1.99.3+k3s1" is unknown: the release data have k3s 1.33, 1.34, 1.35, 1.36; --release-data ` +
				`names ` +
				`newer data`},
		"a wrong driver": {with(func(n *edit.NewCluster) { n.Driver = "my-sim" }), []string{all},
			`driver: driver name "my-sim": want letters and digits only, a letter first, because kinds are named ` +
				`after it`},
	} {
		if diff := cmp.Diff("error: "+tc.want, manifest(t, tc.cluster, simSchema, tc.pools...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
