package planstore

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

var (
	noon     = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	secrets  = schema.GroupResource{Resource: "secrets"}
	conflict = apierrors.NewConflict(secrets, "x", errors.New("modified"))
)

// api is one Secret behind a cache and a client.
type api struct {
	stored *corev1.Secret
	err    error
	writes int
}

func (a *api) Get(_, name string) (*corev1.Secret, error) {
	if a.stored == nil {
		return nil, apierrors.NewNotFound(secrets, name)
	}
	return a.stored, a.err
}

func (a *api) Update(s *corev1.Secret) (*corev1.Secret, error) {
	a.writes++
	if a.err != nil {
		return nil, a.err
	}
	a.stored = s
	return s, nil
}

func encoded(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := nodeplan.Encode(plan.NodePlan{
		Instructions: []plan.OneTimeInstruction{{CommonInstruction: plan.CommonInstruction{Name: name}}},
		Probes:       map[string]plan.Probe{"kubelet": {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func planSecret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "boot-machine-plan", ResourceVersion: "7",
			Labels: map[string]string{"pool": "a"}},
		Type: "rke.cattle.io/machine-plan", Data: data,
	}
}

func TestPlans_Find(t *testing.T) {
	for name, tc := range map[string]struct {
		stored        *corev1.Secret
		wantPlan      bool
		wantMalformed string
	}{
		"no secret":       {},
		"an empty secret": {stored: planSecret(nil), wantPlan: true},
		"a foreign secret": {stored: &corev1.Secret{Type: "Opaque"}, wantPlan: true,
			wantMalformed: "its type must be rke.cattle.io/machine-plan"},
		"an invalid plan": {stored: planSecret(map[string][]byte{"plan": []byte("{")}), wantPlan: true,
			wantMalformed: `malformed key "plan" of plan secret ns/boot-machine-plan: must be JSON of the documented form`},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{stored: tc.stored}
			p := NewPlans(a, a)
			secret, found, err := p.Find("ns", "boot")
			if err != nil || (found != nil) != tc.wantPlan || secret != tc.stored {
				t.Fatalf("found %v, error %v", found, err)
			}
			if found != nil && found.Malformed != tc.wantMalformed {
				t.Errorf("malformed is %q", found.Malformed)
			}
			if _, again, _ := p.Find("ns", "boot"); again != found {
				t.Error("the same secret was decoded twice")
			}
		})
	}
	broken := &api{stored: planSecret(nil), err: errors.New("cache is missing")}
	if _, _, err := NewPlans(broken, broken).Find("ns", "boot"); !errors.Is(err, broken.err) {
		t.Errorf("error is %v", err)
	}
}

func TestPlans_Deliver(t *testing.T) {
	first := encoded(t, "first")
	a := &api{}
	p := NewPlans(a, a)
	found := planSecret(map[string][]byte{
		"probe-statuses": []byte("{}"), "plan-state": []byte("failed"), "applied-checksum": []byte("abc"),
	})
	found.Annotations = map[string]string{"rke.cattle.io/plan-probes-passed": "before"}
	before := found.DeepCopy()
	delivery := planner.DeliverPlan{
		Machine: "m",
		Delivery: planner.Delivery{Plan: first, Checksum: nodeplan.Checksum(first), MaxFailures: -1,
			FailureThreshold: 1},
		Marks:    planner.Marks{InitNode: true, RenderVersion: "1"},
		Evidence: `{"plan":"x"}`,
	}
	stored, err := p.Deliver(found, delivery, noon)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, found); diff != "" {
		t.Errorf("an object of the cache was changed (-before +after):\n%s", diff)
	}
	want := planSecret(map[string][]byte{
		"plan": first, "max-failures": []byte("-1"), "failure-threshold": []byte("1"),
		"applied-checksum": []byte("abc"),
	})
	want.Labels = map[string]string{"pool": "a", "rke.cattle.io/init-node": "true"}
	want.Annotations = map[string]string{
		"rke.cattle.io/joined-to": "", "rke.cattle.io/plan-last-updated": "2026-09-01T12:00:00Z",
		"rke.cattle.io/plan-probes-passed": "",
		"drover.io/plan-evidence":          `{"plan":"x"}`,
	}
	if got := decode(stored).Evidence; got != delivery.Evidence {
		t.Errorf("read back is %q", got)
	}
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("secret (-want +got):\n%s", diff)
	}
	if again, err := p.Deliver(stored, delivery, noon.Add(time.Hour)); err != nil || again != stored || a.writes != 1 {
		t.Errorf("the same plan was written %d times, error %v", a.writes, err)
	}
	delivery.Marks = planner.Marks{JoinedTo: "https://1.2.3.4:9345", JoinURL: "https://5.6.7.8:9345"}
	delivery.Delivery.Plan, delivery.Evidence = encoded(t, "second"), ""
	stored, err = p.Deliver(stored, delivery, noon)
	if err != nil {
		t.Fatal(err)
	}
	wantAnnotations := map[string]string{
		"rke.cattle.io/joined-to": "https://1.2.3.4:9345", "rke.cattle.io/join-url": "https://5.6.7.8:9345",
		"rke.cattle.io/plan-last-updated": "2026-09-01T12:00:00Z", "rke.cattle.io/plan-probes-passed": "",
	}
	if diff := cmp.Diff(wantAnnotations, stored.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if _, marked := stored.Labels["rke.cattle.io/init-node"]; marked {
		t.Error("the label must be removed with the role")
	}
}

func TestPlans_DeliverRefuses(t *testing.T) {
	big := planner.Delivery{Plan: make([]byte, MaxSecretSize), MaxFailures: -1, FailureThreshold: 1}
	a := &api{}
	if _, err := NewPlans(a, a).Deliver(planSecret(nil), planner.DeliverPlan{Machine: "m", Delivery: big},
		noon); !errors.Is(err, ErrTooLarge) || a.writes > 0 {
		t.Errorf("error is %v after %d writes", err, a.writes)
	}
	never := planner.Delivery{Plan: encoded(t, "x"), MaxFailures: 1, FailureThreshold: 5}
	if _, err := NewPlans(a, a).Deliver(planSecret(nil), planner.DeliverPlan{Machine: "m", Delivery: never},
		noon); err == nil || a.writes > 0 {
		t.Errorf("error is %v after %d writes", err, a.writes)
	}
	a.err = conflict
	fine := planner.Delivery{Plan: encoded(t, "x"), MaxFailures: -1, FailureThreshold: 1}
	if _, err := NewPlans(a, a).Deliver(planSecret(nil), planner.DeliverPlan{Machine: "m", Delivery: fine},
		noon); !apierrors.IsConflict(err) {
		t.Errorf("want the conflict, got %v", err)
	}
}

// TestPlans_FindReturnsSizes: Find returns the sizes of the applied plan's copy and of the reports.
func TestPlans_FindReturnsSizes(t *testing.T) {
	a := &api{stored: planSecret(map[string][]byte{
		"plan": encoded(t, "x"), "appliedPlan": make([]byte, 40), "applied-output": make([]byte, 86),
		"probe-statuses": []byte("{}"), "plan-state": []byte("failed"),
	})}
	_, plan, err := NewPlans(a, a).Find("fleet-default", "m")
	if err != nil {
		t.Fatal(err)
	}
	if want := len("plan"+"appliedPlan"+"applied-output"+"max-failures-1"+"failure-threshold1") +
		86; plan.AppliedSize != 40 || plan.ReportSize != want {
		t.Errorf("%d bytes of the applied plan and %d of reports, want 40 and %d", plan.AppliedSize, plan.ReportSize,
			want)
	}
}

func TestPlans_PublishJoinURL(t *testing.T) {
	a := &api{}
	p := NewPlans(a, a)
	stored, err := p.PublishJoinURL(planSecret(nil),
		planner.PublishJoinURL{Machine: "m", JoinURL: "https://1.2.3.4:6443"})
	if err != nil || stored.Annotations["rke.cattle.io/join-url"] != "https://1.2.3.4:6443" {
		t.Fatalf("secret %v, error %v", stored, err)
	}
	if again, err := p.PublishJoinURL(stored,
		planner.PublishJoinURL{JoinURL: "https://1.2.3.4:6443"}); again != stored || err != nil || a.writes != 1 {
		t.Errorf("%d writes, error %v", a.writes, err)
	}
}

func TestPlans_NoteReport(t *testing.T) {
	raw := encoded(t, "install")
	applied := map[string][]byte{"plan": raw, "applied-checksum": []byte(nodeplan.Checksum(raw))}
	noted := maps.Clone(applied)
	noted["appliedPlan"] = raw
	for name, tc := range map[string]struct {
		data       map[string][]byte
		stamp      string
		passed     bool
		wantWrite  bool
		wantStamp  string
		wantCopied bool
	}{
		"no applied plan": {data: map[string][]byte{"plan": raw}},
		"applied":         {data: applied, wantWrite: true, wantCopied: true},
		"applied and healthy": {data: applied, passed: true, wantWrite: true, wantCopied: true,
			wantStamp: "2026-09-01T12:00:00Z"},
		"healthy later": {data: noted, passed: true, wantWrite: true, wantCopied: true,
			wantStamp: "2026-09-01T12:00:00Z"},
		"the first time counts": {data: noted, passed: true, stamp: "before", wantCopied: true, wantStamp: "before"},
		"unhealthy again":       {data: noted, stamp: "before", wantCopied: true, wantStamp: "before"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := planSecret(tc.data)
			if tc.stamp != "" {
				secret.Annotations = map[string]string{"rke.cattle.io/plan-probes-passed": tc.stamp}
			}
			a := &api{stored: secret}
			got, err := NewPlans(a, a).NoteReport(secret, tc.passed, noon)
			if err != nil || (got != nil) != tc.wantWrite {
				t.Fatalf("wrote %v, error %v", got != nil, err)
			}
			if a.stored.Annotations["rke.cattle.io/plan-probes-passed"] != tc.wantStamp ||
				(len(a.stored.Data["appliedPlan"]) > 0) != tc.wantCopied {
				t.Errorf("stored are %v and %v", a.stored.Annotations, a.stored.Data["appliedPlan"])
			}
		})
	}
}

// Each request changes only its own fields, and skips values that are already stored. (docs/invariants.md#weaknesses,
// W12.)
func TestPlans_DrainAndInitLabel(t *testing.T) {
	const options, other, hooked = `{"enabled":true}`, `{"enabled":false}`,
		`{"postDrainHooks":[{"annotation":"after"}],"preDrainHooks":[{"annotation":"before"}]}`
	drain := func(p *Plans, s *corev1.Secret) (*corev1.Secret, error) {
		return p.RequestDrain(s, planner.RequestDrain{Machine: "m", Options: options})
	}
	uncordon := func(p *Plans, s *corev1.Secret) (*corev1.Secret, error) {
		return p.RequestUncordon(s, planner.RequestUncordon{Machine: "m", Options: options})
	}
	withdraw := func(p *Plans, s *corev1.Secret) (*corev1.Secret, error) {
		return p.WithdrawInitLabel(s, planner.WithdrawInitLabel{Machine: "m"})
	}
	type annotations = map[string]string
	key := func(name string) string { return "rke.cattle.io/" + name }
	for name, tc := range map[string]struct {
		request   func(*Plans, *corev1.Secret) (*corev1.Secret, error)
		given     annotations
		label     bool
		want      annotations
		wantWrite bool
	}{
		"a drain": {request: drain, given: annotations{"x": "y"},
			want: annotations{"x": "y", key("drain-options"): options}, wantWrite: true},
		"a requested drain": {request: drain,
			given: annotations{key("drain-options"): options, key("drain-done"): options},
			want:  annotations{key("drain-options"): options, key("drain-done"): options}},
		"a drain after another": {request: drain,
			given: annotations{key("drain-options"): other, key("drain-done"): other, key("pre-drain"): other},
			want:  annotations{key("drain-options"): options}, wantWrite: true},
		"a drain after one with a hook": {request: drain,
			given: annotations{key("drain-options"): hooked, key("pre-drain"): hooked, "before": hooked,
				"after": hooked}, want: annotations{key("drain-options"): options}, wantWrite: true},
		"a drain after an unreadable one": {request: drain, given: annotations{key("drain-options"): "{"},
			want: annotations{key("drain-options"): options}, wantWrite: true},
		"a drain instead of its end": {request: drain,
			given: annotations{key("drain-options"): options, key("drain-done"): options, key("uncordon"): options,
				key("post-drain"): options}, want: annotations{key("drain-options"): options}, wantWrite: true},
		"an end": {request: uncordon, given: annotations{key("drain-options"): options},
			want: annotations{key("drain-options"): options, key("uncordon"): options}, wantWrite: true},
		"an end of a removed drain": {request: uncordon, given: annotations{"x": "y"}, want: annotations{"x": "y"}},
		"a requested end": {request: uncordon,
			given: annotations{key("drain-options"): options, key("uncordon"): options},
			want:  annotations{key("drain-options"): options, key("uncordon"): options}},
		"the label of the init node": {request: withdraw, label: true, wantWrite: true},
		"no label":                   {request: withdraw},
	} {
		t.Run(name, func(t *testing.T) {
			secret := planSecret(nil)
			secret.Annotations = tc.given
			if tc.label {
				secret.Labels["rke.cattle.io/init-node"] = "true"
			}
			a := &api{stored: secret}
			got, err := tc.request(NewPlans(a, a), secret)
			if err != nil || (a.writes > 0) != tc.wantWrite || (got != secret) != tc.wantWrite {
				t.Fatalf("%d writes, error %v", a.writes, err)
			}
			if diff := cmp.Diff(tc.want, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"pool": "a"}, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if got.ResourceVersion != "7" {
				t.Error("a write without its resource version could restore removed keys")
			}
			a.err = conflict
			again := planSecret(nil)
			again.Annotations = tc.given
			again.Labels["rke.cattle.io/init-node"] = "true"
			if _, err := tc.request(NewPlans(a, a), again); tc.wantWrite && !apierrors.IsConflict(err) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestPlans_FindReadsTheDrain(t *testing.T) {
	secret := planSecret(nil)
	secret.Labels["rke.cattle.io/init-node"] = "true"
	secret.Annotations = map[string]string{
		"rke.cattle.io/drain-options": "a", "rke.cattle.io/drain-done": "b", "rke.cattle.io/uncordon": "c",
		"rke.cattle.io/drain-error":       "d",
		"rke.cattle.io/plan-last-updated": noon.Format(time.RFC3339),
	}
	a := &api{stored: secret}
	_, got, err := NewPlans(a, a).Find("ns", "boot")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(planner.Drain{Requested: "a", Done: "b", Uncordon: "c", Error: "d"}, got.Drain); diff != "" ||
		!got.InitNode || !got.DeliveredAt.Equal(noon) {
		t.Errorf("read %+v; drain (-want +got):\n%s", got, diff)
	}
}

func TestPlanSecretOfAMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, bootstrap string
		want            []string
	}{
		"ours":                    {"RKEBootstrap", "boot", []string{"ns/boot-machine-plan"}},
		"of another bootstrapper": {"KubeadmConfig", "boot", nil},
		"without a bootstrap":     {"RKEBootstrap", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := machineObject("1")
			m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{Kind: tc.kind, Name: tc.bootstrap}
			keys, err := IndexByPlanSecret(m)
			if err != nil || !slices.Equal(keys, tc.want) {
				t.Errorf("keys are %v, error %v", keys, err)
			}
			if woken := WakePlanSecret(m); len(woken) != len(tc.want) || len(woken) > 0 &&
				woken[0] != (wakeup.Key{Namespace: "ns", Name: "boot-machine-plan"}) {
				t.Errorf("wakes %v", woken)
			}
		})
	}
}
