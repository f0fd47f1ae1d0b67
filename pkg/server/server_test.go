package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	lassocontroller "github.com/rancher/lasso/pkg/controller"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/capi"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newAPI returns a management cluster with Cluster API installed.
func newAPI(t *testing.T, more ...*apiextensionsv1.CustomResourceDefinition) *memkube.Server {
	t.Helper()
	definitions, err := capi.Definitions()
	check(t, err)
	scheme, err := clients.NewScheme()
	check(t, err)
	return memkube.New(memkube.Options{Scheme: scheme, CRDs: append(definitions, more...),
		Permit: rights.Permit(t, "drover/test")})
}

func options(t *testing.T, api *memkube.Server) Options {
	t.Helper()
	return Options{
		RESTConfig: api.Config("host"), InstanceID: "test", Version: "test",
		Settings: Settings{ServerURL: "https://drover.example.com"}, StartTimeout: 10 * time.Second,
	}
}

func status(s *Server, path string) int {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}

// start runs f in a goroutine. stop ends f and waits for it.
func start(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// settle waits half a minute: enough for caches and first back-offs.
func settle() {
	time.Sleep(30 * time.Second)
	synctest.Wait()
}

// A draining replica reports not ready, and still answers.
func TestDrain_NotReadyButServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(options(t, newAPI(t)))
		check(t, err)
		stop := start(t, s.Start)
		settle()
		begin := time.Now()
		drained := make(chan struct{})
		go func() { s.Drain(t.Context(), 5*time.Second); close(drained) }()
		synctest.Wait()
		if status(s, "/readyz") != http.StatusServiceUnavailable || s.Ready() == nil || !s.Leading() {
			t.Error("a draining replica must not be ready, but its controllers must run")
		}
		if status(s, "/ping") != http.StatusOK {
			t.Error("a draining replica must serve")
		}
		<-drained
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("the drain took %s", took)
		}
		stop()
		settle()

		never, err := New(options(t, newAPI(t)))
		check(t, err)
		begin = time.Now()
		never.Drain(t.Context(), time.Hour)
		if took := time.Since(begin); took != 0 {
			t.Errorf("the drain of a replica that never served took %s", took)
		}
	})
}

func TestStart_EndpointsAtOnceControllersAfterElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, elected := newAPI(t), make(chan struct{})
		opts := options(t, api)
		opts.Elected = elected
		s, err := New(opts)
		check(t, err)
		if status(s, "/ping") != http.StatusOK || status(s, "/readyz") != http.StatusServiceUnavailable ||
			s.Ready() == nil {
			t.Error("before Start, the endpoints must answer, but not be ready")
		}
		stop := start(t, s.Start)
		settle()
		if status(s, "/readyz") != http.StatusOK || s.Ready() != nil || s.Leading() {
			t.Error("without an election, the replica must serve, but not lead")
		}
		for _, name := range []string{"fleet-default", "drover-system", "cattle-global-data"} {
			if found, err := api.Get(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil ||
				!found {
				t.Errorf("namespace %s: %v %v", name, found, err)
			}
		}
		cluster := &provv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "c"},
			Spec:       provv1.ClusterSpec{KubernetesVersion: "v1.36.3+k3s1", RKEConfig: &provv1.RKEConfig{}},
		}
		check(t, api.Add(cluster))
		settle()
		if marked(t, api) != "" {
			t.Error("the controllers ran before the election")
		}
		close(elected)
		settle()
		if !s.Leading() || marked(t, api) != "test" {
			t.Errorf("the controllers must run after the election: leading %v, mark %q", s.Leading(), marked(t, api))
		}
		stop()
		settle()
	})
}

// marked returns the instance of the cluster "c".
func marked(t *testing.T, api *memkube.Server) string {
	t.Helper()
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "c"}}
	_, err := api.Get(cluster)
	check(t, err)
	return cluster.Annotations["drover.io/instance"]
}

// Losing the lease ends the controllers but not the endpoints. The next term starts the controllers again.
func TestLead_TermAfterTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		s, err := New(options(t, api))
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		check(t, s.Serve(ctx))
		for range 2 {
			stop := start(t, s.Lead)
			settle()
			if !s.Leading() {
				t.Error("does not lead")
			}
			stop()
			settle()
			if s.Leading() || status(s, "/readyz") != http.StatusOK {
				t.Error("the end of a term must not affect the endpoints")
			}
		}
		cancel()
		settle()
	})
}

// A host brings its own factory, whose caches it keeps, and its own definitions.
func TestEmbedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		definitions, err := crds.All()
		check(t, err)
		ours := map[string]bool{}
		for _, crd := range definitions {
			ours[crd.Name] = true
		}
		api := newAPI(t, definitions...)
		scheme, err := clients.NewScheme()
		check(t, err)
		factory, err := lassocontroller.NewSharedControllerFactoryFromConfig(api.Config("host"), scheme)
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		secrets, err := factory.ForKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		check(t, err)
		secrets.RegisterHandler(ctx, "of-the-host",
			lassocontroller.SharedControllerHandlerFunc(func(_ string, obj runtime.Object) (runtime.Object, error) {
				seen++
				return obj, nil
			}))
		check(t, factory.Start(ctx, 2))

		opts := options(t, api)
		opts.ControllerFactory, opts.CRDs = factory, CRDsHost
		s, err := New(opts)
		check(t, err)
		api.ResetLog()
		hosted, hostedEnd := context.WithCancel(ctx)
		check(t, s.Serve(hosted))
		for range 2 {
			stop := start(t, s.Lead)
			settle()
			if !s.Leading() {
				t.Error("does not lead")
			}
			stop()
			settle()
		}
		for _, write := range api.Writes("") {
			if ours[write.Name] {
				t.Errorf("the server must not write the host's CRDs: %v", write)
			}
		}
		if n := api.Count("")["watch secrets"]; n != 0 {
			t.Errorf("%d more watches of Secrets, which the host caches", n)
		}
		hostedEnd()
		settle()
		before := seen
		check(t, api.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late"}}))
		settle()
		if seen == before {
			t.Error("the host's own handlers must outlive Drover")
		}
		cancel()
		settle()
	})
}

// strange is a host's own type for one of Drover's kinds.
type strange struct{ corev1.ConfigMap }

func (s *strange) DeepCopyObject() runtime.Object { c := *s; return &c }

func TestNew_RefusesAHostWithOtherTypes(t *testing.T) {
	api := newAPI(t)
	scheme := runtime.NewScheme()
	gvk := rkev1.SchemeGroupVersion.WithKind("RKECluster")
	scheme.AddKnownTypeWithName(gvk, &strange{})
	scheme.AddKnownTypeWithName(gvk.GroupVersion().WithKind("RKEClusterList"), &strange{})
	factory, err := lassocontroller.NewSharedControllerFactoryFromConfig(api.Config("host"), scheme)
	check(t, err)
	opts := options(t, api)
	opts.ControllerFactory = factory
	if _, err := New(opts); err == nil ||
		!strings.Contains(err.Error(), "Kind=RKECluster is *server.strange in the embedding program's scheme") {
		t.Errorf("error: %v", err)
	}
}

func TestServe_NamesMissingKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			api    *memkube.Server
			change func(*Options)
			want   string
		}{
			"without Cluster API": {memkube.New(memkube.Options{}), func(*Options) {},
				"find Cluster API (external)"},
			"without Drover's kinds": {newAPI(t), func(o *Options) { o.CRDs = CRDsHost },
				"clusters.provisioning.cattle.io"},
			"with both": {newAPI(t), func(*Options) {}, ""},
		} {
			opts := options(t, tc.api)
			tc.change(&opts)
			s, err := New(opts)
			check(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			err = s.Serve(ctx)
			switch {
			case tc.want == "":
				check(t, err)
			case err == nil || !strings.Contains(err.Error(), tc.want):
				t.Errorf("%s: error %v, want %q", name, err, tc.want)
			}
			cancel()
			settle()
		}
	})
}

func TestNew_ReportsAllErrors(t *testing.T) {
	_, err := New(Options{CAPI: "none", CoreWrites: "some", CRDs: "some",
		Settings: Settings{ServerURL: "http://x/path"}})
	if err == nil {
		t.Fatal("no error")
	}
	var fields []string
	for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "configure drover: "), "\n") {
		field, _, _ := strings.Cut(line, ":")
		fields = append(fields, field)
	}
	want := []string{"RESTConfig", "InstanceID", "CAPI", "CoreWrites", "CRDs", "Settings.ServerURL"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	_, err = New(Options{
		RESTConfig: &rest.Config{}, InstanceID: "x", CAPI: CAPIEmbedded,
		Settings: Settings{ServerURL: "https://x"},
		ControllerFactory: struct {
			lassocontroller.SharedControllerFactory
		}{},
	})
	if err == nil ||
		!strings.Contains(err.Error(), "CAPI: \"embedded\" cannot share the caches of a host's controller factory") {
		t.Errorf("error: %v", err)
	}
	_, err = New(Options{
		RESTConfig: &rest.Config{}, InstanceID: "x", CAPI: CAPIExternal, CoreWrites: CoreWritesThrifty,
		Settings: Settings{ServerURL: "https://x"},
	})
	if err == nil ||
		!strings.Contains(err.Error(), "CoreWrites: \"thrifty\" has no effect on a core in another process") {
		t.Errorf("error: %v", err)
	}
}
