package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const (
	// demoText is a cluster of existing hosts.
	demoText = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: demo
  namespace: team-a
spec:
  kubernetesVersion: v1.36.2+k3s1
  rkeConfig:
    machinePools: []
`
	// poolText is a cluster with a machine config.
	poolText = `apiVersion: rke-machine-config.cattle.io/v1
kind: PodConfig
metadata:
  name: demo-all
size: small
---
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: demo
spec:
  cloudCredentialSecretName: cc
  kubernetesVersion: v1.36.2+k3s1
  rkeConfig:
    machinePools:
    - name: all
      quantity: 1
      etcdRole: true
      controlPlaneRole: true
      workerRole: true
      machineConfigRef: {kind: PodConfig, name: demo-all}
`
	demoPath = "/ui/api/v1/namespaces/team-a/clusters/demo"
)

// withPods makes the API serve the driver pod.
func withPods(t *testing.T, f *fakeAPI) {
	t.Helper()
	spec := mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"size": {Type: "string", Required: true}}}
	for _, crd := range driverschema.CRDs("pod", spec) {
		check(t, f.Add(crd))
	}
	check(t, f.Add(&mgmtv3.DynamicSchema{TypeMeta: metav1.TypeMeta{APIVersion: "management.cattle.io/v3",
		Kind: "DynamicSchema"}, ObjectMeta: metav1.ObjectMeta{Name: "podconfig"}, Spec: spec},
		secretObject("team-a", "cc", nil)))
}

func (p *page) preview(text string) previewBody {
	p.t.Helper()
	p.relax()
	return decode[previewBody](p.t, p.do(p.request(http.MethodPost, demoPath+"/preview", text)))
}

// send writes a text, or deletes, with a header such as If-Match.
func (p *page) send(method, text, header, value string) *httptest.ResponseRecorder {
	p.t.Helper()
	p.relax()
	r := p.request(method, demoPath, text)
	if header != "" {
		r.Header.Set(header, value)
	}
	return p.do(r)
}

func (p *page) put(text, seen string) *httptest.ResponseRecorder {
	p.t.Helper()
	if seen == "" {
		return p.send(http.MethodPut, text, "If-None-Match", "*")
	}
	return p.send(http.MethodPut, text, "If-Match", `"`+seen+`"`)
}

// sent are the requests of the UI that write, as METHOD RESOURCE.
func (f *fakeAPI) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []string{}
	for _, r := range f.seen {
		isWrite := r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/selfsubject")
		if isWrite && r.URL.Query().Get("dryRun") == "" {
			parts := strings.Split(r.URL.Path, "/namespaces/team-a/")
			out = append(out, r.Method+" "+parts[len(parts)-1])
		}
	}
	return out
}

// clusters is a client of an administrator.
func (f *fakeAPI) clusters(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(f.Config("admin"))
	check(t, err)
	return client.Resource(provv1.SchemeGroupVersion.WithResource("clusters")).Namespace("team-a")
}

// changeDemo changes the stored Cluster as another user or program.
func (f *fakeAPI) changeDemo(t *testing.T, edit func(c *unstructured.Unstructured), subresources ...string) {
	t.Helper()
	found, err := f.clusters(t).Get(t.Context(), "demo", metav1.GetOptions{})
	check(t, err)
	edit(found)
	if len(subresources) > 0 {
		_, err = f.clusters(t).UpdateStatus(t.Context(), found, metav1.UpdateOptions{})
	} else {
		_, err = f.clusters(t).Update(t.Context(), found, metav1.UpdateOptions{})
	}
	check(t, err)
}

// problemLines are problems as LINE FIELD: MESSAGE.
func problemLines(problems []edit.Problem) []string {
	out := []string{}
	for _, one := range problems {
		out = append(out, fmt.Sprintf("%d %s: %s", one.Line, one.Field, one.Message))
	}
	return out
}

func TestChanges_CreateAndEdit(t *testing.T) {
	f := newFakeAPI(t)
	p := signedIn(t, f)
	seen := p.preview(demoText)
	if seen.Seen != "" || len(seen.Problems) > 0 || seen.Report == nil || !seen.Report.New {
		t.Fatalf("preview of a new cluster: %+v", seen)
	}
	wants(t, p.send(http.MethodPut, demoText, "", ""), http.StatusPreconditionRequired, reasonInvalid)
	wants(t, p.put(demoText, "other"), http.StatusPreconditionFailed, reasonChanged)
	if got := f.sent(); len(got) > 0 {
		t.Errorf("the UI writes %v", got)
	}
	got := decode[writtenBody](t, p.put(demoText, ""))
	if diff := cmp.Diff([]string{"Cluster team-a/demo"}, got.Written); diff != "" {
		t.Error(diff)
	}
	wants(t, p.put(demoText, ""), http.StatusConflict, reasonExists)

	f.changeDemo(t, func(c *unstructured.Unstructured) {
		c.SetAnnotations(map[string]string{rkev1.InstanceAnnotation: "ours", copyOfObject: "{}"})
		c.SetFinalizers([]string{"drover.io/cluster"})
	})
	text := strings.Replace(demoText, "v1.36.2", "v1.36.3", 1)
	seen = p.preview(text)
	manifest := p.get(demoPath + "/manifest")
	if seen.Seen == "" || len(seen.Problems) > 0 || manifest.Header().Get("ETag") != `"`+seen.Seen+`"` {
		t.Fatalf("preview: %+v, manifest %v", seen, manifest.Header())
	}
	f.changeDemo(t, func(c *unstructured.Unstructured) {
		c.Object["status"] = map[string]any{"clusterName": "team-b"}
	}, "status")
	decode[writtenBody](t, p.put(text, seen.Seen)) // a status is no obstacle
	stored, err := f.clusters(t).Get(t.Context(), "demo", metav1.GetOptions{})
	check(t, err)
	want := []string{"v1.36.3+k3s1", "team-b", "ours", "{}", "drover.io/cluster"}
	typed, err := edit.Typed(stored)
	check(t, err)
	if diff := cmp.Diff(want, append([]string{typed.Spec.KubernetesVersion, typed.Status.ClusterName,
		typed.Annotations[rkev1.InstanceAnnotation], typed.Annotations[copyOfObject]},
		typed.Finalizers...)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	wants(t, p.put(text, seen.Seen), http.StatusPreconditionFailed, reasonChanged)
	if diff := cmp.Diff([]string{"POST clusters", "PUT clusters/demo"}, f.sent()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	same := decode[writtenBody](t, p.put(text, p.preview(text).Seen))
	if len(same.Written) != 0 || same.Written == nil || len(f.sent()) != 2 {
		t.Errorf("the same text writes %v", same.Written)
	}
}

// A browser repeats a request whose connection ends without an answer.
func TestChanges_ARepeatedRequestWritesNothing(t *testing.T) {
	f := newFakeAPI(t)
	p := signedIn(t, f)
	put := func(attempt string) *httptest.ResponseRecorder {
		r := p.request(http.MethodPut, demoPath, demoText)
		r.Header.Set("If-None-Match", "*")
		r.Header.Set(attemptHeader, attempt)
		return p.do(r)
	}
	decode[writtenBody](t, put("one"))
	for range heavyBurst { // a page that is told to wait sends another attempt
		wants(t, put("one"), http.StatusBadGateway, reasonUnknown)
	}
	p.relax()
	wants(t, put("two"), http.StatusConflict, reasonExists)
	wants(t, put(strings.Repeat("x", longestAttempt+1)), http.StatusBadRequest, reasonInvalid)
	if got := f.sent(); len(got) > 1 {
		t.Errorf("the UI writes %v", got)
	}
}

func TestChanges_ProblemsHaveLines(t *testing.T) {
	f := newFakeAPI(t, cluster("team-a", "demo"))
	withPods(t, f)
	f.Intercept(func(r memkube.Request) error {
		if r.Resource.Resource == "clusters" && strings.Contains(string(r.Body), "refused") {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Cluster"}, "demo", field.ErrorList{
				field.Invalid(field.NewPath("spec", "agentEnvVars").Index(0).Child("name"), "x", "is not for you")})
		}
		return nil
	})
	p := signedIn(t, f)
	with := func(old, changed string) string { return strings.Replace(poolText, old, changed, 1) }
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"no manifest": {"x", []string{"1 : the document is no object"}},
		"broken YAML": {with("  rkeConfig:", " rkeConfig:"),
			[]string{"14 : the YAML is not valid: did not find expected key"}},
		"another name": {with("name: demo\n", "name: other\n"), []string{"10 metadata.name: must be demo"}},
		"a wrong field": {with("quantity", "size"),
			[]string{"17 spec.rkeConfig.machinePools[0].size: a Cluster has no such field"}},
		"too many machines": {with("quantity: 1", "quantity: 2147483647"), []string{"15 spec.rkeConfig.machinePools: " +
			"the manifest requests 2147483647 machines; the UI accepts at most 10000, and the " +
			"commands have no limit"}},
		// With a schema, the API server names the field: see tests/contract/ui.
		"a value of a wrong type": {with("quantity: 1", "quantity: many"),
			[]string{"15 spec.rkeConfig.machinePools.quantity: must be int32, not string"}},
		"a refusal of admission": {with("  rkeConfig:", "  agentEnvVars: [{name: refused, value: x}]\n  rkeConfig:"),
			[]string{`14 spec.agentEnvVars[0].name: Invalid value: "x": is not for you`}},
		"a machine config": {with("size: small", "size: [small]"), []string{"5 size: PodConfig demo-all: Invalid " +
			`value: "array": size in body must be of type string: "array"`}},
		"no etcd": {with("      etcdRole: true\n", ""), []string{"15 spec.rkeConfig.machinePools: Required value: no " +
			"pool has machines with etcd, which store the cluster's data: set etcdRole to true for a pool with a " +
			"quantity of at least 1; 3 machines survive the loss of one"}},
	} {
		t.Run(name, func(t *testing.T) {
			p.t = t
			got := p.preview(tc.text)
			if diff := cmp.Diff(tc.want, problemLines(got.Problems)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	p.t = t
	p.relax()
	wants(t, p.do(p.request(http.MethodPost, demoPath+"/preview", strings.Repeat("#", maxManifest+1))),
		http.StatusRequestEntityTooLarge, reasonInvalid)
	refused := p.put(with("size: small", "size: [small]"), p.preview(poolText).Seen)
	wants(t, refused, http.StatusUnprocessableEntity, reasonInvalid)
	if !strings.Contains(refused.Body.String(), `"problems":[{"line":5,"column":1,"field":"size"`) {
		t.Errorf("got %s", refused.Body)
	}
	if got := f.sent(); len(got) > 0 {
		t.Errorf("the UI writes %v", got)
	}
}

func TestChanges_MachineConfigsComeFirst(t *testing.T) {
	f := newFakeAPI(t)
	withPods(t, f)
	p := signedIn(t, f)
	seen := p.preview(poolText)
	if len(seen.Problems) > 0 || seen.Report == nil || len(seen.Report.Machines) != 1 {
		t.Fatalf("preview: %+v", seen)
	}
	got := decode[writtenBody](t, p.put(poolText, ""))
	if diff := cmp.Diff([]string{"PodConfig team-a/demo-all", "Cluster team-a/demo"}, got.Written); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	manifest := p.get(demoPath + "/manifest").Body.String()
	if !strings.HasPrefix(manifest, "apiVersion: provisioning.cattle.io/v1\n") || !strings.Contains(manifest,
		"---\napiVersion: rke-machine-config.cattle.io/v1\nkind: PodConfig\nmetadata:\n  name: demo-all\n  namespace: "+
			"team-a\nsize: small\n") {
		t.Errorf("manifest:\n%s", manifest)
	}
	if same := p.preview(manifest); len(same.Problems) > 0 || len(same.Notes) > 0 {
		t.Errorf("the manifest itself has problems: %+v", same)
	}
	large := strings.Replace(manifest, "size: small", "size: large", 1)
	seen = p.preview(large)
	got = decode[writtenBody](t, p.put(large, seen.Seen))
	if diff := cmp.Diff([]string{"PodConfig team-a/demo-all"}, got.Written); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The machine config is not the one that was seen.
	wants(t, p.put(manifest, seen.Seen), http.StatusPreconditionFailed, reasonChanged)
}

// The UI never repeats a write whose answer is lost, or a text that is written in part.
func TestChanges_UnknownResults(t *testing.T) {
	f := newFakeAPI(t)
	withPods(t, f)
	p := signedIn(t, f)
	f.CutAfter("user:ann", 2, nil) // two dry-runs
	got := p.put(poolText, "")
	wants(t, got, http.StatusBadGateway, reasonUnknown)
	if want := "it may have taken effect"; !strings.Contains(got.Body.String(), want) || len(f.sent()) != 1 {
		t.Errorf("got %s after %v", got.Body, f.sent())
	}
	f.Mend("user:ann")
	f.CutAfter("user:ann", 3, nil)
	got = p.put(poolText, "")
	wants(t, got, http.StatusBadGateway, reasonUnknown)
	if want := "only a part is written: PodConfig team-a/demo-all"; !strings.Contains(got.Body.String(), want) ||
		len(f.sent()) != 3 {
		t.Errorf("got %s after %v", got.Body, f.sent())
	}
	f.Mend("user:ann")
	got = p.put(poolText, p.preview(poolText).Seen)
	if diff := cmp.Diff([]string{"Cluster team-a/demo"}, decode[writtenBody](t, got).Written); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChanges_NeedTheRightsOfTheCaller(t *testing.T) {
	f := newFakeAPI(t, cluster("team-a", "demo"))
	f.Intercept(func(r memkube.Request) error {
		if r.Agent == "user:bob" && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, errors.New("bob may only read"))
		}
		return nil
	})
	p := signedIn(t, f)
	p.signIn("token-of-bob")
	text := strings.Replace(demoText, "v1.36.2", "v1.36.3", 1)
	seen := p.preview(text)
	want := []string{`1 : clusters.provisioning.cattle.io "demo" is forbidden: bob may only read`}
	if diff := cmp.Diff(want, problemLines(seen.Problems)); diff != "" || seen.Report == nil || seen.Seen == "" {
		t.Errorf("%+v (-want +got):\n%s", seen, diff)
	}
	wants(t, p.put(text, seen.Seen), http.StatusForbidden, reasonForbidden)
	removal := decode[removalBody](t, p.get(demoPath+"/removal"))
	wants(t, p.send(http.MethodDelete, "", "If-Match", removal.Seen), http.StatusForbidden, reasonForbidden)
	p.csrf = ""
	wants(t, p.put(text, seen.Seen), http.StatusForbidden, reasonForbidden)
	if got := f.sent(); !slices.Equal(got, []string{"DELETE clusters/demo"}) {
		t.Errorf("the UI writes %v", got)
	}
}

// An imported cluster has no machines to preview, and can be edited. A provisioned one stays provisioned.
func TestChanges_OfImportedClusters(t *testing.T) {
	f := newFakeAPI(t)
	p := signedIn(t, f)
	imported := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: demo}\nspec: {}\n"
	seen := p.preview(imported)
	if seen.Report != nil || len(seen.Problems) > 0 || len(seen.Notes) != 1 {
		t.Errorf("preview: %+v", seen)
	}
	decode[writtenBody](t, p.put(imported, ""))
	f = newFakeAPI(t, cluster("team-a", "demo"))
	p = signedIn(t, f)
	want := []string{"4 spec.rkeConfig: must stay, because Drover has provisioned the cluster"}
	if diff := cmp.Diff(want, problemLines(p.preview(imported).Problems)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A user who may not write machine configs can change the Cluster, as long as its machine configs stay the same.
func TestChanges_NeedNoRightsOnWhatStays(t *testing.T) {
	f := newFakeAPI(t)
	withPods(t, f)
	p := signedIn(t, f)
	decode[writtenBody](t, p.put(poolText, ""))
	isForbidden := func(verb string) bool { return verb != "get" && verb != "list" && verb != "watch" }
	f.Intercept(func(r memkube.Request) error {
		if r.Resource.Resource == "podconfigs" && isForbidden(r.Verb) {
			return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, errors.New("ann may only read"))
		}
		return nil
	})
	text := strings.Replace(poolText, "quantity: 1", "quantity: 3", 1)
	seen := p.preview(text)
	if len(seen.Problems) > 0 {
		t.Errorf("preview: %+v", seen)
	}
	got := decode[writtenBody](t, p.put(text, seen.Seen))
	if diff := cmp.Diff([]string{"Cluster team-a/demo"}, got.Written); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	seen = p.preview(strings.Replace(text, "small", "large", 1))
	want := []string{`1 : PodConfig demo-all: podconfigs.rke-machine-config.cattle.io "demo-all" is forbidden: ` +
		"ann may only read"}
	if diff := cmp.Diff(want, problemLines(seen.Problems)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	isForbidden = func(string) bool { return true }
	want = []string{"1 : the effect on machines is unknown, because you may not read all of the cluster: read " +
		`PodConfig team-a/demo-all: podconfigs.rke-machine-config.cattle.io "demo-all" is forbidden: ann may only read`}
	other := p.preview(strings.Replace(demoText, "v1.36.2", "v1.36.3", 1))
	if diff := cmp.Diff(want, problemLines(other.Problems)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	tag := p.get(demoPath + "/manifest").Header().Get("ETag")
	refused := p.send(http.MethodPut, text, "If-Match", tag)
	wants(t, refused, http.StatusUnprocessableEntity, reasonInvalid)
	if !strings.Contains(refused.Body.String(), "PodConfig demo-all: you may not read the object") {
		t.Errorf("got %s", refused.Body)
	}
}
