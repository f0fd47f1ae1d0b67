package agent

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generated/controllers/core"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/reach/connect"
	"github.com/drover-io/drover/tests/contract/plane"
)

// machines records the identity of machines, which is unique. The tests use nothing else of the client.
type machines struct{ capicontrollers.MachineClient }

func (machines) List(string, metav1.ListOptions) (*clusterv1.MachineList, error) {
	return &clusterv1.MachineList{}, nil
}

func (machines) Patch(string, string, types.PatchType, []byte, ...string) (*clusterv1.Machine, error) {
	return &clusterv1.Machine{}, nil
}

// bootstraps accepts patches.
type bootstraps struct {
	rkecontrollers.RKEBootstrapClient
}

// Patch implements the client.
func (bootstraps) Patch(string, string, types.PatchType, []byte, ...string) (*rkev1.RKEBootstrap, error) {
	return &rkev1.RKEBootstrap{}, nil
}

// TestConnect_FromTokenToAppliedPlan takes a machine through the server's endpoints. It exchanges its bootstrap token
// for a connection. With that, the agent reads, watches and updates its plan Secret through the passthrough.
func TestConnect_FromTokenToAppliedPlan(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	server := m.serveEndpoints()
	m.label()
	bootstrapToken := m.bootstrapAccount()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v3/connect/agent", http.NoBody)
	m.must(err)
	request.Header.Set("X-Cattle-Id", "0123456789abcdef")
	request.Header.Set("Authorization", "Bearer "+naming.TokenHash(bootstrapToken))
	var connection []byte
	deadline := time.Now().Add(soon)
	for {
		response, err := server.Client().Do(request)
		m.must(err)
		connection, err = io.ReadAll(response.Body)
		response.Body.Close()
		m.must(err)
		if response.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %d: %s", response.StatusCode, connection)
		}
		m.pause(100 * time.Millisecond)
	}
	m.must(os.WriteFile(m.path("connection.json"), connection, 0o600))

	m.start()
	m.deliver(m.run("a", "echo through the server"))
	s := m.awaitApplied()
	if string(s.Output["a"]) != "through the server\n" || m.ended() != 0 {
		t.Errorf("output %q, the agent ended %d times", s.Output, m.ended())
	}
	// A second plan arrives through the watch without delay.
	start := time.Now()
	m.deliver(m.run("b", "true"))
	m.awaitApplied()
	if took := time.Since(start); took > 3*time.Second && ours() {
		t.Errorf("the second plan took %v, so watch events are delayed", took)
	}
	if bytes.Contains(connection, []byte(bootstrapToken)) {
		t.Error("the bootstrap account's token left the server")
	}
}

// serveEndpoints starts the endpoints on the plane's API server. Machine and RKEBootstrap are fakes, the rest is real.
func (m *machine) serveEndpoints() *httptest.Server {
	m.t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	m.t.Cleanup(func() {
		m.stop(syscall.SIGTERM) // otherwise closing waits for the end of the agent's watch
		server.Close()
	})
	log := logrus.New()
	log.SetOutput(m.log)
	config := plane.Config(m.t, "endpoints")
	factory, err := core.NewFactoryFromConfig(config)
	m.must(err)
	secrets, accounts := factory.Core().V1().Secret(), factory.Core().V1().ServiceAccount()
	owned := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	boots := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	m.must(owned.Add(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "m",
		UID: "machine-uid", ResourceVersion: "1"}}))
	m.must(boots.Add(&rkev1.RKEBootstrap{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.namespace, Name: "b", UID: "boot-uid",
		OwnerReferences: []metav1.OwnerReference{{Kind: "Machine", Name: "m", UID: "machine-uid"}},
	}}))
	handler, err := connect.New(connect.Options{
		ServerURL:   server.URL,
		CACerts:     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		Upstream:    config,
		SecretCache: secrets.Cache(), SecretClient: secrets, ServiceAccountCache: accounts.Cache(),
		MachineClient:   machines{},
		MachineCache:    generic.NewCache[*clusterv1.Machine](owned, schema.GroupResource{Resource: "machines"}),
		BootstrapClient: bootstraps{}, BootstrapCache: generic.NewCache[*rkev1.RKEBootstrap](boots,
			schema.GroupResource{Resource: "rkebootstraps"}),
		Log: log,
	})
	m.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.t.Context()))
	m.t.Cleanup(cancel)
	m.must(factory.Sync(ctx))
	server.Config.Handler = handler
	return server
}

// label sets the labels of the bootstrap controller on the machine's plan account.
func (m *machine) label() {
	m.t.Helper()
	account, err := m.client.CoreV1().ServiceAccounts(m.namespace).Get(m.t.Context(), secretName, metav1.GetOptions{})
	m.must(err)
	account.Labels = map[string]string{
		rkev1.ServiceAccountRoleLabel: rkev1.ServiceAccountRolePlan, rkev1.MachineNameLabel: "m",
		rkev1.PlanSecretNameLabel: secretName,
	}
	account.OwnerReferences = bootstrapOwner()
	_, err = m.client.CoreV1().ServiceAccounts(m.namespace).Update(m.t.Context(), account, metav1.UpdateOptions{})
	m.must(err)
}

func bootstrapOwner() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "rke.cattle.io/v1", Kind: "RKEBootstrap", Name: "b", UID: "boot-uid"}}
}

// bootstrapAccount creates the account that a machine uses for its first request, and returns its token once the token
// controller has created it.
func (m *machine) bootstrapAccount() string {
	m.t.Helper()
	meta := metav1.ObjectMeta{Namespace: m.namespace, Name: "b-machine-bootstrap", OwnerReferences: bootstrapOwner(),
		Labels: map[string]string{
			rkev1.ServiceAccountRoleLabel: rkev1.ServiceAccountRoleBootstrap, rkev1.MachineNameLabel: "m",
		}}
	_, err := m.client.CoreV1().ServiceAccounts(m.namespace).Create(m.t.Context(),
		&corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	m.must(err)
	_, err = m.client.CoreV1().Secrets(m.namespace).Create(m.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "b-machine-bootstrap-token",
			Annotations: map[string]string{
				corev1.ServiceAccountNameKey: meta.Name, rkev1.BootstrapTokenAnnotation: "true",
			}},
		Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	m.must(err)
	var token []byte
	deadline := time.Now().Add(soon)
	for len(token) == 0 {
		secret, err := m.client.CoreV1().Secrets(m.namespace).Get(m.t.Context(), "b-machine-bootstrap-token",
			metav1.GetOptions{})
		m.must(err)
		token = secret.Data[corev1.ServiceAccountTokenKey]
		if time.Now().After(deadline) {
			m.t.Fatal("the token controller creates no token")
		}
		m.pause(50 * time.Millisecond)
	}
	return string(token)
}
