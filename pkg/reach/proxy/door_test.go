package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// agents are tunnels that answer immediately with the caller.
type agents struct {
	connected map[string]bool
	asked     []string
}

var errAway = errors.New("the agent is disconnected")

func (a *agents) Connected(id string) bool { return a.connected[id] }

func (a *agents) Transport(id string) (http.RoundTripper, error) {
	if !a.connected[id] {
		return nil, errAway
	}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		a.asked = append(a.asked, id+" "+r.Method+" "+r.URL.Path+" as "+r.Header.Get("Impersonate-User")+" of "+
			strings.Join(r.Header.Values("Impersonate-Group"), ","))
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(
				strings.NewReader(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"default"}}`)),
		}, nil
	}), nil
}

type noSecrets struct{}

func (noSecrets) Get(_, name string) (*corev1.Secret, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

// TestDoor: the tunnel is used once an agent has connected, even after it disconnects, and each request uses the
// current session.
func TestDoor(t *testing.T) {
	t.Parallel()
	demo := types.NamespacedName{Namespace: "n", Name: "demo"}
	tunnels, way := &agents{connected: map[string]bool{}}, Way{}
	door := NewDoor(NewClients(noSecrets{}, 0, Servers{}), tunnels, func(types.NamespacedName) Way { return way },
		func(cluster types.NamespacedName) Identity {
			return Identity{User: "drover:" + cluster.Name, Group: "admins"}
		})
	get := func() error {
		client, err := door.Client(t.Context(), demo)
		if err != nil {
			return err
		}
		_, err = client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		return err
	}
	expect := func(when, version string, want error, asked ...string) {
		t.Helper()
		tunnels.asked = nil
		if err := get(); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", when, err, want)
		}
		if diff := cmp.Diff(asked, tunnels.asked); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", when, diff)
		}
		if got, err := door.Version(demo); got != version || err != nil {
			t.Errorf("%s: version %q, error %v, want %q", when, got, err, version)
		}
	}
	request := " GET /api/v1/namespaces/default as drover:demo of admins"
	expect("there is no management cluster", "", ErrNotAvailable)
	way.ID = "c-m-1"
	expect("no agent has ever connected", "", ErrNotAvailable)
	tunnels.connected["c-m-1"] = true
	expect("the agent connects", "tunnel/c-m-1", nil, "c-m-1"+request)
	way.Agent = true
	tunnels.connected["c-m-1"] = false
	expect("the agent is disconnected", "tunnel/c-m-1", errAway)
	tunnels.connected["c-m-1"] = true
	expect("the agent reconnects", "tunnel/c-m-1", nil, "c-m-1"+request)
	way.ID, tunnels.connected["c-m-2"] = "c-m-2", true
	expect("the cluster was recreated", "tunnel/c-m-2", nil, "c-m-2"+request)
	config, err := door.RESTConfig(t.Context(), demo)
	if err != nil || config.Impersonate.UserName != "drover:demo" || config.BearerToken != "" {
		t.Errorf("configuration %v, error %v", config, err)
	}
	if idle, ok := config.Transport.(interface{ CloseIdleConnections() }); !ok {
		t.Error("an unknown transport was ended with an error")
	} else {
		idle.CloseIdleConnections()
	}
	door.Forget(demo)
	if len(door.known) != 0 {
		t.Error("a forgotten cluster is known")
	}
}
