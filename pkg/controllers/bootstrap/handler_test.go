package bootstrap

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"github.com/sirupsen/logrus"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

var (
	noon           = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)
	errUnavailable = errors.New("the API server fails")
)

// fakes holds the handler; stores are the contents of the caches, and mocks replace the clients.
type fakes struct {
	handler
	stores  map[string]cache.Indexer
	secrets *fake.MockControllerInterface[*corev1.Secret, *corev1.SecretList]
	boots   *fake.MockControllerInterface[*rkev1.RKEBootstrap, *rkev1.RKEBootstrapList]
	apply   *applier
}

// applier counts its calls and returns err.
type applier struct {
	err     error
	applied int
	objects []runtime.Object
}

func (*applier) Watch(...schema.GroupVersionKind) error { return nil }

func (a *applier) Apply(_ context.Context, _ string, _ runtime.Object, _ applyset.OwnerRefs,
	_ []schema.GroupVersionKind,
	objs []runtime.Object,
) (applyset.Result, error) {
	a.applied++
	a.objects = objs
	return applyset.Result{}, a.err
}

func newFakes(t *testing.T) *fakes {
	t.Helper()
	control := gomock.NewController(t)
	f := &fakes{
		stores: map[string]cache.Indexer{}, apply: &applier{},
		secrets: fake.NewMockControllerInterface[*corev1.Secret, *corev1.SecretList](control),
		boots:   fake.NewMockControllerInterface[*rkev1.RKEBootstrap, *rkev1.RKEBootstrapList](control),
	}
	store := func(kind string) cache.Indexer {
		f.stores[kind] = cache.NewIndexer(cache.MetaNamespaceKeyFunc,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		return f.stores[kind]
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	f.handler = handler{
		ctx: t.Context(), written: ownwrites.New(),
		Deps: Deps{
			Secrets: f.secrets, Bootstraps: f.boots, Apply: f.apply, InstanceID: "me", Log: log, Now: func() time.Time {
				return noon
			},
			Settings: Settings{ServerURL: "https://drover.example.org", LinuxInstaller: "echo install\n",
				ReusedTTL: time.Minute},
		},
		machines: generic.NewCache[*clusterv1.Machine](store("machines"),
			schema.GroupResource{Resource: "machines"}),
		capiClusters: generic.NewCache[*clusterv1.Cluster](store("capi"),
			schema.GroupResource{Resource: "clusters"}),
		clusters: generic.NewCache[*provv1.Cluster](store("clusters"),
			schema.GroupResource{Resource: "clusters"}),
		controlPlanes: generic.NewCache[*rkev1.RKEControlPlane](store("planes"),
			schema.GroupResource{Resource: "rkecontrolplanes"}),
		secrets: generic.NewCache[*corev1.Secret](store("secrets"), schema.GroupResource{Resource: "secrets"}),
		serviceAccounts: generic.NewCache[*corev1.ServiceAccount](store("accounts"),
			schema.GroupResource{Resource: "serviceaccounts"}),
	}
	f.add(t, "machines", &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "m-uid"},
		Spec: clusterv1.MachineSpec{ClusterName: "demo",
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io",
				Kind: "PodMachine", Name: "m"}},
	})
	f.add(t, "capi", &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"},
		Spec: clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: "demo",
		}},
		Status: clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{
			InfrastructureProvisioned: new(true)}},
	})
	f.add(t, "planes", &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}})
	return f
}

func (f *fakes) add(t *testing.T, kind string, obj any) {
	t.Helper()
	if err := f.stores[kind].Add(obj); err != nil {
		t.Fatal(err)
	}
}

func boot() *rkev1.RKEBootstrap {
	return &rkev1.RKEBootstrap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "b", UID: "b-uid", ResourceVersion: "1",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine",
				Name: "m", UID: "m-uid"}},
		},
		Spec: rkev1.RKEBootstrapSpec{ClusterName: "demo"},
	}
}

func account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b-machine-bootstrap",
		UID: "sa-uid"}}
}

func planSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b-machine-plan",
		Labels: map[string]string{
			rkev1.MachineNameLabel: "m", rkev1.ClusterNameLabel: "demo", rkev1.BackupLabel: "true",
			rkev1.PlanMachineGroupLabel: "cluster.x-k8s.io", rkev1.PlanMachineKindLabel: "Machine",
			rkev1.PlanMachineNameLabel:  "m",
			rkev1.PlanClusterGroupLabel: "cluster.x-k8s.io", rkev1.PlanClusterKindLabel: "Cluster",
			rkev1.PlanClusterNameLabel: "demo",
		}}}
}

// token returns the Secret of the bootstrap account's token, for an account with that UID.
func token(uid, value string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "b-machine-bootstrap-token", Labels: map[string]string{rkev1.MachineNameLabel: "m",
				rkev1.BootstrapNameLabel: "b"},
			Annotations: map[string]string{rkev1.BootstrapTokenAnnotation: "true",
				corev1.ServiceAccountUIDKey: uid},
			CreationTimestamp: metav1.Time{Time: noon},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	if value != "" {
		secret.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte(value)}
	}
	return secret
}

// TestOnChange_OneWriteAtATime: each reconcile makes what the caches show as missing, in an order in which the process
// may stop after every step.
func TestOnChange_OneWriteAtATime(t *testing.T) {
	cases := map[string]struct {
		secrets  []*corev1.Secret
		account  bool
		want     string // name of the created Secret
		wantDone bool
	}{
		"no object exists":               {want: "b-machine-plan"},
		"the account does not exist yet": {secrets: []*corev1.Secret{planSecret()}},
		"the account exists": {secrets: []*corev1.Secret{planSecret()}, account: true,
			want: "b-machine-bootstrap-token"},
		"the token is empty": {secrets: []*corev1.Secret{planSecret(), token("sa-uid", "")},
			account: true},
		"the token has no UID of the account yet": {secrets: []*corev1.Secret{planSecret(), token("", "")},
			account: true},
		"the token belongs to a former account": {secrets: []*corev1.Secret{planSecret(),
			token("old-uid", "secret-token")}, account: true},
		"the token exists": {secrets: []*corev1.Secret{planSecret(),
			token("sa-uid", "secret-token")}, account: true, want: "b-machine-bootstrap", wantDone: true},
		"all objects exist, but the status is empty": {secrets: []*corev1.Secret{planSecret(),
			token("sa-uid", "secret-token"),
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b-machine-bootstrap"}}}, account: true,
			wantDone: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			for _, secret := range c.secrets {
				f.add(t, "secrets", secret)
			}
			if c.account {
				f.add(t, "accounts", account())
			}
			var made []string
			f.secrets.EXPECT().Create(gomock.Any()).DoAndReturn(func(s *corev1.Secret) (*corev1.Secret, error) {
				made = append(made, s.Name)
				if strings.Contains(string(s.Data["value"]), "secret-token") {
					t.Error("the account's token is in the data")
				}
				return s, nil
			}).AnyTimes()
			done := false
			f.boots.EXPECT().UpdateStatus(gomock.Any()).DoAndReturn(func(b *rkev1.RKEBootstrap) (*rkev1.RKEBootstrap,
				error) {
				done = *b.Status.Initialization.DataSecretCreated && *b.Status.DataSecretName == "b-machine-bootstrap"
				return b, nil
			}).MaxTimes(1)
			if _, err := f.onChange("", boot()); err != nil {
				t.Fatal(err)
			}
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			if !slices.Equal(made, want) || done != c.wantDone || f.apply.applied != 1 {
				t.Errorf("made %v, want %v; done %v; applied %d times", made, want, done, f.apply.applied)
			}
		})
	}
}

// TestOnChange_RetriesErrors: every refused write returns an error that names the object and nothing secret.
func TestOnChange_RetriesErrors(t *testing.T) {
	full := []*corev1.Secret{planSecret(), token("sa-uid", "secret-token")}
	cases := map[string]struct {
		secrets []*corev1.Secret
		fail    func(f *fakes)
		want    string
	}{
		"accounts": {fail: func(f *fakes) { f.apply.err = errUnavailable }, want: errUnavailable.Error()},
		"plan Secret": {
			fail: func(f *fakes) {
				f.secrets.EXPECT().Create(gomock.Any()).Return(nil,
					errUnavailable).Times(2)
			}, want: "create Secret ns/b-machine-plan",
		},
		"token": {
			secrets: full[:1], fail: func(f *fakes) {
				f.secrets.EXPECT().Create(gomock.Any()).Return(nil, errUnavailable).Times(2)
			},
			want: "create Secret ns/b-machine-bootstrap-token",
		},
		"data": {
			secrets: full, fail: func(f *fakes) {
				f.secrets.EXPECT().Create(gomock.Any()).Return(nil, errUnavailable).Times(2)
			},
			want: "create Secret ns/b-machine-bootstrap",
		},
		"status": {
			secrets: full, want: "write status of RKEBootstrap ns/b",
			fail: func(f *fakes) {
				f.secrets.EXPECT().Create(gomock.Any()).Return(nil, nil)
				f.boots.EXPECT().EnqueueAfter("ns", "b", ownwrites.BelievedAfter).AnyTimes()
				f.boots.EXPECT().UpdateStatus(gomock.Any()).Return(nil, errUnavailable).Times(2)
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			for _, secret := range c.secrets {
				f.add(t, "secrets", secret)
			}
			f.add(t, "accounts", account())
			c.fail(f)
			for range 2 { // the second run is the retry
				_, err := f.onChange("", boot())
				if err == nil || !errors.Is(err, errUnavailable) || !strings.Contains(err.Error(), c.want) ||
					strings.Contains(err.Error(), "secret-token") {
					t.Fatalf("error is %v, want one with %q", err, c.want)
				}
			}
		})
	}
}

// TestOnChange_RepeatsNoWriteOfItsOwn: an event before the cache shows a new object writes nothing, and a later
// retry covers a deleted object.
func TestOnChange_RepeatsNoWriteOfItsOwn(t *testing.T) {
	f := newFakes(t)
	f.secrets.EXPECT().Create(gomock.Any()).Return(nil, nil).Times(1)
	f.boots.EXPECT().EnqueueAfter("ns", "b", ownwrites.BelievedAfter).Times(1)
	for range 2 {
		if _, err := f.onChange("", boot()); err != nil {
			t.Fatal(err)
		}
	}
	f.Now = func() time.Time { return noon.Add(ownwrites.BelievedAfter) }
	f.secrets.EXPECT().Create(gomock.Any()).Return(nil,
		apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, "b-machine-plan")).Times(1)
	if _, err := f.onChange("", boot()); err != nil {
		t.Fatalf("a Secret that already exists: %v", err)
	}
}

func TestOnToken_Writes(t *testing.T) {
	used := func(s *corev1.Secret, at string) *corev1.Secret {
		s.Annotations[rkev1.LastAccessAnnotation] = at
		return s
	}
	cases := map[string]struct {
		secret *corev1.Secret
		silent bool // its agent has not reported
		mark   string
		err    error
		want   time.Duration // timer
		over   bool
	}{
		"never used": {secret: token("u", "t")},
		"used": {secret: used(token("u", "t"), noon.Add(-20*time.Second).Format(time.RFC3339)),
			want: 40 * time.Second},
		"used long ago": {secret: used(token("u", "t"), noon.Add(-time.Minute).Format(time.RFC3339)), over: true},
		"used, and the agent has not reported": {
			secret: used(token("u", "t"), noon.Add(-time.Hour).Format(time.RFC3339)), silent: true,
		},
		"conflict":            {secret: used(token("u", "t"), "never"), over: true, err: errUnavailable},
		"of another instance": {secret: used(token("u", "t"), "never"), mark: "them"},
		"already invalidated": {secret: func() *corev1.Secret {
			s := token("u", "t")
			s.Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] = "true"
			return s
		}()},
		"another Secret": {secret: planSecret()},
		"without a machine": {secret: func() *corev1.Secret {
			s := used(token("u", "t"), "never")
			s.Labels = nil
			return s
		}()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			plan := planSecret()
			if !c.silent {
				plan.Data = map[string][]byte{nodeplan.KeyFailedChecksum: []byte("sum")}
			}
			f.add(t, "secrets", plan)
			if c.mark != "" {
				f.add(t, "clusters", &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: "demo", Annotations: map[string]string{rkev1.InstanceAnnotation: c.mark},
				}})
			}
			if c.want > 0 {
				f.secrets.EXPECT().EnqueueAfter("ns", c.secret.Name, c.want)
			}
			if c.over {
				f.secrets.EXPECT().Update(gomock.Any()).DoAndReturn(func(s *corev1.Secret) (*corev1.Secret, error) {
					if s.Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] != "true" || len(s.Data) == 0 {
						t.Errorf("the written Secret has annotations %v and %d keys", s.Annotations, len(s.Data))
					}
					return s, c.err
				})
			}
			if _, err := f.onToken("", c.secret); !errors.Is(err, c.err) {
				t.Errorf("error is %v, want %v", err, c.err)
			}
			if c.over && c.secret.Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] != "" {
				t.Error("the cached object has changed")
			}
		})
	}
}

func TestHandlers_DeletedObjects(t *testing.T) {
	f := newFakes(t)
	if _, err := f.onChange("ns/b", nil); err != nil {
		t.Error(err)
	}
	if _, err := f.onHook("ns/b", nil); err != nil {
		t.Error(err)
	}
	if _, err := f.onToken("ns/b", nil); err != nil {
		t.Error(err)
	}
}
