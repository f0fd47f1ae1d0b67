package plansecret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

var gr = schema.GroupResource{Resource: "things"}

// fakes is one machine with its plan Secret, made of generated mocks only.
type fakes struct {
	handler generic.ObjectHandler[*corev1.Secret]

	machine  *clusterv1.Machine
	cp       *rkev1.RKEControlPlane
	instance string
	stored   *corev1.Secret
	writes   []string
	fail     map[string]error
	now      time.Time
	again    time.Duration
}

func newFakes(t *testing.T) *fakes {
	t.Helper()
	c := gomock.NewController(t)
	f := &fakes{
		instance: "me", fail: map[string]error{}, now: time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC),
		machine: &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u", Labels: map[string]string{}},
			Spec: clusterv1.MachineSpec{ClusterName: "demo",
				Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
					Kind: "RKEBootstrap", Name: "boot"}}},
		},
		cp: &rkev1.RKEControlPlane{Spec: rkev1.RKEControlPlaneSpec{KubernetesVersion: "v1.36.2+rke2r1"}},
	}
	secrets := fake.NewMockControllerInterface[*corev1.Secret, *corev1.SecretList](c)
	secrets.EXPECT().Cache().Return(fake.NewMockCacheInterface[*corev1.Secret](c)).AnyTimes()
	secrets.EXPECT().OnChange(gomock.Any(), "plan-secret", gomock.Any()).Do(
		func(_ context.Context, _ string, h generic.ObjectHandler[*corev1.Secret]) { f.handler = h })
	secrets.EXPECT().Update(gomock.Any()).DoAndReturn(func(s *corev1.Secret) (*corev1.Secret, error) {
		f.writes, f.stored = append(f.writes, "secret"), s
		return s, f.fail["secret"]
	}).AnyTimes()
	secrets.EXPECT().EnqueueAfter("ns", "boot-machine-plan", gomock.Any()).Do(
		func(_, _ string, after time.Duration) { f.again = after }).AnyTimes()
	machines := fake.NewMockControllerInterface[*clusterv1.Machine, *clusterv1.MachineList](c)
	machineCache := fake.NewMockCacheInterface[*clusterv1.Machine](c)
	machineCache.EXPECT().AddIndexer(planstore.ByPlanSecret, gomock.Any())
	machineCache.EXPECT().GetByIndex(planstore.ByPlanSecret,
		gomock.Any()).DoAndReturn(func(_, key string) ([]*clusterv1.Machine, error) {
		if keys, _ := planstore.IndexByPlanSecret(f.machine); !slices.Contains(keys, key) {
			return nil, nil
		}
		return []*clusterv1.Machine{f.machine}, nil
	}).AnyTimes()
	machines.EXPECT().Cache().Return(machineCache).AnyTimes()
	machines.EXPECT().Informer().Return(cache.NewSharedIndexInformer(&cache.ListWatch{}, &clusterv1.Machine{}, 0,
		cache.Indexers{})).AnyTimes()
	machines.EXPECT().Patch("ns", "m", types.JSONPatchType, gomock.Any(), "status").DoAndReturn(f.patch).AnyTimes()
	clusters := fake.NewMockCacheInterface[*provv1.Cluster](c)
	clusters.EXPECT().Get("ns", "demo").DoAndReturn(func(_, _ string) (*provv1.Cluster, error) {
		return &provv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"drover.io/instance": f.instance}}}, nil
	}).AnyTimes()
	controlPlanes := fake.NewMockCacheInterface[*rkev1.RKEControlPlane](c)
	controlPlanes.EXPECT().Get("ns", "demo").DoAndReturn(func(_, name string) (*rkev1.RKEControlPlane, error) {
		if f.cp == nil {
			return nil, apierrors.NewNotFound(gr, name)
		}
		return f.cp, nil
	}).AnyTimes()
	err := Register(t.Context(), Deps{
		InstanceID: "me", Secrets: secrets, Machines: machines, ControlPlanes: controlPlanes,
		ProvisioningClusters: clusters,
		Now:                  func() time.Time { return f.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// patch carries out a patch of the Machine.
func (f *fakes) patch(_, _ string, _ types.PatchType, body []byte, _ ...string) (*clusterv1.Machine, error) {
	f.writes = append(f.writes, "condition")
	before, err := json.Marshal(f.machine)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, err
	}
	f.machine = &clusterv1.Machine{}
	return f.machine, errors.Join(json.Unmarshal(after, f.machine), f.fail["condition"])
}

// run runs the handler, and once more when it asks for that.
func (f *fakes) run(secret *corev1.Secret) error {
	for range 3 {
		f.again = 0
		if _, err := f.handler("ns/boot-machine-plan", secret); err != nil || f.again == 0 {
			return err
		}
		f.now = f.now.Add(f.again)
		if f.stored != nil {
			secret = f.stored
		}
	}
	return errors.New("it waits forever")
}

// report returns a plan Secret as an agent would have written it.
func report(t *testing.T, with map[string]string) *corev1.Secret {
	t.Helper()
	raw, err := nodeplan.Encode(plan.NodePlan{
		Instructions: []plan.OneTimeInstruction{{CommonInstruction: plan.CommonInstruction{Name: "install"}}},
		Probes:       map[string]plan.Probe{"etcd": {}, "kubelet": {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{"plan": raw, "max-failures": []byte("-1"), "failure-threshold": []byte("1")}
	for key, value := range with {
		data[key] = []byte(strings.ReplaceAll(value, "CHECKSUM", nodeplan.Checksum(raw)))
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "boot-machine-plan",
			Labels: map[string]string{"rke.cattle.io/machine-name": "another-owner"}},
		Type: "rke.cattle.io/machine-plan", Data: data,
	}
}

func TestHandler(t *testing.T) {
	const onBoth = "error applying plan -- check rancher-system-agent.service and rke2-server.service logs on node " +
		"for more information"
	healthy := `{"etcd":{"healthy":true},"kubelet":{"healthy":true}}`
	for name, tc := range map[string]struct {
		report        map[string]string
		given         func(f *fakes)
		wantWrites    []string
		wantCondition string
		wantMessage   string
		wantPassed    bool
	}{
		"the agent has not reported": {},
		"applied": {
			report:     map[string]string{"applied-checksum": "CHECKSUM", "probe-statuses": `{"etcd":{},"kubelet":{}}`},
			wantWrites: []string{"condition", "secret"}, wantCondition: "True",
		},
		"applied and healthy": {
			report:     map[string]string{"applied-checksum": "CHECKSUM", "probe-statuses": healthy},
			wantWrites: []string{"condition", "secret"}, wantCondition: "True", wantPassed: true,
		},
		"a probe without a report": {
			report: map[string]string{"applied-checksum": "CHECKSUM",
				"probe-statuses": `{"etcd":{"healthy":true}}`},
			wantWrites: []string{"condition", "secret"}, wantCondition: "True",
		},
		"healthy with the former plan": {
			report: map[string]string{"applied-checksum": "before", "probe-statuses": healthy},
		},
		"failed on a server": {
			report: map[string]string{"failed-checksum": "CHECKSUM", "failure-count": "1",
				"failed-output": "secret words"},
			given:      func(f *fakes) { f.machine.Labels["rke.cattle.io/etcd-role"] = "true" },
			wantWrites: []string{"condition"}, wantCondition: "False", wantMessage: onBoth,
		},
		"failed on a worker": {
			report:     map[string]string{"failed-checksum": "CHECKSUM", "failure-count": "1"},
			wantWrites: []string{"condition"}, wantCondition: "False",
			wantMessage: strings.ReplaceAll(onBoth, "rke2-server", "rke2-agent"),
		},
		"failed, without a control plane": {
			report:     map[string]string{"failed-checksum": "CHECKSUM", "failure-count": "1"},
			given:      func(f *fakes) { f.cp = nil },
			wantWrites: []string{"condition"}, wantCondition: "False",
			wantMessage: "error applying plan -- check rancher-system-agent.service logs on node for more information",
		},
		"failed once of three times": {report: map[string]string{"failed-checksum": "CHECKSUM", "failure-count": "1",
			"max-failures": "3", "failure-threshold": "3"}},
		"failed once of 100 allowed times": {
			report:     map[string]string{"failed-checksum": "CHECKSUM", "failure-count": "1", "max-failures": "100"},
			wantWrites: []string{"condition"}, wantCondition: "False",
			wantMessage: strings.ReplaceAll(onBoth, "rke2-server", "rke2-agent"),
		},
		"failed three of three times": {
			report:     map[string]string{"failed-checksum": "CHECKSUM", "failure-count": "3", "max-failures": "3"},
			wantWrites: []string{"condition"}, wantCondition: "False",
			wantMessage: strings.ReplaceAll(onBoth, "rke2-server", "rke2-agent"),
		},
		"an agent in state mode gave up": {
			report:     map[string]string{"plan-state": "failed", "applied-checksum": "CHECKSUM"},
			wantWrites: []string{"condition"}, wantCondition: "False",
			wantMessage: strings.ReplaceAll(onBoth, "rke2-server", "rke2-agent"),
		},
		"an invalid report": {report: map[string]string{"applied-checksum": "CHECKSUM",
			"probe-statuses": "{"}, wantWrites: []string{"condition", "secret"}, wantCondition: "True"},
		"a cluster of another instance": {report: map[string]string{"applied-checksum": "CHECKSUM"},
			given: func(f *fakes) { f.instance = "you" }},
		"without a machine": {report: map[string]string{"applied-checksum": "CHECKSUM"}, given: func(f *fakes) {
			f.machine.Spec.Bootstrap.ConfigRef.Kind = "KubeadmConfig"
		}},
		"a conflict": {
			report: map[string]string{"applied-checksum": "CHECKSUM"},
			given: func(f *fakes) {
				f.fail["secret"] = apierrors.NewConflict(gr, "x", errors.New("modified"))
			},
			wantWrites: []string{"condition", "secret"}, wantCondition: "True",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			if tc.given != nil {
				tc.given(f)
			}
			secret := report(t, tc.report)
			before := secret.DeepCopy()
			if err := f.run(secret); err != nil {
				t.Fatal(err)
			}
			if slices.Sort(f.writes); !slices.Equal(f.writes, tc.wantWrites) {
				t.Errorf("writes are %v, want %v", f.writes, tc.wantWrites)
			}
			if secret.String() != before.String() {
				t.Error("a cached object has changed")
			}
			got := conditions.GetMeta(f.machine.Status.Conditions, "PlanApplied")
			switch {
			case tc.wantCondition == "" && got != nil:
				t.Errorf("condition is %+v", got)
			case tc.wantCondition != "" && (got == nil || string(got.Status) != tc.wantCondition ||
				got.Message != tc.wantMessage):
				t.Errorf("condition is %+v", got)
			}
			if passed := f.stored != nil &&
				f.stored.Annotations["rke.cattle.io/plan-probes-passed"] != ""; passed != tc.wantPassed {
				t.Errorf("probes passed: %v", passed)
			}
			if f.stored != nil && tc.wantPassed {
				f.writes = nil
				if err := f.run(f.stored); err != nil || len(f.writes) > 0 {
					t.Errorf("the second pass writes %v, error %v", f.writes, err)
				}
			}
		})
	}
}

func TestHandler_ReturnsErrors(t *testing.T) {
	f := newFakes(t)
	f.fail["secret"] = apierrors.NewForbidden(gr, "x", errors.New("no"))
	err := f.run(report(t, map[string]string{"applied-checksum": "CHECKSUM"}))
	if !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
	f = newFakes(t)
	for _, secret := range []*corev1.Secret{nil, {Type: "Opaque", Data: map[string][]byte{"plan": nil}},
		{Type: "rke.cattle.io/machine-plan"}} {
		if _, err := f.handler("ns/x", secret); err != nil || len(f.writes) > 0 {
			t.Errorf("writes %v, error %v for %v", f.writes, err, secret)
		}
	}
}

// The output of commands may hold secrets, so it is not copied from the node's report to where other users read.
func TestHandler_CopiesNoOutput(t *testing.T) {
	output, err := nodeplan.EncodeOutput(map[string][]byte{"install": []byte("the-password"),
		nodeplan.OutputAgentError: []byte("the-password")})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]map[string]string{
		"of a successful plan": {"applied-checksum": "CHECKSUM", "applied-output": string(output)},
		"of a failed plan":     {"failed-checksum": "CHECKSUM", "failure-count": "1", "failed-output": string(output)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			secret := report(t, data)
			if err := f.run(secret); err != nil {
				t.Fatal(err)
			}
			if conditions.GetMeta(f.machine.Status.Conditions, "PlanApplied") == nil ||
				strings.Contains(fmt.Sprint(f.machine.ObjectMeta, f.machine.Status.Conditions), "the-password") {
				t.Errorf("the machine is %v, %v", f.machine.ObjectMeta, f.machine.Status.Conditions)
			}
			if f.stored != nil {
				delete(f.stored.Data, "applied-output")
				delete(f.stored.Data, "failed-output")
				for key, value := range f.stored.Data {
					if strings.Contains(string(value), "the-password") || string(value) == string(output) {
						t.Errorf("the output is also in key %s", key)
					}
				}
				if strings.Contains(fmt.Sprint(f.stored.ObjectMeta), "the-password") {
					t.Error("the output is in the metadata of the Secret")
				}
			}
		})
	}
}

// A cluster that gets this instance's mark wakes its plan Secrets once; other events of Clusters wake none.
func TestOfTaken_WakesOnceForEachMark(t *testing.T) {
	f := newFakes(t)
	c := gomock.NewController(t)
	cache := fake.NewMockCacheInterface[*clusterv1.Machine](c)
	cache.EXPECT().GetByIndex(planstore.ByCluster, "ns/demo").Return([]*clusterv1.Machine{f.machine}, nil).AnyTimes()
	machines := fake.NewMockControllerInterface[*clusterv1.Machine, *clusterv1.MachineList](c)
	machines.EXPECT().Cache().Return(cache).AnyTimes()
	h := &handler{Deps: Deps{InstanceID: "me", Machines: machines}}
	now := metav1.Now()
	for _, step := range []struct {
		mark    string
		deleted *metav1.Time
		want    int
	}{{mark: "them"}, {mark: "me", want: 1}, {mark: "me"}, {mark: ""}, {mark: "me", want: 1},
		{mark: "me", deleted: &now}, {mark: "me", want: 1}} {
		cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "demo", UID: "u", Annotations: map[string]string{"drover.io/instance": step.mark},
			DeletionTimestamp: step.deleted,
		}}
		if keys := h.ofTaken(cluster); len(keys) != step.want {
			t.Errorf("%+v wakes %v", step, keys)
		}
	}
}

// A first success waits a moment for other writes of the same objects. A failure and its end do not.
func TestHandler_SuccessWaitsForOtherWrites(t *testing.T) {
	f := newFakes(t)
	handle := func(data map[string]string, want ...string) {
		t.Helper()
		f.writes, f.again = nil, 0
		secret := report(t, data)
		secret.UID = "s"
		if _, err := f.handler("ns/boot-machine-plan", secret); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(f.writes, want) {
			t.Errorf("writes are %v, want %v", f.writes, want)
		}
	}
	failed := map[string]string{"failed-checksum": "CHECKSUM", "failure-count": "1"}
	applied := map[string]string{"applied-checksum": "CHECKSUM", "probe-statuses": `{"etcd":{},"kubelet":{}}`}
	healthy := map[string]string{"applied-checksum": "CHECKSUM",
		"probe-statuses": `{"etcd":{"healthy":true},"kubelet":{"healthy":true}}`}
	handle(applied)
	if f.again != planstore.ProposalWaits {
		t.Errorf("next pass after %s", f.again)
	}
	handle(failed, "condition")
	handle(applied, "condition")
	f.machine.Status = clusterv1.MachineStatus{}
	handle(applied)
	f.now = f.now.Add(planstore.ProposalWaits)
	handle(applied, "condition")
	if f.again <= 0 || f.again > copyWaits {
		t.Errorf("the copy is written after %s", f.again)
	}
	handle(healthy, "secret")
}
