package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	lassocontroller "github.com/rancher/lasso/pkg/controller"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newAPI(t testing.TB) *memkube.Server {
	t.Helper()
	definitions, err := crds.All()
	check(t, err)
	return memkube.New(memkube.Options{CRDs: definitions, Namespaces: []string{"ns"}})
}

// pass advances the time and waits for the effects.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// run calls the test with Clients in virtual time. The test has to call start.
func run(t *testing.T, api *memkube.Server, opts Options, f func(c *Clients, start func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		if api == nil {
			api = newAPI(t)
		}
		c, err := New(api.Config("ignored"), opts)
		check(t, err)
		defer func() { cancel(); c.Stop(); synctest.Wait(); time.Sleep(time.Minute) }()
		f(c, func() { check(t, c.Start(ctx)); synctest.Wait() })
	})
}

func cluster(name string) *rkev1.RKECluster {
	return &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// Start names the kind of a missing CRD. wrangler's Start waits forever.
func TestStart_EdgeMissingCRDIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := memkube.New(memkube.Options{}) // no CRDs at all
		c, err := New(api.Config("x"), Options{SyncTimeout: 10 * time.Second})
		check(t, err)
		c.RKE.RKECluster().Cache()
		c.Core.ConfigMap().Cache()
		began := time.Now()
		err = c.Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), "not filled within 10s: rke.cattle.io/v1 RKECluster (") {
			t.Errorf("the error must name only the kind, got %v", err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("gave up after %s", took)
		}
		c.Stop()
		pass(time.Minute)
	})
}

// The context of handlers outlives the workers. With a common context, lasso removes handlers while workers iterate
// over them.
func TestStop_EdgeHandlersOutliveWorkers(t *testing.T) {
	run(t, nil, Options{}, func(c *Clients, start func()) {
		running, released, order := make(chan struct{}), make(chan struct{}), []string{}
		context.AfterFunc(c.HandlerContext(), func() { order = append(order, "handlers removed") })
		c.RKE.RKECluster().OnChange(c.HandlerContext(), "slow",
			func(_ string, obj *rkev1.RKECluster) (*rkev1.RKECluster, error) {
				close(running)
				<-released
				if c.WorkContext().Err() != nil && c.HandlerContext().Err() == nil {
					order = append(order, "work is over")
				}
				order = append(order, "handler done")
				return obj, nil
			})
		start()
		_, err := c.RKE.RKECluster().Create(cluster("one"))
		check(t, err)
		<-running
		stopped := make(chan struct{})
		go func() { c.Stop(); close(stopped) }()
		synctest.Wait()
		_, err = c.RKE.RKECluster().Create(cluster("two")) // would close a closed channel
		check(t, err)
		close(released)
		<-stopped
		synctest.Wait()
		if diff := cmp.Diff([]string{"work is over", "handler done", "handlers removed"}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// Every kind has its own rate limiter. lasso shares a given limiter, and its counters, between all kinds.
func TestQueues_EdgeLimiterIsPerKind(t *testing.T) {
	run(t, nil, Options{}, func(c *Clients, start func()) {
		fails, ran := true, []time.Duration{}
		var began time.Time
		c.RKE.RKECluster().OnChange(c.HandlerContext(), "fails",
			func(_ string, obj *rkev1.RKECluster) (*rkev1.RKECluster, error) {
				return obj, errors.New("no")
			})
		c.RKE.RKEControlPlane().OnChange(c.HandlerContext(), "fails-once",
			func(_ string, obj *rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error) {
				ran = append(ran, time.Since(began))
				if fails {
					fails = false
					return obj, errors.New("no")
				}
				return obj, nil
			})
		start()
		_, err := c.RKE.RKECluster().Create(cluster("same"))
		check(t, err)
		pass(time.Hour) // the other kind is in its longest back-off now
		began = time.Now()
		_, err = c.RKE.RKEControlPlane().Create(&rkev1.RKEControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "same"},
			Spec:       rkev1.RKEControlPlaneSpec{KubernetesVersion: "v1.36.3+k3s1", ClusterName: "same"},
		})
		check(t, err)
		pass(time.Minute)
		if len(ran) != 2 || ran[1] > time.Second {
			t.Errorf("runs at %v, want a retry at once", ran)
		}
	})
}

func TestHandlers_PanicIsAnError(t *testing.T) {
	run(t, nil, Options{}, func(c *Clients, start func()) {
		runs := 0
		c.RKE.RKECluster().OnChange(c.HandlerContext(), "panics",
			func(_ string, obj *rkev1.RKECluster) (*rkev1.RKECluster, error) {
				runs++
				if runs == 1 {
					panic("a bug")
				}
				return obj, nil
			})
		start()
		_, err := c.RKE.RKECluster().Create(cluster("one"))
		check(t, err)
		pass(time.Second)
		if runs != 2 {
			t.Errorf("ran %d times, want a retry after the panic", runs)
		}
	})
}

// Only Pods of the Jobs that create machines are cached.
func TestConfig_PodsOfMachinesOnly(t *testing.T) {
	api := newAPI(t)
	check(t, api.Add(
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "makes-a-machine",
			Labels: map[string]string{rkev1.InfraMachineNameLabel: "m"}}},
	))
	run(t, api, Options{}, func(c *Clients, start func()) {
		pods := c.Core.Pod().Cache()
		start()
		found, err := pods.List("ns", labels.Everything())
		check(t, err)
		if len(found) != 1 || found[0].Name != "makes-a-machine" {
			t.Errorf("cached: %v", found)
		}
	})
}

func TestConfig_AgentAndHelmSecrets(t *testing.T) {
	api := newAPI(t)
	check(t, api.Add(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "release"}, Type: "helm.sh/release.v1"},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plain"}},
	))
	run(t, api, Options{Version: "v1.2.3"}, func(c *Clients, start func()) {
		secrets := c.Core.Secret().Cache()
		start()
		found, err := secrets.List("ns", labels.Everything())
		check(t, err)
		if len(found) != 1 || found[0].Name != "plain" {
			t.Errorf("cached: %v", found)
		}
		for _, entry := range api.Log() {
			if entry.Agent != "drover/v1.2.3" {
				t.Errorf("user agent %q in %v", entry.Agent, entry)
			}
		}
	})
}

// otherCluster is a host's own type for one of Drover's kinds.
type otherCluster struct{ corev1.ConfigMap }

func (o *otherCluster) DeepCopyObject() runtime.Object { c := *o; return &c }

func TestHost_FactoryNeedsOurTypes(t *testing.T) {
	api := newAPI(t)
	factoryOf := func(scheme *runtime.Scheme) lassocontroller.SharedControllerFactory {
		factory, err := lassocontroller.NewSharedControllerFactoryFromConfig(api.Config("host"), scheme)
		check(t, err)
		return factory
	}
	ours, err := NewScheme()
	check(t, err)
	c, err := New(api.Config("x"), Options{Factory: factoryOf(ours)})
	check(t, err)
	c.Stop()

	foreign := runtime.NewScheme()
	foreign.AddKnownTypeWithName(rkev1.SchemeGroupVersion.WithKind("RKECluster"), &otherCluster{})
	foreign.AddKnownTypeWithName(rkev1.SchemeGroupVersion.WithKind("RKEClusterList"), &otherCluster{})
	_, err = New(api.Config("x"), Options{Factory: factoryOf(foreign)})
	if err == nil ||
		!strings.Contains(err.Error(),
			"kind rke.cattle.io/v1, Kind=RKECluster is *clients.otherCluster in the embedding program's scheme, but "+
				"Drover needs *v1.RKECluster") {
		t.Errorf("error: %v", err)
	}
}

// machineKind returns the definition of a kind of a node driver.
func machineKind(plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	yes := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + MachineGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: MachineGroup, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}},
			}},
		},
	}
}

func informedBy(list *[]string) func(schema.GroupVersionKind, cache.SharedIndexInformer) {
	return func(gvk schema.GroupVersionKind, _ cache.SharedIndexInformer) { *list = append(*list, gvk.Kind) }
}

func TestDynamic_KindsAppearAndDisappear(t *testing.T) {
	run(t, nil, Options{}, func(c *Clients, start func()) {
		ctx := c.HandlerContext()
		gvk := schema.GroupVersionKind{Group: MachineGroup, Version: "v1", Kind: "SimMachine"}
		var seen, informed []string
		c.Dynamic.AddIndexer("by-owner", func(u *unstructured.Unstructured) []string {
			return []string{u.GetLabels()["owner"]}
		})
		c.Dynamic.OnChange("test", InGroup(MachineGroup, "Template"),
			func(gvk schema.GroupVersionKind, key string, obj *unstructured.Unstructured) error {
				seen = append(seen, fmt.Sprintf("%s %s %v", gvk.Kind, key, obj != nil))
				return nil
			})
		c.Dynamic.OnInformer(informedBy(&informed))
		start()
		if _, err := c.Dynamic.Get(gvk, "ns", "m"); !apierrors.IsNotFound(err) {
			t.Errorf("an unserved kind must be a NotFound error, got %v", err)
		}
		_, err := c.CRDs.CustomResourceDefinition().Create(machineKind("simmachines", "SimMachine"))
		check(t, err)
		_, err = c.CRDs.CustomResourceDefinition().Create(machineKind("simmachinetemplates", "SimMachineTemplate"))
		check(t, err)
		began := time.Now()
		synctest.Wait()
		if !c.Dynamic.Synced(gvk) {
			pass(200 * time.Millisecond) // the interval at which lasso and client-go check that a cache is filled
		}
		if took := time.Since(began); !c.Dynamic.Synced(gvk) || took > 300*time.Millisecond {
			t.Errorf("the kind is not watched after %v", took)
		}
		m := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": "big"}}}
		m.SetGroupVersionKind(gvk)
		m.SetNamespace("ns")
		m.SetName("m")
		m.SetLabels(map[string]string{"owner": "o"})
		m, err = c.Dynamic.Create(ctx, m)
		check(t, err)
		m.Object["status"] = map[string]any{"ready": true}
		_, err = c.Dynamic.UpdateStatus(ctx, m)
		check(t, err)
		pass(time.Second)
		got, err := c.Dynamic.Get(gvk, "ns", "m")
		check(t, err)
		if ready, _, _ := unstructured.NestedBool(got.Object, "status", "ready"); !ready {
			t.Errorf("cached: %v", got)
		}
		byOwner, err := c.Dynamic.GetByIndex(schema.GroupVersionKind{}, "by-owner", "o")
		check(t, err)
		if len(byOwner) != 1 {
			t.Errorf("by index: %v", byOwner)
		}
		check(t, c.Dynamic.Delete(ctx, gvk, "ns", "m"))
		check(t, c.Dynamic.Delete(ctx, gvk, "ns", "m"))
		pass(time.Second)
		slices.Sort(informed)
		want := []string{"SimMachine ns/m true", "SimMachine ns/m false"}
		if diff := cmp.Diff(want, slices.Compact(seen)); diff != "" {
			t.Errorf("handled (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"SimMachine", "SimMachineTemplate"}, informed); diff != "" {
			t.Errorf("informed (-want +got):\n%s", diff)
		}
		check(t, c.CRDs.CustomResourceDefinition().Delete("simmachines."+MachineGroup, nil))
		synctest.Wait()
		if len(c.Dynamic.Kinds()) != 1 {
			t.Errorf("a kind without its definition remains: %v", c.Dynamic.Kinds())
		}
	})
}

// A replica keeps the caches of its endpoints for its whole life. Its controllers borrow them in each term.
func TestShare_CachesNothingTwice(t *testing.T) {
	api := newAPI(t)
	byName := func(obj *rkev1.RKECluster) ([]string, error) { return []string{obj.Name}, nil }
	run(t, api, Options{WithoutDynamic: true}, func(c *Clients, start func()) {
		for range 2 { // controllers share an index
			c.RKE.RKECluster().Cache().AddIndexer("by-name", byName)
		}
		c.CRDs.CustomResourceDefinition().Cache()
		start()
		for term := range 3 {
			var handled atomic.Int64 // by two workers
			ctx, cancel := context.WithCancel(c.HandlerContext())
			leader, err := New(api.Config("x"), Options{Version: "leader", Share: c})
			check(t, err)
			leader.RKE.RKECluster().Cache().AddIndexer("by-name", byName)
			leader.RKE.RKECluster().OnChange(leader.HandlerContext(), "count",
				func(_ string, obj *rkev1.RKECluster) (*rkev1.RKECluster, error) {
					handled.Add(1)
					return obj, nil
				})
			leader.Core.ConfigMap().Cache()
			check(t, leader.Start(ctx))
			_, err = leader.RKE.RKECluster().Create(cluster(fmt.Sprint("c", term)))
			check(t, err)
			pass(time.Second)
			found, err := leader.RKE.RKECluster().Cache().GetByIndex("by-name", "c0")
			check(t, err)
			if handled.Load() != int64(term+1) || len(found) != 1 {
				t.Errorf("term %d handled %d objects and found %d by index", term, handled.Load(), len(found))
			}
			cancel()
			leader.Stop()
			synctest.Wait()
			before := handled.Load()
			changed := found[0].DeepCopy()
			changed.Labels = map[string]string{"term": strconv.Itoa(term)}
			_, err = c.RKE.RKECluster().Update(changed)
			check(t, err)
			pass(time.Second)
			if handled.Load() != before {
				t.Error("a term that has ended still handles events")
			}
		}
		counts := api.Count("drover/leader")
		if counts["watch rkeclusters.rke.cattle.io"] != 0 || counts["watch configmaps"] != 3 {
			t.Errorf("requests of the leader: %v", counts)
		}
	})
}

func TestHost_FactoryServesSeveralTerms(t *testing.T) {
	api := newAPI(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ours, err := NewScheme()
		check(t, err)
		factory, err := lassocontroller.NewSharedControllerFactoryFromConfig(api.Config("host"), ours)
		check(t, err)
		for term := range 2 {
			c, err := New(api.Config("x"), Options{Factory: factory})
			check(t, err)
			handled := 0
			c.RKE.RKECluster().Cache().AddIndexer("by-name", func(obj *rkev1.RKECluster) ([]string, error) {
				return []string{obj.Name}, nil
			})
			c.RKE.RKECluster().OnChange(c.HandlerContext(), "count",
				func(_ string, obj *rkev1.RKECluster) (*rkev1.RKECluster, error) {
					handled++
					return obj, nil
				})
			check(t, c.Start(ctx))
			_, err = c.RKE.RKECluster().Create(cluster(fmt.Sprint("c", term)))
			check(t, err)
			pass(time.Second)
			if handled != term+1 {
				t.Errorf("term %d handled %d objects", term, handled)
			}
			c.Stop()
			synctest.Wait()
		}
		cancel()
		pass(time.Minute)
	})
}
