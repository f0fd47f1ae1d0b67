package controllers_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/proxy"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// everyTunnel is connected to an agent of every cluster.
type everyTunnel struct{}

func (everyTunnel) Connected(string) bool                       { return true }
func (everyTunnel) Transport(string) (http.RoundTripper, error) { return http.DefaultTransport, nil }

// TestNewDoor_RefusesForeignClusters: a user cannot reach another user's cluster by writing its management
// cluster into the status of a Cluster.
func TestNewDoor_RefusesForeignClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		api := memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions, Namespaces: []string{"a", "b"}})
		must(t, api.Add(claim("a", "c-m-1")))
		c, err := clients.New(api.Config("test"), clients.Options{Version: "test", WithoutDynamic: true})
		must(t, err)
		door := controllers.NewDoor(c, everyTunnel{}, proxy.Servers{}, func(types.NamespacedName) proxy.Identity {
			return proxy.Identity{}
		})
		must(t, c.Start(t.Context()))
		defer func() { c.Stop(); synctest.Wait() }()
		way := func(namespace string) string {
			t.Helper()
			way, err := door.Version(types.NamespacedName{Namespace: namespace, Name: "demo"})
			must(t, err)
			return way
		}
		if got := way("a"); got != "tunnel/c-m-1" {
			t.Errorf("the path is %q", got)
		}
		must(t, api.Add(claim("b", "c-m-1")))
		time.Sleep(time.Second)
		if a, b := way("a"), way("b"); a != "" || b != "" {
			t.Errorf("for two Clusters with one management cluster, the paths are %q and %q", a, b)
		}
	})
}

func claim(namespace, id string) *provv1.Cluster {
	return &provv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
		Status:     provv1.ClusterStatus{ClusterName: id},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
