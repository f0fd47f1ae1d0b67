package cluster

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
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
	records.EXPECT().Get(gomock.Any(), gomock.Any()).DoAndReturn(func(name string, _ metav1.GetOptions) (*mgmtv3.Cluster, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.records[name], nil
	}).AnyTimes()
	writer := fake.NewMockControllerInterface[*provv1.Cluster, *provv1.ClusterList](ctrl)
	writer.EXPECT().UpdateStatus(gomock.Any()).DoAndReturn(func(c *provv1.Cluster) (*provv1.Cluster, error) {
		return c, o.refuse
	}).AnyTimes()
	o.handler = handler{
		Deps:       Deps{Clusters: writer, ManagementClusters: records, Namespaces: o.namespaces, Now: func() time.Time { return time.Unix(0, 0) }},
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

// TestIdentify_NamespaceOfSomebodyElse: an existing namespace must not become the cluster's, and be deleted with it.
func TestIdentify_NamespaceOfSomebodyElse(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.namespaces[claimed] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: claimed}}
	got, err := o.identify(asking("demo"))
	if err != nil || got.Status.ClusterName != "" || o.creates > 0 {
		t.Errorf("name %q, %d records made, error %v", got.Status.ClusterName, o.creates, err)
	}
	stalled := conditions.Get(got.Status.Conditions, provv1.ConditionStalled)
	if stalled == nil || stalled.Reason != reasonNameTaken {
		t.Errorf("the cluster says %+v", stalled)
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
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name, UID: "uid", Annotations: map[string]string{
			provv1.ManagementClusterNameAnnotation: claimed,
		}},
		Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}},
	}
}

// TestIdentify_TwoClustersAskForOneName: if two Clusters request one name at once, one gets it, and the other reports
// that and deletes nothing of the first when it is removed.
func TestIdentify_TwoClustersAskForOneName(t *testing.T) {
	t.Parallel()
	for range 50 {
		o := newOffice(t)
		var workers sync.WaitGroup
		ended := make([]*provv1.Cluster, 2)
		for i, name := range []string{"first", "second"} {
			workers.Go(func() {
				got, err := o.identify(asking(name))
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				ended[i] = got
			})
		}
		workers.Wait()
		winner, loser := ended[0], ended[1]
		if winner.Status.ClusterName == "" {
			winner, loser = loser, winner
		}
		if winner.Status.ClusterName != claimed || loser.Status.ClusterName != "" {
			t.Fatalf("names are %q and %q", winner.Status.ClusterName, loser.Status.ClusterName)
		}
		stalled := conditions.Get(loser.Status.Conditions, provv1.ConditionStalled)
		if stalled == nil || stalled.Reason != reasonNameTaken || !strings.Contains(stalled.Message, "remove the annotation or choose another name") {
			t.Errorf("the loser says %+v", stalled)
		}
		if got := o.records[claimed].Spec.DisplayName; got != winner.Name {
			t.Errorf("the record is of %q, the name of %q", got, winner.Name)
		}
	}
}

// TestIdentify_CutOffAfterTheClaim: the name stays the cluster's, whether or not the cache shows the management
// cluster.
func TestIdentify_CutOffAfterTheClaim(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]bool{"cache is behind": false, "cache shows it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.refuse = errors.New("cut off")
			if _, err := o.identify(asking("demo")); err == nil {
				t.Fatal("the write was not refused")
			}
			o.refuse = nil
			if seen {
				o.cached = o.records[claimed]
			}
			got, err := o.identify(asking("demo"))
			if err != nil || got.Status.ClusterName != claimed {
				t.Errorf("name %q, error %v", got.Status.ClusterName, err)
			}
			if seen && o.creates != 1 {
				t.Errorf("%d creates", o.creates)
			}
		})
	}
}

// TestIdentify_RecordMadeByHand: a management cluster without an owner is not adopted.
func TestIdentify_RecordMadeByHand(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.records[claimed] = &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: claimed}}
	got, err := o.identify(asking("demo"))
	if err != nil || got.Status.ClusterName != "" {
		t.Errorf("name %q, error %v", got.Status.ClusterName, err)
	}
	if err := o.claim(asking("demo"), claimed); outcome.AsStalled(err) == nil {
		t.Errorf("error is %v", err)
	}
}
