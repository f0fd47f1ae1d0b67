package connect

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

func pemOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func hello() map[string]string {
	return map[string]string{"Authorization": "Bearer " + naming.TokenHash(bootstrapJWT), idHeader: someID}
}

// expectIntroduction expects the two writes of a first connection.
func (w *world) expectIntroduction() {
	w.machineClient.EXPECT().Patch("ns", "m", types.MergePatchType, gomock.Any()).DoAndReturn(
		func(_, _ string, _ types.PatchType, patch []byte, _ ...string) (*clusterv1.Machine, error) {
			want := `{"metadata":{"labels":{"rke.cattle.io/machine-id":"` + someID + `"},"resourceVersion":"7"}}`
			if string(patch) != want {
				w.t.Errorf("patch of the machine = %s, want %s", patch, want)
			}
			return &clusterv1.Machine{}, nil
		})
	w.expectUse()
}

func (w *world) expectUse() {
	w.secretClient.EXPECT().Patch("ns", "b-machine-bootstrap-token", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"rke.cattle.io/last-access-timestamp":"2026-11-21T12:00:00Z"}}}`)).Return(
		&corev1.Secret{}, nil)
}

func TestConnectAgent_FirstConnection(t *testing.T) {
	w := newWorld(t)
	w.expectIntroduction()
	server, client := w.serve()
	response, body := ask(t, server, client, http.MethodGet, agentPath, hello())
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/json" ||
		response.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("status %d, headers %v, body %s", response.StatusCode, response.Header, body)
	}
	var got map[string]string
	decodeJSON(t, body, &got)
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(got["kubeConfig"]))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://drover.example.com" || cfg.BearerToken != planJWT ||
		!strings.HasSuffix(string(cfg.CAData), "-----END CERTIFICATE-----\n") {
		t.Errorf("kubeconfig = %s", got["kubeConfig"])
	}
	delete(got, "kubeConfig")
	if diff := cmp.Diff(map[string]string{"namespace": "ns", "secretName": "b-machine-plan",
		"machineUID": "machine-uid"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, secret := range []string{bootstrapJWT, planJWT, naming.TokenHash(bootstrapJWT)} {
		if strings.Contains(w.log.String(), secret) {
			t.Error("a token is in the log")
		}
	}
}

func TestConnectAgent_WithoutServerURLUsesTheHostHeader(t *testing.T) {
	w := newWorld(t)
	w.options.ServerURL = ""
	w.expectIntroduction()
	server, client := w.serve()
	_, body := ask(t, server, client, http.MethodGet, agentPath, hello())
	var got connectionInfo
	decodeJSON(t, body, &got)
	if cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(got.KubeConfig)); err != nil || cfg.Host != server.URL {
		t.Errorf("kubeconfig = %s, %v", got.KubeConfig, err)
	}
}

func TestConnectAgent_Refusals(t *testing.T) {
	deleting := func(m *metav1.ObjectMeta) {
		now := metav1.NewTime(noon)
		m.DeletionTimestamp, m.Finalizers = &now, []string{"x"}
	}
	tests := map[string]struct {
		headers    map[string]string
		method     string
		prepare    func(*world)
		wantStatus int
		wantBody   string
	}{
		"no identity": {headers: with(hello(), idHeader, ""), wantStatus: 401},
		"identity that is not a valid label value": {headers: with(hello(), idHeader, "a/b"), wantStatus: 400,
			wantBody: "X-Cattle-Id"},
		"identity that is too long": {headers: with(hello(), idHeader, strings.Repeat("a", 64)), wantStatus: 400},
		"no token":                  {headers: with(hello(), "Authorization", ""), wantStatus: 401},
		"unknown token":             {headers: with(hello(), "Authorization", "Bearer nonsense"), wantStatus: 401},
		"the account's token itself": {headers: with(hello(), "Authorization", "Bearer "+bootstrapJWT),
			wantStatus: 401},
		"a plan token": {headers: with(hello(), "Authorization", "Bearer "+planJWT), wantStatus: 401},
		"the digest of a plan token": {headers: with(hello(), "Authorization", "Bearer "+naming.TokenHash(planJWT)),
			wantStatus: 401},
		"basic authentication": {headers: with(hello(), "Authorization", "Basic "+naming.TokenHash(bootstrapJWT)),
			wantStatus: 401},
		"another method": {method: http.MethodPost, wantStatus: 405},
		"caches that are not synced": {prepare: func(w *world) {
			w.options.Synced = func() bool {
				return false
			}
		}, wantStatus: 503},
		"token was invalidated": {prepare: func(w *world) {
			change(w, w.secrets, "b-machine-bootstrap-token", func(s *corev1.Secret) {
				s.Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] = "true"
			})
		}, wantStatus: 401},
		"account was recreated": {prepare: func(w *world) {
			change(w, w.accounts, "b-machine-bootstrap", func(a *corev1.ServiceAccount) { a.UID = "new" })
		}, wantStatus: 401},
		"account has another role": {prepare: func(w *world) {
			change(w, w.accounts, "b-machine-bootstrap", func(a *corev1.ServiceAccount) {
				a.Labels[rkev1.ServiceAccountRoleLabel] = "plan"
			})
		}, wantStatus: 401},
		"account names another machine": {prepare: func(w *world) {
			change(w, w.accounts, "b-machine-bootstrap", func(a *corev1.ServiceAccount) {
				a.Labels[rkev1.MachineNameLabel] = "other"
			})
		}, wantStatus: 401},
		"bootstrap was recreated": {prepare: func(w *world) {
			change(w, w.boots, "b", func(b *rkev1.RKEBootstrap) { b.UID = "new" })
		}, wantStatus: 401},
		"bootstrap without machine": {prepare: func(w *world) {
			change(w, w.boots, "b", func(b *rkev1.RKEBootstrap) { b.OwnerReferences = nil })
		}, wantStatus: 401},
		"machine was recreated": {prepare: func(w *world) {
			change(w, w.machines, "m", func(m *clusterv1.Machine) { m.UID = "new" })
		}, wantStatus: 401},
		"machine is being deleted": {prepare: func(w *world) {
			change(w, w.machines, "m", func(m *clusterv1.Machine) { deleting(&m.ObjectMeta) })
		}, wantStatus: 403, wantBody: "being deleted"},
		"machine has another identity": {prepare: func(w *world) { w.bound("m", "first") }, wantStatus: 409,
			wantBody: "another identity"},
		"machine is a node with another identity": {prepare: func(w *world) {
			w.bound("m", "first")
			change(w, w.machines, "m", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "node" })
		}, wantStatus: 409, wantBody: "another identity"},
		"two identities at once": {prepare: func(w *world) {
			w.machineClient.EXPECT().Patch("ns", "m", gomock.Any(), gomock.Any()).Return(nil,
				apierrors.NewConflict(schema.GroupResource{}, "m", nil))
		}, wantStatus: 503},
		"another identity long after": {prepare: func(w *world) {
			w.bound("m", "first")
			change(w, w.secrets, "b-machine-bootstrap-token", func(s *corev1.Secret) {
				s.Annotations[rkev1.LastAccessAnnotation] = noon.Add(-2 * time.Hour).Format(time.RFC3339)
			})
		}, wantStatus: 409, wantBody: "another identity"},
		"API server fails: the answer has no details": {prepare: func(w *world) {
			w.machineClient.EXPECT().Patch("ns", "m", gomock.Any(), gomock.Any()).Return(nil,
				apierrors.NewInternalError(http.ErrBodyNotAllowed))
		}, wantStatus: 500, wantBody: "see its log"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.prepare != nil {
				tc.prepare(w)
			}
			if tc.headers == nil {
				tc.headers = hello()
			}
			if tc.method == "" {
				tc.method = http.MethodGet
			}
			server, client := w.serve()
			response, body := ask(t, server, client, tc.method, agentPath, tc.headers)
			if response.StatusCode != tc.wantStatus || !strings.Contains(body, tc.wantBody) {
				t.Errorf("status %d, body %q; want %d, %q", response.StatusCode, body, tc.wantStatus, tc.wantBody)
			}
			if response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "5" {
				t.Error("503 must have Retry-After")
			}
			if strings.Contains(body, planJWT) {
				t.Error("the answer contains the plan token")
			}
		})
	}
}

// TestConnectAgent_FirstIdentityIsPermanent: another identity with the same token is refused without a write, until the
// label is removed.
func TestConnectAgent_FirstIdentityIsPermanent(t *testing.T) {
	w := newWorld(t)
	w.expectIntroduction()
	server, client := w.serve()
	if response, body := ask(t, server, client, http.MethodGet, agentPath,
		hello()); response.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %s", response.StatusCode, body)
	}
	w.bound("m", someID)
	response, body := ask(t, server, client, http.MethodGet, agentPath, with(hello(), idHeader, "another-owner"))
	if response.StatusCode != http.StatusConflict || !strings.Contains(body, "another identity") ||
		!strings.Contains(body, rkev1.MachineIDLabel) {
		t.Errorf("another identity is answered with %d, %q", response.StatusCode, body)
	}
	if strings.Contains(body, someID) {
		t.Error("the answer reveals the identity")
	}
	change(w, w.machines, "m", func(m *clusterv1.Machine) { m.Labels = nil })
	w.machineClient.EXPECT().Patch("ns", "m", types.MergePatchType, gomock.Any()).Return(&clusterv1.Machine{}, nil)
	w.expectUse()
	if response, body := ask(t, server, client, http.MethodGet, agentPath,
		with(hello(), idHeader, "another-owner")); response.StatusCode != http.StatusOK {
		t.Errorf("without the label: status %d, %s", response.StatusCode, body)
	}
}

func TestConnectAgent_IdentityOfAnotherMachine(t *testing.T) {
	otherCluster := func(m *clusterv1.Machine) { m.Namespace, m.Spec.ClusterName = "elsewhere", "other" }
	for name, change := range map[string]func(*clusterv1.Machine){
		"of the same cluster": func(*clusterv1.Machine) {},
		"of another cluster":  otherCluster,
		"that is a node":      func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "node" },
		"that is being deleted, and whose agent may still run": func(m *clusterv1.Machine) {
			now := metav1.NewTime(noon)
			m.DeletionTimestamp, m.Finalizers = &now, []string{"x"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			other := &clusterv1.Machine{ObjectMeta: meta("o", "other-uid")}
			other.Labels = map[string]string{rkev1.MachineIDLabel: someID}
			change(other)
			w.add(w.machines, other)
			server, client := w.serve()
			response, body := ask(t, server, client, http.MethodGet, agentPath, hello())
			if response.StatusCode != http.StatusConflict ||
				!strings.Contains(body, "another machine has this identity") {
				t.Errorf("status %d, %q", response.StatusCode, body)
			}
			if err := w.machines.Delete(other); err != nil {
				t.Fatal(err)
			}
			w.expectIntroduction()
			if response, body := ask(t, server, client, http.MethodGet, agentPath,
				hello()); response.StatusCode != http.StatusOK {
				t.Errorf("after its deletion: status %d, %s", response.StatusCode, body)
			}
		})
	}
}

// TestConnectAgent_MachinesOfOneDisk: a duplicate identity is refused even before the caches show the first one.
func TestConnectAgent_MachinesOfOneDisk(t *testing.T) {
	w := newWorld(t)
	w.addMachine("twin", "jwt-of-the-twin")
	w.expectIntroduction()
	server, client := w.serve()
	twin := with(hello(), "Authorization", "Bearer "+naming.TokenHash("jwt-of-the-twin"))
	for _, c := range []struct {
		headers map[string]string
		want    int
	}{{hello(), http.StatusOK}, {twin, http.StatusConflict}} {
		if response, body := ask(t, server, client, http.MethodGet, agentPath,
			c.headers); response.StatusCode != c.want {
			t.Errorf("status %d, %s; want %d", response.StatusCode, body, c.want)
		}
	}
}

func TestClaims(t *testing.T) {
	var c claims
	for i, step := range []struct {
		id   string
		by   types.UID
		at   time.Time
		want bool
	}{
		{"a", "one", noon, true},
		{"a", "one", noon.Add(time.Second), true},
		{"b", "one", noon.Add(time.Second), true},
		{"a", "two", noon.Add(time.Minute), false},
		{"a", "two", noon.Add(time.Minute + time.Second), true}, // by now the caches show recorded identities
		{"a", "one", noon.Add(time.Minute + time.Second), false},
	} {
		if got := c.claim(step.id, step.by, step.at); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	if len(c.held) != 1 {
		t.Errorf("%d claims are remembered, want one", len(c.held))
	}
}

// TestConnectAgent_TwoReplicasAtOnce: of two machines cloned from one disk, the later one finds the other at the API
// server, gives up the identity and is refused.
func TestConnectAgent_TwoReplicasAtOnce(t *testing.T) {
	for name, bound := range map[string]bool{"at the first request": false,
		"after a replica that stopped before its check": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.elsewhere = []clusterv1.Machine{{ObjectMeta: meta("clone", "clone-uid")}}
			var patches []string
			times := 2
			if bound {
				w.bound("m", someID)
				times = 1
			}
			w.machineClient.EXPECT().Patch("ns", "m", types.MergePatchType, gomock.Any()).Times(times).DoAndReturn(
				func(_, _ string, _ types.PatchType, patch []byte, _ ...string) (*clusterv1.Machine, error) {
					patches = append(patches, string(patch))
					return &clusterv1.Machine{}, nil
				})
			server, client := w.serve()
			response, body := ask(t, server, client, http.MethodGet, agentPath, hello())
			if response.StatusCode != http.StatusConflict ||
				!strings.Contains(body, "another machine has this identity") {
				t.Errorf("status %d, %s", response.StatusCode, body)
			}
			if last := patches[len(patches)-1]; last != `{"metadata":{"labels":{"rke.cattle.io/machine-id":null}}}` {
				t.Errorf("last patch of the machine is %s", last)
			}
		})
	}
}

func TestConnectAgent_SameIdentityMayReconnect(t *testing.T) {
	for name, tc := range map[string]struct {
		lastUse time.Duration
		write   bool
	}{"shortly afterwards nothing is written": {lastUse: 10 * time.Second},
		"later the use is recorded": {lastUse: 10 * time.Minute, write: true},
		"it took too long":          {lastUse: 26 * time.Hour, write: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.bound("m", someID)
			change(w, w.secrets, "b-machine-bootstrap-token", func(s *corev1.Secret) {
				s.Annotations[rkev1.LastAccessAnnotation] = noon.Add(-tc.lastUse).Format(time.RFC3339)
			})
			if tc.write {
				w.expectUse()
			}
			server, client := w.serve()
			if response, body := ask(t, server, client, http.MethodGet, agentPath,
				hello()); response.StatusCode != http.StatusOK {
				t.Errorf("status %d, %s", response.StatusCode, body)
			}
		})
	}
}

func TestConnectAgent_CreatesThePlanTokenAndWaits(t *testing.T) {
	w := newWorld(t)
	w.expectIntroduction()
	obj, _, err := w.secrets.GetByKey("ns/b-machine-plan-token")
	if err != nil {
		t.Fatal(err)
	}
	filled := obj.(*corev1.Secret)
	if err := w.secrets.Delete(filled); err != nil {
		t.Fatal(err)
	}
	w.secretClient.EXPECT().Create(gomock.Any()).DoAndReturn(func(s *corev1.Secret) (*corev1.Secret, error) {
		want := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "b-machine-plan-token",
				Labels:      map[string]string{"cattle.io/service-account.name": "b-machine-plan"},
				Annotations: map[string]string{corev1.ServiceAccountNameKey: "b-machine-plan"},
			},
			Type: corev1.SecretTypeServiceAccountToken,
		}
		got := s.DeepCopy()
		got.OwnerReferences = nil
		if diff := cmp.Diff(want, got); diff != "" || len(s.OwnerReferences) != 1 ||
			s.OwnerReferences[0].UID != "b-machine-plan-uid" {
			t.Errorf("owners %v (-want +got):\n%s", s.OwnerReferences, diff)
		}
		// The token controller fills it a little later.
		time.AfterFunc(150*time.Millisecond, func() { _ = w.secrets.Add(filled) })
		return s, nil
	})
	server, client := w.serve()
	if response, body := ask(t, server, client, http.MethodGet, agentPath,
		hello()); response.StatusCode != http.StatusOK || !strings.Contains(body, planJWT) {
		t.Errorf("status %d, %s", response.StatusCode, body)
	}
}

func TestConnectAgent_PlanAccountIsMissing(t *testing.T) {
	w := newWorld(t)
	w.options.Wait = 150 * time.Millisecond
	w.expectIntroduction()
	change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) {
		a.OwnerReferences[0].UID = "bootstrap of a former machine"
	})
	server, client := w.serve()
	response, body := ask(t, server, client, http.MethodGet, agentPath, hello())
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "plan account") {
		t.Errorf("status %d, %s", response.StatusCode, body)
	}
}

func TestNew_RefusesInvalidOptions(t *testing.T) {
	for name, spoil := range map[string]func(*Options){
		"plain http":    func(o *Options) { o.ServerURL = "http://drover.example.com" },
		"no URL":        func(o *Options) { o.ServerURL = "drover" },
		"no API server": func(o *Options) { o.Upstream = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spoil(&w.options)
			if _, err := New(w.options); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestConnectionInfo_WireForm(t *testing.T) {
	data, err := json.Marshal(connectionInfo{KubeConfig: "a", Namespace: "b", SecretName: "c"})
	if err != nil || string(data) != `{"kubeConfig":"a","namespace":"b","secretName":"c"}` {
		t.Errorf("%s, %v", data, err)
	}
}
