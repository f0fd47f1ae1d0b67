package provisioningcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

const olderSpec = `{"kubernetesVersion":"v1.35.1+k3s1","rkeConfig":{"machineGlobalConfig":{"cni":"old"},
	"upgradeStrategy":{"controlPlaneConcurrency":"2"}}}`

// goingBack is a settled cluster whose user requests a restore with the configuration of a snapshot.
func goingBack(mode rkev1.RestoreMode, spec string) func(*world) {
	return func(w *world) {
		conditions.Set(&w.cluster.Status.Conditions, conditions.Condition{Type: "RKECluster", Status: "True"}, now)
		w.controlPlane = &rkev1.RKEControlPlane{}
		w.snapshots = map[string]*rkev1.ETCDSnapshot{
			"s": {SnapshotFile: rkev1.ETCDSnapshotFile{Metadata: packed.Metadata(spec)}},
		}
		w.cluster.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"cni": "new"}
		w.cluster.Spec.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "s", Generation: 1,
			RestoreRKEConfig: mode}
	}
}

// translated is the control plane that the pass has applied, nil without any.
func (w *world) translated() *rkev1.RKEControlPlane {
	for _, object := range w.applied {
		if plane, ok := object.(*rkev1.RKEControlPlane); ok {
			return plane
		}
	}
	return nil
}

// One patch puts the fields back, and the same pass gives the control plane the request together with them.
func TestOnChange_PutsConfigurationBack(t *testing.T) {
	t.Parallel()
	for mode, cni := range map[rkev1.RestoreMode]string{"all": "old", "kubernetesVersion": "new"} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, goingBack(mode, olderSpec))
			if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"patch cluster", "apply management", "apply"}, w.writes); diff != "" {
				t.Error(diff)
			}
			plane := w.translated()
			if plane == nil || plane.Spec.KubernetesVersion != "v1.35.1+k3s1" ||
				plane.Spec.MachineGlobalConfig.Data["cni"] != cni || plane.Spec.ETCDSnapshotRestore == nil {
				t.Fatalf("the control plane is %+v", plane)
			}
			if got := w.cluster.Spec; got.KubernetesVersion != "v1.35.1+k3s1" ||
				got.RKEConfig.MachineGlobalConfig.Data["cni"] != cni || len(got.RKEConfig.MachinePools) != 1 {
				t.Errorf("the Cluster is %+v", got)
			}
		})
	}
}

// A request is acted on once. What a tool sets back afterwards stays, and reaches the control plane.
func TestOnChange_PutsConfigurationBackOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, goingBack("all", olderSpec))
	handle := w.register()
	if _, err := handle("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.controlPlane, w.writes = w.translated(), nil
	w.cluster.Spec.KubernetesVersion = "v1.36.2+k3s1"
	if _, err := handle("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(w.writes, "patch cluster") || w.cluster.Spec.KubernetesVersion != "v1.36.2+k3s1" {
		t.Errorf("the tool is overruled: %v, version %s", w.writes, w.cluster.Spec.KubernetesVersion)
	}
	if got := w.translated().Spec.KubernetesVersion; got != "v1.36.2+k3s1" {
		t.Errorf("the control plane has %s", got)
	}
}

// The second try completes a pass that was killed after its first write, whatever a tool did in between.
func TestOnChange_PutsConfigurationBackAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, goingBack("all", olderSpec), func(w *world) { w.applyErr = errors.New("no connection") })
	handle := w.register()
	_, _ = handle("", w.cluster.DeepCopy())
	if w.translated() != nil {
		t.Fatal("the control plane was written")
	}
	w.applyErr, w.cluster.Spec.KubernetesVersion = nil, "v1.36.2+k3s1"
	if _, err := handle("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if got := w.translated(); got == nil || got.Spec.KubernetesVersion != "v1.35.1+k3s1" {
		t.Errorf("the control plane is %+v", got)
	}
}

// Without the webhook, conditions show why the configuration of a snapshot cannot be restored. Nothing changes.
func TestOnChange_RefusesConfigurationOfASnapshot(t *testing.T) {
	t.Parallel()
	damaged := packed.Metadata(olderSpec)
	for name, tc := range map[string]struct {
		edit func(*world)
		want string
	}{
		"it is missing": {func(w *world) { w.snapshots = nil }, `Not found: "s"`},
		"it is truncated": {func(w *world) { w.snapshots["s"].SnapshotFile.Metadata = damaged[:len(damaged)/8*4] },
			"metadata must be base64 of a JSON object"},
		"it has no version": {func(w *world) { w.snapshots["s"].SnapshotFile.Metadata = packed.Metadata(`{}`) },
			"does not contain the Kubernetes version"},
		"it is not valid now": {func(w *world) {
			w.snapshots["s"].SnapshotFile.Metadata = packed.Metadata(`{"kubernetesVersion":"v1.35.1+k3s1",
				"defaultPodSecurityAdmissionConfigurationTemplateName":"gone","rkeConfig":{}}`)
		}, "the spec would be wrong with the configuration of snapshot s"},
		"the API server refuses it": {func(w *world) {
			w.patchErr = apierrors.NewInvalid(schema.GroupKind{Kind: "Cluster"}, "demo", nil)
		}, "the configuration of the snapshot was refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, goingBack("all", olderSpec), tc.edit)
			before := w.cluster.Spec.DeepCopy()
			if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if w.translated() != nil || slices.Contains(w.writes, "patch cluster") {
				t.Errorf("writes are %v", w.writes)
			}
			if diff := cmp.Diff(*before, w.cluster.Spec); diff != "" {
				t.Errorf("the spec changed:\n%s", diff)
			}
			for _, kind := range []string{
				provv1.ConditionRKECluster, provv1.ConditionUpdated, provv1.ConditionStalled,
			} {
				got := conditions.Get(w.cluster.Status.Conditions, kind)
				if got == nil || got.Reason != "InvalidSpec" || !strings.Contains(got.Message, tc.want) ||
					!strings.Contains(got.Message, "set restoreRKEConfig to none") {
					t.Errorf("condition %s is %+v", kind, got)
				}
			}
		})
	}
}

func (w *world) snapshotController(ctrl *gomock.Controller) *fake.MockControllerInterface[*rkev1.ETCDSnapshot,
	*rkev1.ETCDSnapshotList] {
	controller := fake.NewMockControllerInterface[*rkev1.ETCDSnapshot, *rkev1.ETCDSnapshotList](ctrl)
	reader := fake.NewMockCacheInterface[*rkev1.ETCDSnapshot](ctrl)
	reader.EXPECT().Get(gomock.Any(), gomock.Any()).DoAndReturn(func(_, name string) (*rkev1.ETCDSnapshot, error) {
		return get(w.snapshots[name], name)
	}).AnyTimes()
	controller.EXPECT().Cache().Return(reader).AnyTimes()
	controller.EXPECT().Informer().Return(informer()).AnyTimes()
	return controller
}
