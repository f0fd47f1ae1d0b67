package connect

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// hostToken is a registration token for hosts of cluster c-m-1.
const hostToken = "node-now"

// withHosts adds a cluster that accepts hosts. Requests appear in the cache as the controller changed them.
func (w *world) withHosts(controller func(request *corev1.Secret)) {
	w.t.Helper()
	clusters := w.withRegistrations()
	w.add(w.secrets, crt("c-m-2", "hosts", registration.ForNode, "token", "others"))
	w.options.Registrations = NewRegistrations(RegistrationOptions{Secrets: w.options.SecretCache, Clusters: clusters,
		Now: w.options.Now, Log: w.options.Log})
	w.options.HostCluster = func(id string) (types.NamespacedName, bool) {
		return types.NamespacedName{Namespace: "ns", Name: "demo"}, id == "c-m-1"
	}
	resource := schema.GroupResource{Resource: "secrets"}
	store := generic.NewCache[*corev1.Secret](w.secrets, resource)
	written := func(request *corev1.Secret, uid types.UID) (*corev1.Secret, error) {
		stored := request.DeepCopy()
		stored.UID = uid
		seen := stored.DeepCopy()
		controller(seen)
		return stored, w.secrets.Add(seen)
	}
	w.secretClient.EXPECT().Create(gomock.Any()).AnyTimes().DoAndReturn(func(request *corev1.Secret) (*corev1.Secret,
		error) {
		if _, err := store.Get(request.Namespace, request.Name); err == nil {
			return nil, apierrors.NewAlreadyExists(resource, request.Name)
		}
		return written(request, "request-uid")
	})
	w.secretClient.EXPECT().Get("c-m-1", gomock.Any(), gomock.Any()).AnyTimes().DoAndReturn(func(namespace, name string,
		_ metav1.GetOptions) (*corev1.Secret, error) {
		return store.Get(namespace, name)
	})
	w.secretClient.EXPECT().Update(gomock.Any()).AnyTimes().DoAndReturn(func(request *corev1.Secret) (*corev1.Secret,
		error) {
		return written(request, request.UID)
	})
	w.secretClient.EXPECT().Delete("c-m-1", gomock.Any(), gomock.Any()).AnyTimes().DoAndReturn(
		func(namespace, name string, options *metav1.DeleteOptions) error {
			found, err := store.Get(namespace, name)
			if err != nil {
				return err
			}
			if options.Preconditions == nil || *options.Preconditions.UID != found.UID {
				w.t.Errorf("delete of %s with %v", name, options.Preconditions)
			}
			return w.secrets.Delete(found)
		})
}

// hostHeaders are the headers of a host with all roles.
func hostHeaders() map[string]string {
	return map[string]string{
		"Authorization": "Bearer " + hostToken, idHeader: someID, "X-Cattle-Role-Etcd": "true",
		"X-Cattle-Role-Control-Plane": "true",
		"X-Cattle-Role-Worker":        "true", "X-Cattle-Labels": "cattle.io/os=linux,site=north",
	}
}

// becomes makes machine m the host's machine, as the controller does.
func (w *world) becomes(request *corev1.Secret) {
	change(w, w.machines, "m", func(m *clusterv1.Machine) {
		m.Labels = map[string]string{rkev1.MachineIDLabel: someID}
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.SchemeGroupVersion.Group,
			Kind: "CustomMachine", Name: "m"}
		m.Spec.Bootstrap.ConfigRef.Name, m.Spec.ClusterName = "b", "demo"
	})
	answerWith(request, registration.Answer{Namespace: "ns", Name: "m"})
}

func answerWith(request *corev1.Secret, answer registration.Answer) {
	registration.WithAnswer(request, &answer).DeepCopyInto(request)
}

func (w *world) requests() (found []*corev1.Secret) {
	for _, object := range w.secrets.List() {
		if secret := object.(*corev1.Secret); secret.Type == rkev1.SecretTypeMachineRequest {
			found = append(found, secret)
		}
	}
	return found
}

// A host with a cluster's token becomes one of its machines and gets that machine's connection.
func TestConnectAgent_AHostRegisters(t *testing.T) {
	w := newWorld(t)
	var asked *corev1.Secret
	w.withHosts(func(request *corev1.Secret) { asked = request.DeepCopy(); w.becomes(request) })
	server, client := w.serve()
	response, body := ask(t, server, client, http.MethodGet, agentPath, hostHeaders())
	var got map[string]string
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", response.StatusCode, body)
	}
	decodeJSON(t, body, &got)
	if got["namespace"] != "ns" || got["secretName"] != "b-machine-plan" ||
		!strings.Contains(got["kubeConfig"], planJWT) {
		t.Errorf("connection %v", got)
	}
	if asked.Namespace != "c-m-1" || asked.Name != naming.MachineRequest(naming.MachineRequestCustom, someID) ||
		asked.Type != rkev1.SecretTypeMachineRequest {
		t.Errorf("request %s/%s of type %s", asked.Namespace, asked.Name, asked.Type)
	}
	want := `{"id":["` + someID +
		`"],"labels":["cattle.io/os=linux,site=north"],"role-control-plane":["true"],"role-etcd":["true"],"role-worker":["true"]}`
	if said := string(asked.Data[rkev1.MachineRequestDataKey]); said != want {
		t.Errorf("the request contains %s, want %s", said, want)
	}
	if left := w.requests(); len(left) > 0 {
		t.Errorf("%d requests remain", len(left))
	}
	for _, secret := range []string{hostToken, planJWT} {
		if strings.Contains(w.log.String(), secret) {
			t.Error("a token is in the log")
		}
	}
}

func TestConnectAgent_RefusesAHost(t *testing.T) {
	for name, tc := range map[string]struct {
		headers    map[string]string
		controller func(*world, *corev1.Secret)
		code       int
		says       string
		left       int
	}{
		"without a role": {
			headers: with(hostHeaders(), "X-Cattle-Role-Etcd", "false", "X-Cattle-Role-Control-Plane", "false",
				"X-Cattle-Role-Worker", ""),
			code: http.StatusBadRequest, says: "a role is missing",
		},
		"with an invalid label": {headers: with(hostHeaders(), "X-Cattle-Labels", "a b=c"), code: http.StatusBadRequest,
			says: `--label "a b=c" must be KEY=VALUE`},
		"with too many labels": {headers: with(hostHeaders(), "X-Cattle-Labels", strings.Repeat("a=b,", 1<<14)),
			code: http.StatusRequestHeaderFieldsTooLarge, says: "must have at most"},
		"by the controller": {
			headers: hostHeaders(), controller: func(_ *world, request *corev1.Secret) {
				answerWith(request, registration.Answer{Refusal: "this cluster was imported"})
			},
			code: http.StatusForbidden, says: "this cluster was imported", left: 1,
		},
		"when the answer names a machine of another cluster": {
			headers: hostHeaders(), controller: func(w *world, request *corev1.Secret) {
				w.becomes(request)
				change(w, w.machines, "m", func(m *clusterv1.Machine) { m.Spec.ClusterName = "other" })
			},
			code: http.StatusConflict, says: "belongs to another host", left: 1,
		},
		"with the token of a cluster of another manager": {headers: with(hostHeaders(), "Authorization",
			"Bearer others"), code: http.StatusForbidden, says: "does not manage"},
		"without an answer": {
			headers: hostHeaders(), controller: func(*world,
				*corev1.Secret) {
			}, code: http.StatusServiceUnavailable, says: "does not exist yet", left: 1,
		},
		"when the machine has another identity": {
			headers: hostHeaders(), controller: func(w *world, request *corev1.Secret) {
				w.becomes(request)
				w.bound("m", "another")
			},
			code: http.StatusConflict, says: "belongs to another host", left: 1,
		},
		"when Drover created the machine": {
			headers: hostHeaders(), controller: func(w *world, request *corev1.Secret) {
				w.bound("m", someID)
				answerWith(request, registration.Answer{Namespace: "ns", Name: "m"})
			},
			code: http.StatusConflict, says: "belongs to another host", left: 1,
		},
		"when the machine is being deleted": {
			headers: hostHeaders(), controller: func(w *world, request *corev1.Secret) {
				w.becomes(request)
				change(w, w.machines, "m", func(m *clusterv1.Machine) {
					m.DeletionTimestamp = &metav1.Time{Time: noon}
				})
			},
			code: http.StatusForbidden, says: "being deleted", left: 1,
		},
		"with the token of an agent": {headers: with(hostHeaders(), "Authorization",
			"Bearer agent-now"), code: http.StatusUnauthorized},
		"with the token of a cluster that is being deleted": {headers: with(hostHeaders(), "Authorization",
			"Bearer going"), code: http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Wait = 300 * 1e6
			w.withHosts(func(request *corev1.Secret) { tc.controller(w, request) })
			server, client := w.serve()
			response, body := ask(t, server, client, http.MethodGet, agentPath, tc.headers)
			if response.StatusCode != tc.code || !strings.Contains(body, tc.says) {
				t.Errorf("status %d: %s; want %d, %q", response.StatusCode, body, tc.code, tc.says)
			}
			if left := w.requests(); len(left) != tc.left {
				t.Errorf("%d requests remain, want %d", len(left), tc.left)
			}
		})
	}
}

// A repeated request with corrected flags gets a new answer.
func TestConnectAgent_AHostChangesItsRequest(t *testing.T) {
	w := newWorld(t)
	tries := 0
	w.withHosts(func(request *corev1.Secret) {
		if tries++; tries > 1 {
			w.becomes(request)
		}
	})
	w.options.Wait = 300 * 1e6
	server, client := w.serve()
	if response, body := ask(t, server, client, http.MethodGet, agentPath,
		hostHeaders()); response.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("status %d: %s", response.StatusCode, body)
	}
	left := w.requests()[0].DeepCopy()
	answerWith(left, registration.Answer{Refusal: "not like this"})
	w.add(w.secrets, left)
	if response, body := ask(t, server, client, http.MethodGet, agentPath,
		with(hostHeaders(), "X-Cattle-Node-Name", "edge-1")); response.StatusCode != http.StatusOK {
		t.Errorf("status %d: %s", response.StatusCode, body)
	}
}

// Invalid flags do not stop a host that is already a machine.
func TestConnectAgent_AKnownHostMayHaveInvalidFlags(t *testing.T) {
	w := newWorld(t)
	w.withHosts(w.becomes)
	server, client := w.serve()
	worse := with(hostHeaders(), "X-Cattle-Labels", "a b=c")
	if response, body := ask(t, server, client, http.MethodGet, agentPath,
		worse); response.StatusCode != http.StatusBadRequest {
		t.Errorf("unknown: status %d: %s", response.StatusCode, body)
	}
	for _, headers := range []map[string]string{hostHeaders(), worse} {
		if response, body := ask(t, server, client, http.MethodGet, agentPath,
			headers); response.StatusCode != http.StatusOK {
			t.Errorf("status %d: %s", response.StatusCode, body)
		}
	}
}
