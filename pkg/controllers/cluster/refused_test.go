package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const tester = "drover/test"

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// allConnected is a tunnel in which every agent is connected.
type allConnected struct{}

func (allConnected) Connected(string) bool                           { return true }
func (allConnected) Subscribe(context.Context, func(cluster string)) {}

type noProbes struct{}

func (noProbes) Answered(types.NamespacedName) bool { return false }
func (noProbes) Forget(types.NamespacedName)        {}

// mirrored runs the controller with a connected cluster, in virtual time. prepare changes the API server before.
func mirrored(t *testing.T, prepare, f func(api *memkube.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		scheme, err := clients.NewScheme()
		check(err)
		definitions, err := crds.All()
		check(err)
		api := memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions,
			Namespaces: []string{"n", "drover-system"}})
		prepare(api)
		check(api.Add(&provv1.Cluster{
			TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo",
				Annotations: map[string]string{rkev1.InstanceAnnotation: "a"}},
			Spec:   provv1.ClusterSpec{KubernetesVersion: "v1.36.2+k3s1", RKEConfig: &provv1.RKEConfig{}},
			Status: provv1.ClusterStatus{ClusterName: "c-m-00000000"},
		}, &mgmtv3.Cluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Name: "c-m-00000000"},
		}))
		c, err := clients.New(api.Config("ignored"), clients.Options{Version: "test"})
		check(err)
		c.Provisioning.Cluster().Cache().AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
		check(New(c.HandlerContext(), Deps{
			Clusters:           c.Provisioning.Cluster(),
			ManagementClusters: c.Management.Cluster(),
			ControlPlanes:      c.RKE.RKEControlPlane(),
			Machines:           c.CAPI.Machine(),
			Secrets:            c.Core.Secret(),
			Namespaces:         c.Core.Namespace(),
			Prober:             noProbes{},
			Tunnel:             allConnected{},
			Endpoints: Endpoints{
				Server: "https://drover.example.com",
			},
			TokenNamespace: "drover-system",
			InstanceID:     "a",
		}).Register())
		workers, cancel := context.WithCancel(t.Context())
		check(c.Start(workers))
		f(api)
		cancel()
		c.Stop()
		synctest.Wait()
		time.Sleep(time.Minute) // watches end
	})
}

// secretsWritten counts writes of Secrets by verb.
func secretsWritten(api *memkube.Server) map[string]int {
	found := map[string]int{}
	for _, entry := range api.Writes(tester) {
		if entry.Resource == "secrets" {
			found[entry.Verb]++
		}
	}
	return found
}

// A kubeconfig that cannot be stored costs a token for each attempt. The events of these tokens start no attempt.
func TestStory_RefusedKubeconfigIsTriedWithBackOff(t *testing.T) {
	t.Parallel()
	mirrored(t, func(api *memkube.Server) {
		api.Intercept(func(r memkube.Request) error {
			if r.Verb == "create" && r.Resource.Resource == "secrets" && r.Namespace == "n" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "demo-kubeconfig",
					context.DeadlineExceeded)
			}
			return nil
		})
	}, func(api *memkube.Server) {
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := secretsWritten(api); got["create"] == 0 || got["create"] > 150 {
			t.Errorf("writes of Secrets in an hour: %v", got)
		}
		tokens := 0
		for _, secret := range api.Objects(corev1.SchemeGroupVersion.WithKind("Secret")) {
			if strings.HasPrefix(secret.GetNamespace(), "drover-system") {
				tokens++
			}
		}
		if tokens > 0 {
			t.Errorf("%d tokens are left", tokens)
		}
		api.Intercept(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo-kubeconfig"}}
		if exists, err := api.Get(secret); err != nil || !exists {
			t.Errorf("the kubeconfig exists: %v, %v", exists, err)
		}
	})
}

// The API server accepts no new objects in a namespace that is being deleted.
func TestStory_NoKubeconfigInAnEndingNamespace(t *testing.T) {
	t.Parallel()
	mirrored(t, func(api *memkube.Server) {
		held := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "held", Finalizers: []string{"example.com/held"}}}
		user, err := kubernetes.NewForConfig(api.Config("user"))
		if err == nil {
			err = errors.Join(
				api.Add(held),
				user.CoreV1().Namespaces().Delete(t.Context(), "n", metav1.DeleteOptions{}),
			)
		}
		if err != nil {
			t.Fatal(err)
		}
	}, func(api *memkube.Server) {
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := secretsWritten(api); len(got) > 0 {
			t.Errorf("writes of Secrets: %v", got)
		}
	})
}
