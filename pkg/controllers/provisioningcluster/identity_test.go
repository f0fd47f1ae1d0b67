package provisioningcluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

const claimed = "c-m-wanted22"

// office is an API server with management clusters, and caches that never show later writes.
type office struct {
	namespaces namespaces
	mu         sync.Mutex
	records    map[string]*mgmtv3.Cluster
	creates    int
	// cached is the management cluster in the cache, nil if the cache lacks it.
	cached *mgmtv3.Cluster
	// refuse fails the next write of a Cluster's status.
	refuse error
	handler
}

func newOffice(t *testing.T) *office {
	t.Helper()
	ctrl := gomock.NewController(t)
	o := &office{namespaces: namespaces{}, records: map[string]*mgmtv3.Cluster{}}
	management := fake.NewMockNonNamespacedCacheInterface[*mgmtv3.Cluster](ctrl)
	management.EXPECT().Get(gomock.Any()).DoAndReturn(func(name string) (*mgmtv3.Cluster, error) {
		if o.cached == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
		}
		return o.cached, nil
	}).AnyTimes()
	clusters := fake.NewMockCacheInterface[*provv1.Cluster](ctrl)
	clusters.EXPECT().GetByIndex(provv1.IndexByCluster, gomock.Any()).Return(nil, nil).AnyTimes()
	records := fake.NewMockNonNamespacedControllerInterface[*mgmtv3.Cluster, *mgmtv3.ClusterList](ctrl)
	records.EXPECT().Create(gomock.Any()).DoAndReturn(o.create).AnyTimes()
	records.EXPECT().Get(gomock.Any(),
		gomock.Any()).DoAndReturn(func(name string, _ metav1.GetOptions) (*mgmtv3.Cluster, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.records[name], nil
	}).AnyTimes()
	writer := fake.NewMockControllerInterface[*provv1.Cluster, *provv1.ClusterList](ctrl)
	writer.EXPECT().UpdateStatus(gomock.Any()).DoAndReturn(func(c *provv1.Cluster) (*provv1.Cluster, error) {
		return c, o.refuse
	}).AnyTimes()
	o.handler = handler{
		Deps: Deps{InstanceID: instance, Clusters: writer, ManagementClusters: records, Namespaces: o.namespaces,
			Now: func() time.Time { return time.Unix(0, 0) }},
		management: management, clusters: clusters,
	}
	return o
}

// namespaces holds the existing namespaces.
type namespaces map[string]*corev1.Namespace

func (n namespaces) Get(name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	if found := n[name]; found != nil {
		return found, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
}

// TestName_NamespaceOfSomebodyElse: an existing namespace must not become the cluster's, and be deleted with it.
func TestName_NamespaceOfSomebodyElse(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.namespaces[claimed] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: claimed}}
	_, err := o.name(asking("demo"), nil)
	if stalled := outcome.AsStalled(err); stalled == nil || stalled.Reason != reasonNameTaken || o.creates > 0 {
		t.Errorf("%d records made, error %v", o.creates, err)
	}
}

func (o *office) create(record *mgmtv3.Cluster) (*mgmtv3.Cluster, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.creates++
	if o.records[record.Name] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{}, record.Name)
	}
	o.records[record.Name] = record
	return record, nil
}

func asking(name string) *provv1.Cluster {
	return &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name, UID: "uid",
			Annotations: map[string]string{
				provv1.ManagementClusterNameAnnotation: claimed,
			}},
		Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}},
	}
}

// TestName_TwoClustersAskForOneName: if two Clusters request one name at once, one gets it, and the other reports
// that and deletes nothing of the first when it is removed.
func TestName_TwoClustersAskForOneName(t *testing.T) {
	t.Parallel()
	for range 50 {
		o := newOffice(t)
		var workers sync.WaitGroup
		ended, errs := make([]*provv1.Cluster, 2), make([]error, 2)
		for i, name := range []string{"first", "second"} {
			workers.Go(func() { ended[i], errs[i] = o.name(asking(name), nil) })
		}
		workers.Wait()
		winner, refused := ended[0], errs[1]
		if winner == nil {
			winner, refused = ended[1], errs[0]
		}
		if winner == nil || winner.Status.ClusterName != claimed {
			t.Fatalf("the winner is %+v, errors %v", winner, errs)
		}
		stalled := outcome.AsStalled(refused)
		if stalled == nil || stalled.Reason != reasonNameTaken ||
			!strings.Contains(stalled.Message, "remove the annotation or choose another name") {
			t.Errorf("the loser says %v", refused)
		}
		if got := o.records[claimed].Spec.DisplayName; got != winner.Name {
			t.Errorf("the record is of %q, the name of %q", got, winner.Name)
		}
	}
}

// TestName_CutOffAfterTheClaim: the name stays the cluster's, whether or not the cache shows the management
// cluster.
func TestName_CutOffAfterTheClaim(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]bool{"cache is behind": false, "cache shows it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.refuse = errors.New("cut off")
			if _, err := o.name(asking("demo"), nil); err == nil {
				t.Fatal("the write was not refused")
			}
			o.refuse = nil
			if seen {
				o.cached = o.records[claimed]
			}
			got, err := o.name(asking("demo"), nil)
			if err != nil || got.Status.ClusterName != claimed {
				t.Errorf("cluster %+v, error %v", got, err)
			}
			if seen && o.creates != 1 {
				t.Errorf("%d creates", o.creates)
			}
		})
	}
}

// TestName_RecordMadeByHand: a management cluster without an owner is not adopted.
func TestName_RecordMadeByHand(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.records[claimed] = &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: claimed}}
	if _, err := o.name(asking("demo"), nil); outcome.AsStalled(err) == nil {
		t.Errorf("error is %v", err)
	}
}

func TestChooseName(t *testing.T) {
	t.Parallel()
	tokens := func(names ...string) func() (string, error) {
		return func() (string, error) {
			if len(names) == 0 {
				return "", errors.New("no more randomness")
			}
			next := names[0]
			names = names[1:]
			return next, nil
		}
	}
	cases := map[string]struct {
		asked   string
		moved   string
		tokens  func() (string, error)
		want    string
		stalled bool
		failed  bool
	}{
		"drawn":                            {tokens: tokens("q5wzxk7dbcd"), want: "c-m-q5wzxk7d"},
		"drawn again when taken":           {tokens: tokens("takenbym", "takenbyp", "q5wzxk7d"), want: "c-m-q5wzxk7d"},
		"nothing can be drawn":             {tokens: tokens(), failed: true},
		"always taken":                     {tokens: func() (string, error) { return "takenbym", nil }, failed: true},
		"moved here with a name":           {moved: "c-m-wanted22", tokens: tokens("q5wzxk7d"), want: "c-m-wanted22"},
		"moved here, name of another":      {moved: "c-m-takenbyp", stalled: true},
		"asked for":                        {asked: "c-m-wanted22", want: "c-m-wanted22"},
		"asked for what a cluster has":     {asked: "c-m-takenbyp", stalled: true},
		"asked for what a record has":      {asked: "c-m-takenbym", stalled: true},
		"asked for what cannot be a name":  {asked: "c-m-Not a name", stalled: true},
		"asked for a system namespace":     {asked: "kube-system", stalled: true},
		"asked for credentials' namespace": {asked: "cattle-global-data", stalled: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctrl := gomock.NewController(t)
			management := fake.NewMockNonNamespacedCacheInterface[*mgmtv3.Cluster](ctrl)
			management.EXPECT().Get(gomock.Any()).DoAndReturn(func(name string) (*mgmtv3.Cluster, error) {
				if name == "c-m-takenbym" {
					return &mgmtv3.Cluster{}, nil
				}
				return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
			}).AnyTimes()
			clusters := fake.NewMockCacheInterface[*provv1.Cluster](ctrl)
			clusters.EXPECT().GetByIndex(provv1.IndexByCluster,
				gomock.Any()).DoAndReturn(func(_, name string) ([]*provv1.Cluster, error) {
				if name == "c-m-takenbyp" {
					return []*provv1.Cluster{{}}, nil
				}
				return nil, nil
			}).AnyTimes()
			records := fake.NewMockNonNamespacedControllerInterface[*mgmtv3.Cluster, *mgmtv3.ClusterList](ctrl)
			records.EXPECT().Create(gomock.Any()).DoAndReturn(func(made *mgmtv3.Cluster) (*mgmtv3.Cluster, error) {
				return made, nil
			}).AnyTimes()
			var plane *rkev1.RKEControlPlane
			if c.moved != "" {
				plane = &rkev1.RKEControlPlane{Spec: rkev1.RKEControlPlaneSpec{ManagementClusterName: c.moved}}
			}
			h := &handler{
				Deps:       Deps{Token: c.tokens, ManagementClusters: records, Namespaces: namespaces{}},
				management: management, clusters: clusters,
			}
			cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}
			if c.asked != "" {
				cluster.Annotations = map[string]string{provv1.ManagementClusterNameAnnotation: c.asked}
			}
			got, err := h.chooseName(cluster, plane)
			if err != nil {
				got = ""
			}
			if got != c.want || (outcome.AsStalled(err) != nil) != c.stalled ||
				(err != nil) != (c.stalled || c.failed) {
				t.Errorf("name %q, error %v", got, err)
			}
		})
	}
}

func TestRandomToken(t *testing.T) {
	t.Parallel()
	first, err := randomToken()
	if err != nil {
		t.Fatal(err)
	}
	second, err := randomToken()
	if err != nil || first == second || len(first) != naming.RandomTokenLength {
		t.Errorf("%q and %q, error %v", first, second, err)
	}
	for _, letter := range first {
		if !strings.ContainsRune(naming.RandomTokenAlphabet, letter) {
			t.Errorf("%q has %q", first, letter)
		}
	}
}

// sets records what is applied and purged, in order.
type sets struct{ done []string }

func (s *sets) Watch(...schema.GroupVersionKind) error { return nil }

func (s *sets) Apply(_ context.Context, _ string, _ runtime.Object, _ applyset.OwnerRefs,
	kinds []schema.GroupVersionKind, objects []runtime.Object) (applyset.Result, error) {
	for _, object := range objects {
		record := object.(*mgmtv3.Cluster)
		s.done = append(s.done, "apply "+record.Name+" protect="+record.Annotations[rkev1.ProtectAnnotation])
	}
	if len(kinds) != 1 {
		s.done = append(s.done, "of other kinds")
	}
	return applyset.Result{}, nil
}

func (s *sets) PurgeLive(context.Context, string, schema.GroupVersionKind, string, string,
	[]schema.GroupVersionKind) error {
	s.done = append(s.done, "purge")
	return nil
}

func (s *sets) PurgeKept(context.Context, string, schema.GroupVersionKind, string, string,
	[]schema.GroupVersionKind) error {
	return nil
}

// The copied protection of earlier releases is removed from the management cluster, where it would refuse the removal.
func TestRemoveIdentity_TakesTheCopyOfTheProtectionOff(t *testing.T) {
	t.Parallel()
	protected := map[string]string{rkev1.ProtectAnnotation: "true"}
	for name, tc := range map[string]struct {
		management metav1.ObjectMeta
		want       []string
	}{
		"a copy": {metav1.ObjectMeta{Annotations: protected},
			[]string{"apply " + claimed + " protect=", "purge"}},
		"no copy": {metav1.ObjectMeta{}, []string{"purge"}},
		"one that goes already": {metav1.ObjectMeta{Annotations: protected, DeletionTimestamp: &metav1.Time{}},
			[]string{"purge"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, done := newOffice(t), &sets{}
			o.cached = &mgmtv3.Cluster{ObjectMeta: tc.management}
			o.Apply = done
			cluster := &provv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"},
				Status:     provv1.ClusterStatus{ClusterName: claimed},
			}
			if err := o.removeIdentity(cluster); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, done.done); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// anySet accepts every set.
type anySet struct{ sets }

func (s *anySet) Apply(
	context.Context, string, runtime.Object, applyset.OwnerRefs, []schema.GroupVersionKind, []runtime.Object,
) (applyset.Result, error) {
	s.done = append(s.done, "apply")
	return applyset.Result{}, nil
}

// A cluster that was moved without its status may have running machines, which need the management cluster.
func TestIdentify_OnHold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		controlPlane *rkev1.RKEControlPlane
		want         string
		wantDone     []string
	}{
		"a new cluster": {},
		"a moved cluster": {
			controlPlane: &rkev1.RKEControlPlane{Spec: rkev1.RKEControlPlaneSpec{ManagementClusterName: claimed}},
			want:         claimed, wantDone: []string{"apply"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, done := newOffice(t), &anySet{}
			o.Apply = done
			cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}
			got, err := o.identify(cluster, &Facts{controlPlane: tc.controlPlane}, decision{step: hold})
			if got.Status.ClusterName != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("the name is %q, want %q: %v", got.Status.ClusterName, tc.want, err)
			}
			if diff := cmp.Diff(tc.wantDone, done.done); diff != "" {
				t.Error(diff)
			}
		})
	}
}
