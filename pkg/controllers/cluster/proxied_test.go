package cluster

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// proxiedWorld is a cluster with a connected agent, its Secrets, and the Secrets that the cache lacks.
type proxiedWorld struct {
	*handler
	seen    *Facts
	secrets map[string]*corev1.Secret
	unseen  map[string]bool
	writes  []string
	again   time.Duration
	// refused is the error of writes of kubeconfigs.
	refused error
}

func newProxiedWorld(t *testing.T) *proxiedWorld {
	t.Helper()
	ctrl := gomock.NewController(t)
	w := &proxiedWorld{secrets: map[string]*corev1.Secret{}, unseen: map[string]bool{}}
	get := func(name string, cached bool) (*corev1.Secret, error) {
		if secret := w.secrets[name]; secret != nil && (!cached || !w.unseen[name]) {
			return secret, nil
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	cache := fake.NewMockCacheInterface[*corev1.Secret](ctrl)
	cache.EXPECT().Get("drover-system", gomock.Any()).DoAndReturn(func(_, name string) (*corev1.Secret, error) {
		return get(name, true)
	}).AnyTimes()
	cache.EXPECT().List("drover-system",
		gomock.Any()).DoAndReturn(func(_ string, selector labels.Selector) ([]*corev1.Secret, error) {
		var found []*corev1.Secret
		for _, name := range slices.Sorted(maps.Keys(w.secrets)) {
			if selector.Matches(labels.Set(w.secrets[name].Labels)) && !w.unseen[name] {
				found = append(found, w.secrets[name])
			}
		}
		return found, nil
	}).AnyTimes()
	live := fake.NewMockControllerInterface[*corev1.Secret, *corev1.SecretList](ctrl)
	live.EXPECT().Get(gomock.Any(), gomock.Any(),
		gomock.Any()).DoAndReturn(func(_, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
		return get(name, false)
	}).AnyTimes()
	store := func(verb string) func(*corev1.Secret) (*corev1.Secret, error) {
		return func(secret *corev1.Secret) (*corev1.Secret, error) {
			kind := "token"
			if strings.HasSuffix(secret.Name, "-kubeconfig") {
				kind = "kubeconfig"
			}
			if kind == "kubeconfig" && w.refused != nil {
				return nil, w.refused
			}
			w.writes = append(w.writes, verb+" "+kind)
			w.secrets[secret.Name] = secret.DeepCopy()
			return secret, nil
		}
	}
	live.EXPECT().Create(gomock.Any()).DoAndReturn(store("create")).AnyTimes()
	live.EXPECT().Update(gomock.Any()).DoAndReturn(store("update")).AnyTimes()
	live.EXPECT().Delete("drover-system", gomock.Any(),
		gomock.Any()).DoAndReturn(func(_, name string, _ *metav1.DeleteOptions) error {
		w.writes = append(w.writes, "delete token")
		delete(w.secrets, name)
		return nil
	}).AnyTimes()
	clusters := fake.NewMockControllerInterface[*provv1.Cluster, *provv1.ClusterList](ctrl)
	clusters.EXPECT().EnqueueAfter("n", "demo", gomock.Any()).Do(func(_, _ string, after time.Duration) {
		w.again = after
	}).AnyTimes()
	w.handler = &handler{
		Deps: Deps{
			Clusters: clusters, Secrets: live, Endpoints: Endpoints{Server: "https://drover.example.com",
				Authority: []byte("authority\n")},
			TokenNamespace: "drover-system",
		},
		secrets: cache,
	}
	w.seen = &Facts{
		cluster:    &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo", UID: "u1"}},
		management: &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-1"}},
		link:       link{agent: true, connected: true}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	return w
}

func (w *proxiedWorld) reconcile(t *testing.T) []string {
	t.Helper()
	w.writes, w.again = nil, 0
	w.seen.kubeconfig = w.secrets["demo-kubeconfig"]
	if err := w.storeKubeconfig(w.seen); err != nil {
		t.Fatal(err)
	}
	return w.writes
}

// current returns the token in the kubeconfig and its Secret.
func (w *proxiedWorld) current(t *testing.T) (bearer string, token *corev1.Secret) {
	t.Helper()
	kubeconfig := w.secrets["demo-kubeconfig"]
	config, err := clientcmd.Load(kubeconfig.Data[proxy.KubeconfigKey])
	if err != nil {
		t.Fatal(err)
	}
	bearer, token = config.AuthInfos["user"].Token, w.secrets[kubeconfig.Annotations[rkev1.ProxyTokenAnnotation]]
	if bearer != string(kubeconfig.Data[proxy.TokenKey]) ||
		config.Clusters["cluster"].Server != "https://drover.example.com/k8s/clusters/c-m-1" {
		t.Errorf("the kubeconfig leads to %s, and its token differs from that of the Secret: %v",
			config.Clusters["cluster"].Server, bearer != string(kubeconfig.Data[proxy.TokenKey]))
	}
	return bearer, token
}

// TestProxied_LifeOfATokenInAKubeconfig: a token is created once, replaced before it expires, and deleted after it has
// expired.
func TestProxied_LifeOfATokenInAKubeconfig(t *testing.T) {
	t.Parallel()
	w := newProxiedWorld(t)
	expect := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, w.reconcile(t)); diff != "" {
			t.Errorf("%s, writes (-want +got):\n%s", when, diff)
		}
	}
	expect("the agent has come", "create token", "create kubeconfig")
	first, token := w.current(t)
	if until, ok := clusterproxy.Holds(token, first); !ok || until.Sub(w.seen.now) != tokenLifetime {
		t.Errorf("the token is good until %v (%v)", until, ok)
	}
	expect("nothing has changed")
	if w.again <= tokenLifetime/2 || w.again > tokenLifetime-tokenRenewal {
		t.Errorf("it is looked at again after %s", w.again)
	}
	w.seen.now = w.seen.now.Add(w.again)
	expect("the time of renewal has come", "create token", "update kubeconfig")
	second, _ := w.current(t)
	if _, good := clusterproxy.Holds(token, first); second == first || !good || w.secrets[token.Name] == nil {
		t.Error("the token before is not good any more, or is the same")
	}
	expect("it is renewed")
	w.seen.now = w.seen.now.Add(tokenLifetime - w.again)
	expect("the first has expired", "delete token")
	expect("nothing is left to remove")
}

// TestProxied_WhatDoesNotStandIsMadeAnew: an invalid kubeconfig or token is replaced, and a valid one is kept.
func TestProxied_WhatDoesNotStandIsMadeAnew(t *testing.T) {
	t.Parallel()
	replaced := []string{"create token", "update kubeconfig"}
	for name, c := range map[string]struct {
		happens func(w *proxiedWorld, token string)
		want    []string
	}{
		"a user revokes the token": {func(w *proxiedWorld, token string) { delete(w.secrets, token) },
			replaced},
		"the cache does not have the token yet": {func(w *proxiedWorld, token string) { w.unseen[token] = true }, nil},
		"a user deletes the kubeconfig": {func(w *proxiedWorld, _ string) {
			delete(w.secrets, "demo-kubeconfig")
		}, []string{"delete token", "create token", "create kubeconfig"}},
		"the server has another address": {func(w *proxiedWorld, _ string) {
			w.Endpoints.Server = "https://other.example.com"
		}, replaced},
		"the server has another authority": {func(w *proxiedWorld, _ string) {
			w.Endpoints.Authority = []byte("other")
		}, replaced},
		"another line break is no change": {func(w *proxiedWorld, _ string) {
			w.Endpoints.Authority = []byte("authority\n\n")
		}, nil},
		"a user writes another token there": {func(w *proxiedWorld, _ string) {
			w.edit(func(s string) string { return strings.ReplaceAll(s, "drover-token-", "drover-token-x") })
		}, replaced},
		"a user writes a program there": {func(w *proxiedWorld, _ string) {
			w.edit(func(s string) string {
				return strings.Replace(s, "    token:",
					"    exec: {command: x, apiVersion: client.authentication.k8s.io/v1}\n    token:", 1)
			})
		}, replaced},
		"a user writes nonsense there": {func(w *proxiedWorld, _ string) {
			w.edit(func(string) string { return "nonsense" })
		}, replaced},
		"the kubeconfig comes from a node": {func(w *proxiedWorld, _ string) {
			delete(w.secrets["demo-kubeconfig"].Annotations, rkev1.ProxyTokenAnnotation)
		}, replaced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newProxiedWorld(t)
			w.reconcile(t)
			_, token := w.current(t)
			c.happens(w, token.Name)
			if diff := cmp.Diff(c.want, w.reconcile(t)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if again := w.reconcile(t); len(again) > 0 && !w.unseen[token.Name] {
				t.Errorf("it is written again: %v", again)
			}
		})
	}
}

// TestProxied_TokensThatNobodyGetsAreNotLeftBehind: failed attempts leave no tokens, however many there are.
func TestProxied_TokensThatNobodyGetsAreNotLeftBehind(t *testing.T) {
	t.Parallel()
	kubeconfigs := schema.GroupResource{Resource: "secrets"}
	for name, c := range map[string]struct {
		refused error
		exists  bool
		fails   bool
	}{
		"the API server is away": {apierrors.NewInternalError(errors.New("away")), false, true},
		"another process has written it": {apierrors.NewConflict(kubeconfigs, "demo-kubeconfig",
			errors.New("changed")), true, false},
		"another process was faster to create": {apierrors.NewAlreadyExists(kubeconfigs, "demo-kubeconfig"), false,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newProxiedWorld(t)
			if c.exists {
				w.secrets["demo-kubeconfig"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n",
					Name: "demo-kubeconfig"}}
			}
			w.refused = c.refused
			for range 3 {
				w.seen.kubeconfig = w.secrets["demo-kubeconfig"]
				if err := w.storeKubeconfig(w.seen); (err != nil) != c.fails {
					t.Errorf("error %v", err)
				}
			}
			delete(w.secrets, "demo-kubeconfig")
			if len(w.secrets) > 0 {
				t.Errorf("%d tokens are left", len(w.secrets))
			}
		})
	}
}

// TestProxied_CacheBehindMakesNoToken: no token is created while the cache lacks the latest kubeconfig.
func TestProxied_CacheBehindMakesNoToken(t *testing.T) {
	t.Parallel()
	w := newProxiedWorld(t)
	w.reconcile(t)
	w.secrets["demo-kubeconfig"].ResourceVersion = "2"
	for name, behind := range map[string]*corev1.Secret{"not there": nil,
		"an older one": {ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}} {
		w.writes, w.seen.kubeconfig = nil, behind
		if err := w.storeKubeconfig(w.seen); err != nil || len(w.writes) > 0 {
			t.Errorf("%s: error %v, writes %v", name, err, w.writes)
		}
	}
}

func (w *proxiedWorld) edit(change func(string) string) {
	secret := w.secrets["demo-kubeconfig"].DeepCopy()
	secret.Data[proxy.KubeconfigKey] = []byte(change(string(secret.Data[proxy.KubeconfigKey])))
	w.secrets["demo-kubeconfig"] = secret
}
