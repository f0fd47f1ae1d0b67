package ui

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/releases"
)

// creating is a page of ann whose UI knows the release data.
func creating(t *testing.T) *page {
	t.Helper()
	f := newFakeAPI(t)
	withPods(t, f)
	opts := options(f.serve(t))
	table, err := releases.Embedded()
	check(t, err)
	opts.Releases = table
	p := newPage(t, opts)
	p.signIn(token)
	return p
}

func TestManifests_AreMadeFromForms(t *testing.T) {
	p := creating(t)
	const (
		demo = `{"namespace":"team-a","name":"demo","version":"v1.36.2+k3s1",`
		pool = `{"name":"all","size":1,"roles":["etcd","controlplane","worker"],"config":{"size":["small"]}}`
	)
	for name, tc := range map[string]struct {
		body string
		want []string
		part string
	}{
		"pools": {demo + `"driver":"pod","credential":"cc","pools":[` + pool + `]}`, nil,
			"kind: PodConfig\nmetadata:\n  name: demo-all\n  namespace: team-a\nsize: small\n---\n"},
		"hosts": {`{"namespace":"team-a","name":"demo","version":"v1.36.2+rke2r1","cni":"cilium","pools":[]}`, nil,
			"cni: cilium"},
		"a form that is nearly empty": {`{"namespace":"","name":"","version":"","driver":"","pools":[]}`, []string{
			"namespace: must be the name of a namespace",
			`version: "" must be v and a semantic version, for example v1.36.2+rke2r1 or v1.36.2+k3s1; the release ` +
				`data have rke2 1.33, 1.34, 1.35, 1.36`,
			`name: Invalid value: "": must consist of lower case letters, digits and dashes, and start and end ` +
				`with a letter or digit`}, "kind: Cluster\n"},
		"all mistakes of pools": {`{"namespace":"team-a","name":"demo","version":"v1.99.2+k3s1","cni":"calico",` +
			`"driver":"pod","pools":[` + pool +
			`,{"name":"all","size":-1,"roles":["master"],"config":{"color":["red"]}}]}`,
			[]string{
				`version: "v1.99.2+k3s1" is unknown: the release data have k3s 1.33, 1.34, 1.35, 1.36`,
				"cni: only RKE2 has this choice, and v1.99.2+k3s1 is a version of K3s",
				"pools[1].name: two pools have the name all",
				`pools[1].roles: role "master" is unknown; use some of etcd, controlplane and worker`,
				"pools[1].config.color: the driver has no field color; its fields are size",
				"pools[1].size: Invalid value: -1: must not be negative",
			}, "quantity: -1"},
		"an unknown driver": {demo + `"driver":"sim","pools":[` + pool + `]}`,
			[]string{"driver: there is no driver sim, or it is not installed yet"}, "SimConfig"},
		"pools without a driver": {demo + `"pools":[` + pool + `]}`,
			[]string{"driver: machine pools need a driver"}, "name: demo"},
		"a wrong driver": {demo + `"driver":"../x","pools":[]}`,
			[]string{`driver: driver name "../x": want letters and digits only, a letter first, because kinds are ` +
				`named after it`}, "name: demo"},
	} {
		t.Run(name, func(t *testing.T) {
			p.relax()
			got := decode[manifestBody](t, p.do(p.request(http.MethodPost, "/ui/api/v1/manifests", tc.body)))
			var lines []string
			for _, one := range got.Problems {
				lines = append(lines, one.Field+": "+one.Message)
			}
			slices.Sort(lines)
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, lines); diff != "" || !strings.Contains(got.Manifest, tc.part) {
				t.Errorf("%s\n(-want +got):\n%s", got.Manifest, diff)
			}
			if _, problems := edit.ParseText([]byte(got.Manifest)); len(problems) > 0 && len(tc.want) == 0 {
				t.Errorf("the manifest cannot be previewed: %v\n%s", problems, got.Manifest)
			}
		})
	}
	p.relax()
	wants(t, p.do(p.request(http.MethodPost, "/ui/api/v1/manifests", "{")), http.StatusBadRequest, reasonInvalid)
}

func TestReleases_AndSchema(t *testing.T) {
	p := creating(t)
	got := decode[releasesBody](t, p.get("/ui/api/v1/releases"))
	want := releasesBody{[]string{"1.33", "1.34", "1.35", "1.36"}, []string{"1.33", "1.34", "1.35", "1.36"},
		edit.Networks()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	recorder := p.get("/ui/api/v1/schemas/cluster")
	schema := decode[apiextv1.JSONSchemaProps](t, recorder)
	if schema.Properties["spec"].Properties["kubernetesVersion"].Type != "string" {
		t.Errorf("the schema has no version: %s", recorder.Body)
	}
	r := p.request(http.MethodGet, "/ui/api/v1/schemas/cluster", "")
	r.Header.Set("If-None-Match", recorder.Header().Get("ETag"))
	if again := p.do(r); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("got %d %s", again.Code, again.Body)
	}
	if !json.Valid(recorder.Body.Bytes()) {
		t.Error("the schema is no JSON")
	}
}
