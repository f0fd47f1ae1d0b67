package managedchart_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/managedchart"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/chartrepo"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/lags"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	agent  = "drover/test"
	tenant = "team-a"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// repository is a played repository.
type repository struct {
	mu sync.Mutex
	// charts are the contents of the newest version, by version; err is the answer instead.
	charts map[string]string
	err    error
	// takes is how long a download takes.
	takes time.Duration
	asked []chartrepo.Request
	most  int
	now   int
}

func (r *repository) fetch(ctx context.Context, request chartrepo.Request, known string) (*chartrepo.Chart, error) {
	r.mu.Lock()
	r.asked = append(r.asked, request)
	r.now++
	r.most = max(r.most, r.now)
	r.mu.Unlock()
	defer func() { r.mu.Lock(); r.now--; r.mu.Unlock() }()
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	version := request.Version
	if chartrepo.IsFloating(version) {
		version = slices.Max(slices.Collect(maps.Keys(r.charts)))
	}
	content, ok := r.charts[version]
	switch {
	case r.err != nil:
		return nil, r.err
	case !ok:
		return nil, &chartrepo.Error{Kind: chartrepo.Missing, Message: "spec.version: no version " + request.Version}
	case version == known:
		return &chartrepo.Chart{Version: version}, nil
	}
	return &chartrepo.Chart{Version: version, Files: []fleet.File{{Name: "Chart.yaml", Data: []byte(content)}}}, nil
}

func (r *repository) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *repository) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

// world is a management cluster with the running controller.
type world struct {
	*testing.T
	api  *memkube.Server
	repo *repository
	// rival says whether another manager runs.
	rival atomic.Bool
	stop  func()
	cut   chan struct{}
}

// bundles is a CRD of Bundles with what Drover uses.
func bundles() *apiextv1.CustomResourceDefinition {
	open := true
	object := apiextv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}
	return &apiextv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: fleet.BundleDefinition},
		Spec: apiextv1.CustomResourceDefinitionSpec{
			Group: "fleet.cattle.io", Scope: apiextv1.NamespaceScoped,
			Names: apiextv1.CustomResourceDefinitionNames{Plural: "bundles", Kind: "Bundle", Singular: "bundle",
				ListKind: "BundleList"},
			Versions: []apiextv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &apiextv1.JSONSchemaProps{Type: "object",
					Properties: map[string]apiextv1.JSONSchemaProps{"spec": object, "status": object}}},
				Subresources: &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

// tell runs a test in virtual time, with Fleet and a repository.
func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	inWorld(t, nil, f)
}

func inWorld(t *testing.T, prepare func(*memkube.Server), f func(w *world)) *memkube.Server {
	t.Helper()
	var api *memkube.Server
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t, repo: &repository{charts: map[string]string{"1.0.0": "first", "1.1.0": "second"}},
			api: memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions, Namespaces: []string{tenant},
				Permit: rights.Permit(t, agent)})}
		api = w.api
		must(t, w.api.Add(bundles()))
		if prepare != nil {
			prepare(w.api)
		}
		w.start()
		defer func() { w.stop() }()
		f(w)
	})
	return api
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test"})
	must(w.T, err)
	must(w.T, managedchart.Register(c.HandlerContext(), managedchart.Deps{
		ManagedCharts: c.Management.ManagedChart(), Secrets: c.Core.Secret(),
		CRDs: c.CRDs.CustomResourceDefinition(), Kinds: c.Dynamic, Fetch: w.repo.fetch,
		Rival: func(context.Context) (string, error) {
			return map[bool]string{true: "Rancher runs"}[w.rival.Load()], nil
		},
	}))
	workers, cancel := context.WithCancel(w.Context())
	if err := c.Start(workers); err != nil {
		w.Log("the controller did not start:", err) // it was killed while starting
	}
	w.stop = func() {
		cancel()
		c.Stop()
		synctest.Wait()
		time.Sleep(time.Minute) // watches end
	}
}

// pass lets time d pass. If the controller was killed meanwhile, pass restarts it and lets d pass again.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	select {
	case <-w.cut:
		w.cut = nil // kill once
		w.stop()
		w.api.Mend(agent)
		w.start()
		w.pass(d)
	default:
	}
}

func (w *world) quiet(d time.Duration) {
	w.Helper()
	w.api.ResetLog()
	w.pass(d)
	if writes := w.api.Writes(agent); len(writes) > 0 {
		w.Errorf("writes: %v", writes)
	}
}

func chart(name, version string) *mgmtv3.ManagedChart {
	return &mgmtv3.ManagedChart{
		TypeMeta:   metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "ManagedChart"},
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name},
		Spec:       mgmtv3.ManagedChartSpec{Repo: "https://charts.example.com", Chart: "web", Version: version},
	}
}

func (w *world) stored(name string) *mgmtv3.ManagedChart {
	w.Helper()
	found := chart(name, "")
	exists, err := w.api.Get(found)
	must(w.T, err)
	if !exists {
		w.Fatalf("ManagedChart %s does not exist", name)
	}
	return found
}

// edit changes a ManagedChart as a user.
func (w *world) edit(name string, change func(*mgmtv3.ManagedChart)) {
	w.Helper()
	found := w.stored(name)
	change(found)
	must(w.T, w.api.Add(found))
}

func (w *world) bundle(name string) *unstructured.Unstructured {
	w.Helper()
	bundle := &unstructured.Unstructured{}
	bundle.SetGroupVersionKind(fleet.BundleKind)
	bundle.SetNamespace(tenant)
	bundle.SetName("mcc-" + name)
	exists, err := w.api.Get(bundle)
	must(w.T, err)
	if !exists {
		return nil
	}
	return bundle
}

// expectFile compares the file of a Bundle with those of a chart.
func (w *world) expectFile(name, content string) {
	w.Helper()
	want, err := fleet.Resources([]fleet.File{{Name: "Chart.yaml", Data: []byte(content)}})
	must(w.T, err)
	bundle := w.bundle(name)
	if bundle == nil {
		w.Fatalf("ManagedChart %s has no Bundle", name)
	}
	fleet.DropFiles(bundle)
	if fleet.ChecksumOf(bundle) != fleet.Checksum(want) {
		w.Errorf("the Bundle of %s does not have the file %q", name, content)
	}
}

func (w *world) expectDefined(name, status, reason string, words ...string) {
	w.Helper()
	got := conditions.Get(w.stored(name).Status.Conditions, mgmtv3.ManagedChartConditionDefined)
	if got == nil || got.Status != status || got.Reason != reason {
		w.Errorf("condition of %s: %+v, want %s %s", name, got, status, reason)
		return
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			w.Errorf("message %q, want %q in it", got.Message, word)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// life is the life of a ManagedChart: created, edited, upgraded, deleted.
func life(w *world) {
	created := chart("web", "1.0.0")
	created.Spec.Values = rkev1.GenericMap{Data: map[string]any{"replicas": int64(2), "none": nil}}
	must(w.T, w.api.Add(created))
	w.pass(20 * time.Second)
	w.expectDefined("web", "True", "")
	w.expectFile("web", "first")
	owners := w.bundle("web").GetOwnerReferences()
	if len(owners) != 1 || owners[0].Kind != "ManagedChart" || owners[0].Controller == nil || !*owners[0].Controller {
		w.Errorf("owners %v", owners)
	}

	w.edit("web", func(c *mgmtv3.ManagedChart) {
		c.Spec.Values.Data, c.Spec.Paused = map[string]any{"replicas": int64(3)}, true
	})
	w.pass(20 * time.Second)
	values, _, _ := unstructured.NestedMap(w.bundle("web").Object, "spec", "helm", "values")
	paused, _, _ := unstructured.NestedBool(w.bundle("web").Object, "spec", "paused")
	if len(values) != 1 || values["replicas"] != int64(3) || !paused {
		w.Errorf("values %v, paused %v", values, paused)
	}
	w.edit("web", func(c *mgmtv3.ManagedChart) { c.Spec.Paused, c.Spec.Version = false, "1.1.0" })
	w.pass(20 * time.Second)
	w.expectFile("web", "second")
	if _, set, _ := unstructured.NestedBool(w.bundle("web").Object, "spec", "paused"); set {
		w.Error("the Bundle is still paused")
	}
	w.expectDefined("web", "True", "")
	w.quiet(24 * time.Hour)
}

func TestStory_ChartIsDefinedEditedAndUpgraded(t *testing.T) {
	tell(t, func(w *world) {
		life(w)
		if asked := w.repo.count(); asked != 2 {
			w.Errorf("the repository was asked %d times, want once for each version", asked)
		}
		w.stop()
		w.start()
		w.quiet(time.Hour)
		if asked := w.repo.count(); asked != 2 {
			w.Errorf("after a restart, the repository was asked again")
		}
	})
}

func TestStory_KilledAfterEveryWrite(t *testing.T) {
	crashpoints.SkipRaced(t)
	// The Bundle and the status, an edit, an upgrade with its wait: the last kill is after the last write.
	for n := 1; n <= 7; n++ {
		inWorld(t, nil, func(w *world) {
			w.cut = make(chan struct{})
			w.api.CutAfter(agent, n, func() { close(w.cut) })
			life(w)
		})
	}
}

func TestStory_WatchesThatLag(t *testing.T) {
	lags.All(t, agent, 3, func(t *testing.T, prepare func(*memkube.Server)) *memkube.Server {
		return inWorld(t, prepare, life)
	})
}

func TestStory_FailuresKeepWhatRunsAndEndByThemselves(t *testing.T) {
	tell(t, func(w *world) {
		must(w.T, w.api.Add(chart("web", "1.0.0")))
		w.pass(time.Minute)
		away := &chartrepo.Error{Kind: chartrepo.Unavailable, Message: "spec.repo: does not answer"}
		w.repo.set(func() { w.repo.err = away })
		w.edit("web", func(c *mgmtv3.ManagedChart) { c.Spec.Version, c.Spec.ReleaseName = "1.1.0", "later" })
		w.pass(time.Minute)
		w.expectDefined("web", "False", "RepositoryUnavailable", "does not answer")
		w.expectFile("web", "first")
		if name, _, _ := unstructured.NestedString(w.bundle("web").Object, "spec", "helm", "releaseName"); name != "" {
			w.Error("a field of the new version is used with the old chart")
		}
		before := w.repo.count()
		w.quiet(24 * time.Hour)
		if asked := w.repo.count() - before; asked < 40 || asked > 60 {
			w.Errorf("the repository was asked %d times in a day", asked)
		}
		w.repo.set(func() { w.repo.err = nil })
		w.pass(31 * time.Minute)
		w.expectDefined("web", "True", "")
		w.expectFile("web", "second")

		for kind, reason := range map[chartrepo.Kind]string{chartrepo.Refused: "RepositoryRefused",
			chartrepo.Missing: "ChartMissing", chartrepo.Invalid: "ChartInvalid"} {
			w.repo.set(func() { w.repo.err = &chartrepo.Error{Kind: kind, Message: "spec.repo: no"} })
			w.edit("web", func(c *mgmtv3.ManagedChart) { c.Spec.Repo = "https://" + strings.ToLower(reason) })
			w.pass(2 * time.Minute)
			w.expectDefined("web", "False", reason)
			w.expectFile("web", "second")
		}
	})
}

// A range of versions follows new releases, and is compared once an hour.
func TestStory_RangesFollowReleases(t *testing.T) {
	tell(t, func(w *world) {
		must(w.T, w.api.Add(chart("web", "^1")))
		w.pass(time.Minute)
		w.expectFile("web", "second")
		before := w.repo.count()
		w.quiet(10 * time.Hour)
		if asked := w.repo.count() - before; asked != 10 && asked != 11 {
			w.Errorf("asked %d times in ten hours", asked)
		}
		w.repo.set(func() { w.repo.charts["1.2.0"] = "third" })
		w.pass(61 * time.Minute)
		w.expectFile("web", "third")
	})
}

func TestStory_SecretsWakeCharts(t *testing.T) {
	tell(t, func(w *world) {
		created := chart("web", "1.0.0")
		created.Spec.HelmSecretName = "login"
		must(w.T, w.api.Add(created))
		w.pass(time.Minute)
		w.expectDefined("web", "False", "CredentialMissing", "spec.helmSecretName", "team-a/login")
		if asked := w.repo.count(); asked != 0 {
			w.Error("the repository was asked without the credential")
		}
		must(w.T, w.api.Add(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "login"},
			Data:       map[string][]byte{"username": []byte("me"), "password": []byte("hunter2")}}))
		w.pass(time.Minute)
		w.expectDefined("web", "True", "")
		if got := w.repo.asked[0].Credential; got != (chartrepo.Credential{Username: "me", Password: "hunter2"}) {
			w.Errorf("credential %+v", got)
		}
	})
}

func TestStory_StatusFollowsTheBundle(t *testing.T) {
	tell(t, func(w *world) {
		must(w.T, w.api.Add(chart("web", "1.0.0")))
		w.pass(time.Minute)
		bundle := w.bundle("web")
		bundle.Object["status"] = map[string]any{
			"conditions": []any{map[string]any{"type": "Ready", "status": "False", "message": "NotReady(1)"}},
			"display":    map[string]any{"readyClusters": "0/1"}, "unavailable": int64(1), "maxNew": int64(50),
			"summary": map[string]any{"ready": int64(0), "desiredReady": int64(1)}, "observedGeneration": int64(4),
		}
		must(w.T, w.api.Add(bundle))
		w.pass(time.Minute)
		status := w.stored("web").Status
		ready := conditions.Get(status.Conditions, "Ready")
		if ready == nil || ready.Status != "False" || status.Unavailable != 1 || status.ObservedGeneration != 4 ||
			status.Display.Data["readyClusters"] != "0/1" || status.Summary.Data["desiredReady"] != int64(1) {
			w.Errorf("status %+v", status)
		}
		w.expectDefined("web", "True", "")
		w.quiet(time.Hour)
	})
}

func TestStory_ForeignBundlesAndManagersAreLeftAlone(t *testing.T) {
	tell(t, func(w *world) {
		foreign := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"paused": true}}}
		foreign.SetGroupVersionKind(fleet.BundleKind)
		foreign.SetNamespace(tenant)
		foreign.SetName("mcc-web")
		must(w.T, w.api.Add(foreign))
		w.rival.Store(true)
		must(w.T, w.api.Add(chart("web", "1.0.0"), chart("db", "1.0.0")))
		w.quiet(time.Hour)
		w.rival.Store(false)
		w.pass(6 * time.Minute)
		w.expectDefined("web", "False", "BundleTaken", "team-a/mcc-web")
		w.expectDefined("db", "True", "")
		if got := w.bundle("web"); got.GetOwnerReferences() != nil || got.GetAnnotations() != nil {
			w.Errorf("the foreign Bundle has changed: %v", got)
		}

		// Another program changes the Bundle: Drover restores its own fields.
		changed := w.bundle("db")
		must(w.T, unstructured.SetNestedField(changed.Object, []any{}, "spec", "resources"))
		must(w.T, unstructured.SetNestedField(changed.Object, "other", "spec", "serviceAccount"))
		must(w.T, unstructured.SetNestedField(changed.Object, int64(2), "spec", "forceSyncGeneration"))
		must(w.T, w.api.Add(changed))
		w.pass(2 * time.Minute)
		w.expectFile("db", "first")
		spec, _, _ := unstructured.NestedMap(w.bundle("db").Object, "spec")
		if spec["serviceAccount"] != nil || spec["forceSyncGeneration"] != int64(2) {
			w.Errorf("fields %v", spec)
		}
	})
}

func TestStory_FleetComesAndGoes(t *testing.T) {
	tell(t, func(w *world) {
		user, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "user", WithoutDynamic: true})
		must(w.T, err)
		must(w.T, user.CRDs.CustomResourceDefinition().Delete(fleet.BundleDefinition, &metav1.DeleteOptions{}))
		w.pass(time.Minute)
		must(w.T, w.api.Add(chart("web", "1.0.0")))
		w.pass(time.Minute)
		w.expectDefined("web", "Unknown", "Waiting", fleet.BundleDefinition)
		w.quiet(time.Hour)
		if asked := w.repo.count(); asked != 0 {
			w.Error("the repository was asked without Fleet")
		}
		must(w.T, w.api.Add(bundles()))
		w.pass(time.Minute)
		w.expectDefined("web", "True", "")
		w.expectFile("web", "first")
	})
}

// A namespace whose repository hangs delays no other namespace, and needs no worker.
func TestStory_SlowRepositoriesShareSlots(t *testing.T) {
	tell(t, func(w *world) {
		w.repo.takes = time.Minute
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			must(w.T, w.api.Add(chart(name, "1.0.0")))
		}
		w.pass(30 * time.Second)
		w.expectDefined("a", "Unknown", "Waiting")
		w.pass(10 * time.Minute)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			w.expectDefined(name, "True", "")
		}
		if w.repo.most != 2 {
			w.Errorf("%d downloads of one namespace ran at once, want 2", w.repo.most)
		}
	})
}

func TestStory_BadInput(t *testing.T) {
	tell(t, func(w *world) {
		bad := chart("web", "1.0.0")
		bad.Spec.Repo, bad.Spec.RepoName = "", "rancher-charts"
		must(w.T, w.api.Add(bad))
		w.pass(time.Minute)
		w.expectDefined("web", "False", "RepositoryRefused", "spec.repo", "spec.repoName has no effect")
		w.api.Intercept(func(r memkube.Request) error {
			if r.Resource.Resource == "bundles" && r.Verb == "create" {
				return apierrors.NewBadRequest(`strict decoding error: unknown field "spec.targets[0].cluster"`)
			}
			return nil
		})
		w.edit("web", func(c *mgmtv3.ManagedChart) { c.Spec.Repo = "https://charts.example.com" })
		w.pass(time.Minute)
		w.expectDefined("web", "False", "BundleRefused", "unknown field")
		w.api.Intercept(nil)
		w.pass(61 * time.Minute)
		w.expectDefined("web", "True", "")
	})
}
