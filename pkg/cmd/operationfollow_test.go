package cmd

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

func TestFollow(t *testing.T) {
	t.Parallel()
	kind, asked := planner.SnapshotOperation, wish{Generation: 4}
	ask := func(generation int) func(*scene) {
		return spec(func(c *provv1.RKEConfig) { c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: generation} })
	}
	passed := func(generation int) func(*scene) {
		return func(s *scene) {
			s.controlPlane.Spec.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: generation}
		}
	}
	complains := func(condition, message string) func(*scene) {
		return func(s *scene) {
			s.cluster.Status.Conditions = append(s.cluster.Status.Conditions, rkev1.GenericCondition{Type: condition, Status: rkev1.ConditionFalse, Message: message})
		}
	}
	for name, tc := range map[string]struct {
		is    []func(*scene)
		want  string
		ended bool
		err   string
	}{
		"it has not begun": {is: []func(*scene){ask(4)}, want: "etcd snapshot: it has not begun"},
		"the spec is not passed on, and the Cluster says why": {
			is:   []func(*scene){ask(4), says(rkev1.ConditionReady, "all is well"), complains(provv1.ConditionRKECluster, "spec.x: Invalid value")},
			want: "etcd snapshot: it has not begun; the spec of the Cluster is not passed on: spec.x: Invalid value",
		},
		"the spec is not passed on, and a condition that follows the control plane says why": {
			is:   []func(*scene){ask(4), complains(provv1.ConditionUpdated, "spec.x: Invalid value")},
			want: "etcd snapshot: it has not begun; the spec of the Cluster is not passed on: spec.x: Invalid value",
		},
		"the Cluster says what the control plane says": {
			is:   []func(*scene){ask(4), says(rkev1.ConditionReady, "m drains"), complains(provv1.ConditionUpdated, "m drains")},
			want: "etcd snapshot: it has not begun; the cluster says: m drains",
		},
		"the spec was passed on, so that complaints are of another edit": {
			is:   []func(*scene){ask(4), passed(4), says(rkev1.ConditionReady, "m drains"), complains(provv1.ConditionRKECluster, "spec.x: Invalid value")},
			want: "etcd snapshot: it has not begun; the cluster says: m drains",
		},
		"it was taken back, and the planner is not told of that yet":  {is: []func(*scene){passed(4)}, want: "etcd snapshot: it has not begun"},
		"another one took its place, and the planner is not told yet": {is: []func(*scene){ask(5), passed(4)}, want: "etcd snapshot: it has not begun"},
		"what a machine says does nothing to the terminal": {
			is: []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateFailed), func(s *scene) { s.controlPlane.Status.Operations[0].Message = "\x1b[2J\nok" }}, ended: true,
			err: "the etcd snapshot failed:  [2J ok; docs/reasons/SnapshotFailed.md says what to do",
		},
		"the one before failed": {
			is:   []func(*scene){ask(4), ran(kind, `{"generation":3}`, rkev1.OperationStateFailed), says(rkev1.ConditionReady, "m drains")},
			want: "etcd snapshot: it has not begun; the cluster says: m drains",
		},
		"it runs, and the cluster says how": {
			is:   []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateRunning), says(rkev1.ConditionReady, "etcd snapshot: waiting for a snapshot on m")},
			want: "etcd snapshot: waiting for a snapshot on m",
		},
		"it runs, and only the record says how":    {is: []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateRunning)}, want: "a step"},
		"it goes on after somebody asked for more": {is: []func(*scene){ask(5), ran(kind, `{"generation":4}`, rkev1.OperationStateRunning)}, want: "a step"},
		"it is done": {is: []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateSucceeded)}, want: "the etcd snapshot is done", ended: true},
		"it is done, with something to say": {
			is:   []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateSucceeded), says(kind.Condition, "left out: m")},
			want: "left out: m", ended: true,
		},
		"it failed": {
			is: []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateFailed)}, ended: true,
			err: "the etcd snapshot failed: m is lost; docs/reasons/SnapshotFailed.md says what to do",
		},
		"it was cancelled": {
			is: []func(*scene){ran(kind, `{"generation":4}`, rkev1.OperationStateCancelled)}, ended: true,
			err: "the etcd snapshot was cancelled: its request was taken back while it ran; docs/reasons/Cancelled.md says what stays",
		},
		"it was taken back in time": {ended: true, err: "the request for the etcd snapshot was taken back before it began"},
		"another request came before it": {
			is: []func(*scene){ask(5), ran(kind, `{"generation":5}`, rkev1.OperationStateRunning)}, ended: true,
			err: "another request took the place of this one, or came after it: spec.rkeConfig.etcdSnapshotCreate has generation 5, and not 4",
		},
		"the cluster goes":          {is: []func(*scene){ask(4), func(s *scene) { s.cluster.DeletionTimestamp = &metav1.Time{} }}, ended: true, err: "cluster a/demo is being deleted, and the etcd snapshot with it"},
		"the control plane is gone": {is: []func(*scene){ask(4), func(s *scene) { s.controlPlane = nil }}, ended: true, err: "the control plane of cluster a/demo is gone, and the etcd snapshot with it"},
	} {
		got := demoScene(tc.is...).follow(order{kind: kind, wish: asked})
		if got.line != tc.want || got.ended != tc.ended || (got.err == nil) != (tc.err == "") || got.err != nil && got.err.Error() != tc.err {
			t.Errorf("%s: %+v; want %q, %t, %q", name, got, tc.want, tc.ended, tc.err)
		}
	}
}

// All fields identify a request: another snapshot is another restore, and other services are another rotation.
func TestFollow_TellsRequestsOfOneGenerationApart(t *testing.T) {
	t.Parallel()
	s := demoScene(ran(planner.RestoreOperation, `{"name":"other","generation":2}`, rkev1.OperationStateSucceeded),
		spec(func(c *provv1.RKEConfig) {
			c.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "other", Generation: 2}
		}))
	if got := s.follow(order{kind: planner.RestoreOperation, wish: wish{Name: "s", Generation: 2}}); !got.ended || got.err == nil {
		t.Errorf("another snapshot is this one: %+v", got)
	}
	done := demoScene(func(s *scene) { s.controlPlane.Status.CertificateRotationGeneration = 4 },
		ran(planner.CertificatesOperation, `{"generation":5}`, rkev1.OperationStateRunning))
	if got := done.follow(order{kind: planner.CertificatesOperation, wish: wish{Generation: 4}}); !got.ended || got.err != nil || got.line != "the certificate rotation is done" {
		t.Errorf("what is done is not known: %+v", got)
	}
}

// A restore does not succeed if another program resets spec.kubernetesVersion, because the data are not on the
// requested version.
func TestFollow_TellsThatSomebodyPutTheVersionBack(t *testing.T) {
	t.Parallel()
	kind, asked := planner.RestoreOperation, wish{Name: "s", Generation: 4}
	const request = `{"name":"s","generation":4}`
	const back = `somebody has set spec.kubernetesVersion to "v1.36.2+rke2r1", and v1.35.3+rke2r1 was asked for with the etcd restore`
	for name, tc := range map[string]struct {
		version string
		state   rkev1.OperationState
		want    string
		err     string
	}{
		"it is as it was asked for":    {"v1.36.2+rke2r1", rkev1.OperationStateSucceeded, "the etcd restore is done", ""},
		"none was asked for":           {"", rkev1.OperationStateSucceeded, "the etcd restore is done", ""},
		"the restore is done":          {"v1.35.3+rke2r1", rkev1.OperationStateSucceeded, "the etcd restore is done", "the etcd restore is done, but " + back},
		"the restore goes on":          {"v1.35.3+rke2r1", rkev1.OperationStateRunning, "a step; " + back, ""},
		"the restore fails of its own": {"v1.35.3+rke2r1", rkev1.OperationStateFailed, "", "the etcd restore failed: m is lost; docs/reasons/RestoreFailed.md says what to do"},
	} {
		got := demoScene(ran(kind, request, tc.state)).follow(order{kind: kind, wish: asked, kubernetesVersion: tc.version})
		if got.line != tc.want || got.ended != (tc.state != rkev1.OperationStateRunning) || (got.err == nil) != (tc.err == "") || got.err != nil && got.err.Error() != tc.err {
			t.Errorf("%s: %+v; want %q, %q", name, got, tc.want, tc.err)
		}
	}
}
