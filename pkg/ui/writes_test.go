package ui

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// beforeWrite runs then once, before the first write of Clusters that is no dry-run.
func (f *fakeAPI) beforeWrite(then func()) {
	var once sync.Once
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = func(r *http.Request) {
		isWrite := r.Method == http.MethodPost || r.Method == http.MethodPut
		if isWrite && strings.Contains(r.URL.Path, "/clusters") && r.URL.Query().Get("dryRun") == "" {
			once.Do(then)
		}
	}
}

// configs is a client of an administrator.
func (f *fakeAPI) configs(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(f.Config("admin"))
	check(t, err)
	return client.Resource(schema.GroupVersionResource{Group: "rke-machine-config.cattle.io", Version: "v1",
		Resource: "podconfigs"}).Namespace("team-a")
}

func podConfig(size string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rke-machine-config.cattle.io/v1",
		"kind": "PodConfig", "metadata": map[string]any{"name": "demo-all"}, "size": size}}
}

// setSize changes the machine config as another user.
func (f *fakeAPI) setSize(t *testing.T, size string) {
	t.Helper()
	found, err := f.configs(t).Get(t.Context(), "demo-all", metav1.GetOptions{})
	check(t, err)
	found.Object["size"] = size
	_, err = f.configs(t).Update(t.Context(), found, metav1.UpdateOptions{})
	check(t, err)
}

// logged is a page of ann, and the log of the UI.
func logged(t *testing.T, f *fakeAPI) (*page, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	opts := options(f.serve(t))
	log := logrus.New()
	log.SetOutput(out)
	opts.Log = log
	p := newPage(t, opts)
	p.signIn(token)
	return p, out
}

// A machine config of another cluster stays as it is.
func TestWrites_SpareOtherMachineConfigs(t *testing.T) {
	for name, objects := range map[string][]runtime.Object{
		"a new cluster": nil, "a cluster without the pool": {cluster("team-a", "demo")},
	} {
		f := newFakeAPI(t, objects...)
		withPods(t, f)
		_, err := f.configs(t).Create(t.Context(), podConfig("large"), metav1.CreateOptions{})
		check(t, err)
		p := signedIn(t, f)
		want := []string{"4 metadata.name: PodConfig demo-all: exists already and belongs to another cluster; choose " +
			"another name"}
		seen := p.preview(poolText)
		if diff := cmp.Diff(want, problemLines(seen.Problems)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		wants(t, p.put(poolText, seen.Seen), http.StatusUnprocessableEntity, reasonInvalid)
		same := strings.Replace(poolText, "small", "large", 1)
		got := decode[writtenBody](t, p.put(same, p.preview(same).Seen))
		if diff := cmp.Diff([]string{"Cluster team-a/demo"}, got.Written); diff != "" {
			t.Errorf("%s, with the same machine config (-want +got):\n%s", name, diff)
		}
	}
}

// A preview shows the machine configs of the pools in the text. A change of one requires another preview.
func TestWrites_NeedTheMachineConfigsThatWereSeen(t *testing.T) {
	f := newFakeAPI(t, cluster("team-a", "demo"))
	withPods(t, f)
	_, err := f.configs(t).Create(t.Context(), podConfig("small"), metav1.CreateOptions{})
	check(t, err)
	p := signedIn(t, f)
	_, text, _ := strings.Cut(poolText, "---\n")
	seen := p.preview(text)
	if len(seen.Problems) > 0 {
		t.Fatalf("preview: %+v", seen)
	}
	f.setSize(t, "large")
	wants(t, p.put(text, seen.Seen), http.StatusPreconditionFailed, reasonChanged)
	decode[writtenBody](t, p.put(text, p.preview(text).Seen))
}

// What programs write between the check and the write of a text stays.
func TestWrites_KeepWhatProgramsWriteMeanwhile(t *testing.T) {
	f := newFakeAPI(t, cluster("team-a", "demo"))
	p := signedIn(t, f)
	text := strings.Replace(demoText, "v1.36.2", "v1.36.3", 1)
	seen := p.preview(text)
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "u"}}
	f.beforeWrite(func() {
		f.changeDemo(t, func(c *unstructured.Unstructured) {
			c.SetFinalizers([]string{"drover.io/cluster"})
			c.SetOwnerReferences(owner)
			c.SetAnnotations(map[string]string{rkev1.InstanceAnnotation: "ours"})
		})
	})
	decode[writtenBody](t, p.put(text, seen.Seen))
	stored, err := f.clusters(t).Get(t.Context(), "demo", metav1.GetOptions{})
	check(t, err)
	version, _, _ := unstructured.NestedString(stored.Object, "spec", "kubernetesVersion")
	got := append(stored.GetFinalizers(), version, stored.GetAnnotations()[rkev1.InstanceAnnotation])
	if diff := cmp.Diff([]string{"drover.io/cluster", "v1.36.3+k3s1", "ours"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(owner, stored.GetOwnerReferences()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A write that a status has refused had no effect, so it is sent for the newer version.
func TestWrites_PassAStatus(t *testing.T) {
	f := newFakeAPI(t, cluster("team-a", "demo"))
	p := signedIn(t, f)
	text := strings.Replace(demoText, "v1.36.2", "v1.36.3", 1)
	seen := p.preview(text)
	updates := 0
	f.Intercept(func(r memkube.Request) error {
		if updates++; r.Verb == "update" && updates == 2 { // behind the dry-run
			return apierrors.NewConflict(schema.GroupResource{Resource: "clusters"}, "demo", nil)
		}
		if r.Verb != "update" {
			updates--
		}
		return nil
	})
	if got := decode[writtenBody](t, p.put(text, seen.Seen)); len(got.Written) != 1 || updates != 3 {
		t.Errorf("got %v after %d updates", got, updates)
	}
}

// Between the check and the write, the Cluster can become another one, and the API server can refuse it.
func TestWrites_CanFailBehindTheCheck(t *testing.T) {
	f := newFakeAPI(t)
	p, log := logged(t, f)
	f.beforeWrite(func() { check(t, f.Add(cluster("team-a", "demo"))) })
	wants(t, p.put(demoText, ""), http.StatusConflict, reasonExists)

	text := strings.Replace(demoText, "v1.36.2", "v1.36.3", 1)
	seen := p.preview(text)
	f.beforeWrite(func() {
		f.Intercept(func(r memkube.Request) error {
			if r.Verb != "update" {
				return nil
			}
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Cluster"}, "demo", field.ErrorList{
				field.Invalid(field.NewPath("spec", "kubernetesVersion"), "x", "is not for you")})
		})
	})
	got := p.put(text, seen.Seen)
	wants(t, got, http.StatusUnprocessableEntity, reasonInvalid)
	if !strings.Contains(got.Body.String(), `"problems":[{"line":7,"column":3,"field":"spec.kubernetesVersion"`) {
		t.Errorf("got %s", got.Body)
	}
	f.Intercept(nil)
	f.beforeWrite(func() { check(t, f.clusters(t).Delete(t.Context(), "demo", metav1.DeleteOptions{})) })
	wants(t, p.put(text, p.preview(text).Seen), http.StatusPreconditionFailed, reasonChanged)
	if strings.Contains(log.String(), "has written") {
		t.Errorf("the log says that something was written: %s", log)
	}
}

// The answer and the log name the part of a text that is written, whatever prevents the rest.
func TestWrites_TellWhatIsWritten(t *testing.T) {
	const begin = "only a part is written: PodConfig team-a/demo-all; "
	for name, tc := range map[string]struct {
		prevent func(t *testing.T, f *fakeAPI)
		want    string
	}{
		"a Cluster of another user": {func(t *testing.T, f *fakeAPI) {
			t.Helper()
			check(t, f.Add(cluster("team-a", "demo")))
		}, "the cluster already exists"},
		"a refusal": {func(_ *testing.T, f *fakeAPI) {
			f.Intercept(func(memkube.Request) error {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Cluster"}, "demo", field.ErrorList{
					field.Invalid(field.NewPath("spec", "kubernetesVersion"), "x", "is not for you")})
			})
		}, `the API server refuses the rest: spec.kubernetesVersion: Invalid value: \"x\": is not for you`},
		"an expired token": {func(_ *testing.T, f *fakeAPI) { f.revoke(token) },
			"the management cluster no longer accepts the credential; sign in again"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			withPods(t, f)
			p, log := logged(t, f)
			f.beforeWrite(func() { tc.prevent(t, f) })
			got := p.put(poolText, "")
			wants(t, got, http.StatusBadGateway, reasonUnknown)
			if !strings.Contains(got.Body.String(), `"error":"`+begin+tc.want+`"`) {
				t.Errorf("got %s, want %s", got.Body, tc.want)
			}
			if !strings.Contains(log.String(), "[PodConfig team-a/demo-all]") {
				t.Errorf("the log is %s", log)
			}
			if name == "an expired token" {
				wants(t, p.get("/ui/api/v1/session"), http.StatusUnauthorized, reasonUnauthorized)
			}
		})
	}
}

func TestWrites_LogOnlyWhatIsWritten(t *testing.T) {
	f := newFakeAPI(t, cluster("team-a", "demo"))
	withPods(t, f)
	p, log := logged(t, f)
	seen := p.preview(poolText)
	f.beforeWrite(func() {
		f.changeDemo(t, func(c *unstructured.Unstructured) { c.SetLabels(map[string]string{"a": "b"}) })
	})
	got := p.put(poolText, seen.Seen)
	want := "only a part is written: PodConfig team-a/demo-all; the rest has changed since the preview"
	if !strings.Contains(got.Body.String(), `"error":"`+want+`"`) || !strings.Contains(log.String(), "has written") {
		t.Errorf("got %s, log %s", got.Body, log)
	}
	log.Reset()
	manifest := p.get(demoPath + "/manifest").Body.String()
	same := decode[writtenBody](t, p.put(manifest, p.preview(manifest).Seen))
	if len(same.Written) > 0 || log.Len() > 0 {
		t.Errorf("written %v, log %s", same.Written, log)
	}
}

// A write costs as much as a preview.
func TestWrites_AreLimited(t *testing.T) {
	p := signedIn(t, newFakeAPI(t))
	var got *httptest.ResponseRecorder
	for range heavyBurst + 1 {
		r := p.request(http.MethodPut, demoPath, "x")
		r.Header.Set("If-None-Match", "*")
		got = p.do(r)
	}
	wants(t, got, http.StatusTooManyRequests, reasonTooMany)
	p.relax()
	pools := strings.Repeat("    - {name: a, quantity: many}\n", maxPools+1)
	many := strings.Replace(demoText, " []\n", "\n"+pools, 1)
	want := []string{"9 spec.rkeConfig.machinePools: the manifest has 201 pools; the UI accepts at most 200, and the " +
		"commands have no limit"}
	if diff := cmp.Diff(want, problemLines(p.preview(many).Problems)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
