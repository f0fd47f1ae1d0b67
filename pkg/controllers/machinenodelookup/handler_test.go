package machinenodelookup

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

type fakes struct {
	*handler
	bootstraps *fake.MockControllerInterface[*rkev1.RKEBootstrap, *rkev1.RKEBootstrapList]
	customs    *fake.MockControllerInterface[*rkev1.CustomMachine, *rkev1.CustomMachineList]
}

// newFakes has a ready registered host, in caches that never show writes.
func newFakes(t *testing.T, nodes ...runtime.Object) *fakes {
	t.Helper()
	control := gomock.NewController(t)
	f := &fakes{
		bootstraps: fake.NewMockControllerInterface[*rkev1.RKEBootstrap, *rkev1.RKEBootstrapList](control),
		customs:    fake.NewMockControllerInterface[*rkev1.CustomMachine, *rkev1.CustomMachineList](control),
	}
	machines, customs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil),
		cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	must(t, machines.Add(&clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: demo.Namespace, Name: "m", UID: "u1", CreationTimestamp: metav1.Now()},
		Spec: clusterv1.MachineSpec{ClusterName: demo.Name,
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: rkev1.SchemeGroupVersion.Group, Kind: "CustomMachine", Name: "m",
			}},
	}))
	must(t, customs.Add(&rkev1.CustomMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: demo.Namespace, Name: "m"},
		Status:     rkev1.CustomMachineStatus{Conditions: []rkev1.GenericCondition{{Type: "Ready", Status: "True"}}},
	}))
	secrets := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	must(t, secrets.Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: demo.Namespace, Name: "b-machine-plan"},
		Data:       map[string][]byte{"applied-checksum": []byte("x")},
	}))
	f.handler = &handler{
		secrets: generic.NewCache[*corev1.Secret](secrets, schema.GroupResource{Resource: "secrets"}),
		ctx:     t.Context(), Deps: Deps{Bootstraps: f.bootstraps, CustomMachines: f.customs, Log: quiet(),
			Now: time.Now},
		machines: generic.NewCache[*clusterv1.Machine](machines, schema.GroupResource{Resource: "machines"}),
		customMachines: generic.NewCache[*rkev1.CustomMachine](customs,
			schema.GroupResource{Resource: "custommachines"}),
		lookout: newLookout(newCloud(nodes...), time.Now, quiet()), written: ownwrites.New(),
	}
	return f
}

func boot() *rkev1.RKEBootstrap {
	return &rkev1.RKEBootstrap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: demo.Namespace, Name: "b",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine",
				Name: "m", UID: "u1"}},
		},
		Status: rkev1.RKEBootstrapStatus{
			DataSecretName: new("b-machine-bootstrap"),
			Initialization: rkev1.RKEBootstrapInitialization{DataSecretCreated: new(true)},
		},
	}
}

// TestOnChange_IgnoresAStaleCache: the node is written once, and the machine is requeued in case the write was
// lost.
func TestOnChange_IgnoresAStaleCache(t *testing.T) {
	f := newFakes(t, node("n1", "u1"))
	gomock.InOrder(
		f.customs.EXPECT().Patch(demo.Namespace, "m", types.MergePatchType, gomock.Any(), "status").Return(nil,
			nil).Times(1),
		f.customs.EXPECT().Patch(demo.Namespace, "m", types.MergePatchType,
			[]byte(`{"spec":{"providerID":"k3s://n1"}}`)).Return(nil, nil).Times(1),
	)
	f.bootstraps.EXPECT().EnqueueAfter(demo.Namespace, "b", gomock.Any()).Times(1)
	for range 2 {
		if _, err := f.onChange("", boot()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOnChange_ReturnsRefusedWrites: a refused write is an error, and is retried with the queue.
func TestOnChange_ReturnsRefusedWrites(t *testing.T) {
	f := newFakes(t, node("n1", "u1"))
	ill := errors.New("the API server fails")
	f.customs.EXPECT().Patch(demo.Namespace, "m", gomock.Any(), gomock.Any(), gomock.Any()).Return(nil, ill).Times(2)
	for range 2 {
		_, err := f.onChange("", boot())
		if !errors.Is(err, ill) || !strings.Contains(err.Error(), "CustomMachine "+demo.Namespace+"/m") {
			t.Fatalf("error is %v", err)
		}
	}
}

// TestOnChange_NoNodeYet: without a node, the machine is requeued and nothing is written.
func TestOnChange_NoNodeYet(t *testing.T) {
	f := newFakes(t)
	f.bootstraps.EXPECT().EnqueueAfter(demo.Namespace, "b", often)
	if _, err := f.onChange("", boot()); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*rkev1.RKEBootstrap){
		"being deleted":        func(b *rkev1.RKEBootstrap) { b.DeletionTimestamp = new(metav1.Now()) },
		"without data":         func(b *rkev1.RKEBootstrap) { b.Status = rkev1.RKEBootstrapStatus{} },
		"without a machine":    func(b *rkev1.RKEBootstrap) { b.OwnerReferences = nil },
		"of a missing machine": func(b *rkev1.RKEBootstrap) { b.OwnerReferences[0].Name = "gone" },
		"paused": func(b *rkev1.RKEBootstrap) {
			b.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		},
	} {
		changed := boot()
		edit(changed)
		if _, err := f.onChange("", changed); err != nil {
			t.Errorf("bootstrap object %s: %v", name, err)
		}
	}
	if _, err := f.onChange("", nil); err != nil {
		t.Error(err)
	}
}
