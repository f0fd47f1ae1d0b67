package connect

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"github.com/sirupsen/logrus"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

const (
	bootstrapJWT = "jwt-of-the-bootstrap-account"
	planJWT      = "jwt-of-the-plan-account"
	otherJWT     = "jwt-of-another-machines-plan-account"
	someID       = "abcdef0123456789"
)

// world is the environment of the endpoints: caches with objects, mocked clients, and an API server that records
// requests.
type world struct {
	t        *testing.T
	options  Options
	secrets  cache.Indexer
	accounts cache.Indexer
	machines cache.Indexer
	boots    cache.Indexer

	secretClient  *fake.MockClientInterface[*corev1.Secret, *corev1.SecretList]
	machineClient *fake.MockClientInterface[*clusterv1.Machine, *clusterv1.MachineList]
	bootClient    *fake.MockClientInterface[*rkev1.RKEBootstrap, *rkev1.RKEBootstrapList]

	// elsewhere are other machines with the identity that no cache shows.
	elsewhere []clusterv1.Machine

	log *bytes.Buffer
	// body is what the API server answers.
	body string

	mu       sync.Mutex
	upstream []*http.Request
}

func indexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// newWorld has machine m of namespace ns with both accounts and their tokens, and the plan account of machine other.
func newWorld(t *testing.T) *world {
	t.Helper()
	control := gomock.NewController(t)
	w := &world{
		t: t, secrets: indexer(), accounts: indexer(), machines: indexer(), boots: indexer(), log: &bytes.Buffer{},
		body:          "from the API server",
		secretClient:  fake.NewMockClientInterface[*corev1.Secret, *corev1.SecretList](control),
		machineClient: fake.NewMockClientInterface[*clusterv1.Machine, *clusterv1.MachineList](control),
		bootClient:    fake.NewMockClientInterface[*rkev1.RKEBootstrap, *rkev1.RKEBootstrapList](control),
	}
	api := httptest.NewTLSServer(http.HandlerFunc(w.serveAPI))
	t.Cleanup(api.Close)
	log := logrus.New()
	log.SetOutput(w.log)
	log.SetLevel(logrus.DebugLevel)
	w.options = Options{
		ServerURL: "https://drover.example.com",
		CACerts:   []byte("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"), Log: log,
		Upstream: &rest.Config{
			Host: api.URL, BearerToken: "the-servers-own-credential",
			TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(api)},
		},
		SecretCache: generic.NewCache[*corev1.Secret](w.secrets, schema.GroupResource{Resource: "secrets"}),
		ServiceAccountCache: generic.NewCache[*corev1.ServiceAccount](w.accounts,
			schema.GroupResource{Resource: "serviceaccounts"}),
		MachineCache:   generic.NewCache[*clusterv1.Machine](w.machines, schema.GroupResource{Resource: "machines"}),
		BootstrapCache: generic.NewCache[*rkev1.RKEBootstrap](w.boots, schema.GroupResource{Resource: "rkebootstraps"}),
		SecretClient:   w.secretClient, MachineClient: w.machineClient, BootstrapClient: w.bootClient,
		Now: func() time.Time { return noon }, Wait: 2 * time.Second,
	}
	// The API server lists the machine itself, and machines that another replica has just admitted.
	w.machineClient.EXPECT().List("", gomock.Any()).AnyTimes().DoAndReturn(
		func(_ string, opts metav1.ListOptions) (*clusterv1.MachineList, error) {
			if !strings.HasPrefix(opts.LabelSelector, rkev1.MachineIDLabel+"=") {
				t.Errorf("list of machines with %q", opts.LabelSelector)
			}
			return &clusterv1.MachineList{Items: append([]clusterv1.Machine{{ObjectMeta: meta("m", "machine-uid")}},
				w.elsewhere...)}, nil
		})
	w.add(w.machines, &clusterv1.Machine{ObjectMeta: meta("m", "machine-uid")})
	boot := &rkev1.RKEBootstrap{ObjectMeta: meta("b", "boot-uid")}
	boot.OwnerReferences = owners("Machine", "m", "machine-uid")
	boot.Annotations = map[string]string{rkev1.AgentCredentialAnnotation: AgentCredential("boot-uid", planJWT)}
	w.add(w.boots, boot)
	w.addAccount("b-machine-bootstrap", rkev1.ServiceAccountRoleBootstrap, "m", bootstrapJWT)
	w.addAccount("b-machine-plan", rkev1.ServiceAccountRolePlan, "m", planJWT)
	w.addPlan("b-machine-plan", "boot-uid")
	w.addAccount("o-machine-plan", rkev1.ServiceAccountRolePlan, "other", otherJWT)
	return w
}

func meta(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: "7"}
}

func owners(kind, name, uid string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(uid)}}
}

func (w *world) add(to cache.Indexer, obj runtime.Object) {
	w.t.Helper()
	if err := to.Add(obj); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) addAccount(name, role, machine, token string) {
	account := &corev1.ServiceAccount{ObjectMeta: meta(name, name+"-uid")}
	account.Labels = map[string]string{rkev1.ServiceAccountRoleLabel: role, rkev1.MachineNameLabel: machine}
	if role == rkev1.ServiceAccountRolePlan {
		account.Labels[rkev1.PlanSecretNameLabel] = name
	}
	account.OwnerReferences = owners("RKEBootstrap", "b", "boot-uid")
	w.add(w.accounts, account)
	w.add(w.secrets, tokenSecret(account, token))
}

// addPlan adds the plan Secret of RKEBootstrap b.
func (w *world) addPlan(name, bootstrap string) {
	plan := &corev1.Secret{ObjectMeta: meta(name, name+"-secret-uid"), Type: rkev1.SecretTypeMachinePlan}
	plan.OwnerReferences = owners("RKEBootstrap", "b", bootstrap)
	plan.OwnerReferences[0].Controller = new(true)
	w.add(w.secrets, plan)
}

// addMachine adds a machine with its own bootstrap object and account.
func (w *world) addMachine(name, token string) {
	w.t.Helper()
	w.add(w.machines, &clusterv1.Machine{ObjectMeta: meta(name, name+"-uid")})
	boot := &rkev1.RKEBootstrap{ObjectMeta: meta(name, name+"-boot-uid")}
	boot.OwnerReferences = owners("Machine", name, name+"-uid")
	w.add(w.boots, boot)
	w.addAccount(name+"-machine-bootstrap", rkev1.ServiceAccountRoleBootstrap, name, token)
	change(w, w.accounts, name+"-machine-bootstrap", func(a *corev1.ServiceAccount) {
		a.OwnerReferences = owners("RKEBootstrap", name, name+"-boot-uid")
	})
}

// bound gives a machine a recorded identity.
func (w *world) bound(machine, id string) {
	w.t.Helper()
	change(w, w.machines, machine, func(m *clusterv1.Machine) {
		m.Labels = map[string]string{rkev1.MachineIDLabel: id}
	})
}

func tokenSecret(account *corev1.ServiceAccount, token string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: meta(account.Name+"-token", account.Name+"-token-uid"),
		Type: corev1.SecretTypeServiceAccountToken}
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: account.Name,
		corev1.ServiceAccountUIDKey: string(account.UID)}
	if account.Labels[rkev1.ServiceAccountRoleLabel] == rkev1.ServiceAccountRoleBootstrap {
		secret.Annotations[rkev1.BootstrapTokenAnnotation] = "true"
	}
	secret.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token)}
	return secret
}

// change replaces an object of a cache with a changed copy.
func change[T interface {
	runtime.Object
	DeepCopy() T
}](w *world, in cache.Indexer, name string, f func(T)) {
	w.t.Helper()
	obj, ok, err := in.GetByKey("ns/" + name)
	if err != nil || !ok {
		w.t.Fatalf("no object %s: %v", name, err)
	}
	changed := obj.(T).DeepCopy()
	f(changed)
	if err := in.Update(changed); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) serveAPI(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.upstream = append(w.upstream, r)
	rw.Header().Set("X-Api-Server", "yes")
	if strings.HasPrefix(w.body, "{") {
		rw.Header().Set("Content-Type", "application/json")
	}
	_, _ = rw.Write([]byte(w.body))
}

// reached returns the requests that reached the API server.
func (w *world) reached() []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.upstream
}

// serve starts the endpoints. It returns their server and a client that sends requests unchanged.
func (w *world) serve() (*httptest.Server, *http.Client) {
	w.t.Helper()
	handler, err := New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewTLSServer(handler)
	w.t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return server, client
}

// answer is an answer without its body.
type answer struct {
	StatusCode int
	Header     http.Header
}

// ask sends a request with an exact path and query, and returns the answer and its body.
func ask(t *testing.T, server *httptest.Server, client *http.Client, method, target string,
	headers map[string]string) (answer, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(target, "?")
	base := strings.TrimPrefix(server.URL, "https://")
	request.URL = &url.URL{Scheme: "https", Host: base, Opaque: "//" + base + path, RawQuery: query}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{StatusCode: response.StatusCode, Header: response.Header}, string(body)
}

func with(headers map[string]string, more ...string) map[string]string {
	out := maps.Clone(headers)
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func decodeJSON(t *testing.T, body string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
}
