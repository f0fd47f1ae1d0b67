package capi

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// managerOf is a manager that has only the connection to an API server.
type managerOf struct {
	ctrl.Manager
	config *rest.Config
	client *http.Client
}

func (m managerOf) GetConfig() *rest.Config     { return m.config }
func (m managerOf) GetHTTPClient() *http.Client { return m.client }
func (managerOf) GetScheme() *runtime.Scheme    { return scheme.Scheme }

// TestAnnounce_EndsWithTheManager: Events of the core are stored, and all goroutines end with the manager.
func TestAnnounce_EndsWithTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := memkube.New(memkube.Options{Scheme: scheme.Scheme, Namespaces: []string{"fleet"}})
		config := api.Config("core")
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		manager, err := announce(managerOf{config: config, client: client})
		if err != nil {
			t.Fatal(err)
		}
		about := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "demo", UID: "u"}}
		manager.GetEventRecorderFor("machine-controller").Event(about, corev1.EventTypeNormal, "Created", "it is there")
		time.Sleep(time.Minute)
		if writes := api.Writes("core"); len(writes) != 1 || writes[0].Verb != "create" ||
			writes[0].Resource != "events" {
			t.Errorf("writes: %v", writes)
		}
		manager.broadcaster.Shutdown()
	})
}
