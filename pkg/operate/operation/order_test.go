package operation

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// demoScene is a cluster that a Drover manages, without requests.
func demoScene(changes ...func(*Scene)) Scene {
	s := Scene{
		Cluster: &provv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "demo", ResourceVersion: "7",
				Annotations: map[string]string{rkev1.InstanceAnnotation: "mine"}},
			Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.2+rke2r1", RKEConfig: &provv1.RKEConfig{}},
		},
		ControlPlane: &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "demo"}},
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// ran adds the record of an operation to a scene.
func ran(kind planner.OperationKind, request string, state rkev1.OperationState) func(*Scene) {
	return func(s *Scene) {
		status := &s.ControlPlane.Status
		status.Operations = append(status.Operations, rkev1.OperationRecord{Name: kind.Record, Request: request,
			State: state, Message: "m is lost", Step: "a step"})
	}
}

func spec(change func(*provv1.RKEConfig)) func(*Scene) {
	return func(s *Scene) { change(s.Cluster.Spec.RKEConfig) }
}

func TestNextGeneration_IsOneThatNoRequestHad(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind planner.OperationKind
		is   []func(*Scene)
		want int64
	}{
		"nothing was ever asked for": {kind: planner.SnapshotOperation, want: 1},
		"the spec has the largest": {planner.SnapshotOperation, []func(*Scene){
			spec(func(c *provv1.RKEConfig) { c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 9} }),
			func(s *Scene) { s.ControlPlane.Status.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 4} },
		}, 10},
		"the status has the largest, because a user lowered that of the spec": {planner.SnapshotOperation,
			[]func(*Scene){
				spec(func(c *provv1.RKEConfig) { c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 2} }),
				func(s *Scene) { s.ControlPlane.Status.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 4} },
			}, 5},
		"only the record remembers": {planner.RestoreOperation, []func(*Scene){
			ran(planner.RestoreOperation, `{"name":"x","generation":6}`, rkev1.OperationStateCancelled),
		}, 7},
		"the planner was told of one that the Cluster has no more": {planner.KeysOperation, []func(*Scene){
			func(s *Scene) { s.ControlPlane.Spec.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 3} },
		}, 4},
		"certificates are known by what was done": {planner.CertificatesOperation, []func(*Scene){
			func(s *Scene) { s.ControlPlane.Status.CertificateRotationGeneration = 5 },
		}, 6},
		"certificates that failed": {planner.CertificatesOperation, []func(*Scene){
			func(s *Scene) { s.ControlPlane.Status.CertificateRotationGeneration = 5 },
			ran(planner.CertificatesOperation, `{"generation":8,"services":["etcd"]}`, rkev1.OperationStateFailed),
		}, 9},
		"other kinds do not count": {planner.KeysOperation, []func(*Scene){
			spec(func(c *provv1.RKEConfig) { c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 9} }),
			ran(planner.SnapshotOperation, `{"generation":8}`, rkev1.OperationStateSucceeded),
		}, 1},
	} {
		if got := demoScene(tc.is...).NextGeneration(tc.kind); got != tc.want {
			t.Errorf("%s: generation %d, want %d", name, got, tc.want)
		}
	}
}

// A version change is refused if the restore must wait for another operation. The spec has the version at once, so a
// live cluster would install it before the restore.
func TestPlace_RefusesAVersionThatComesBeforeItsRestore(t *testing.T) {
	t.Parallel()
	back := Order{Kind: planner.RestoreOperation, Wish: Wish{Name: "s"}, KubernetesVersion: "v1.35.3+rke2r1",
		ReplacesRunning: true}
	take := spec(func(c *provv1.RKEConfig) { c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 3} })
	for name, tc := range map[string]struct {
		is   []func(*Scene)
		want string
	}{
		"nothing else was asked for": {},
		"all else has ended": {is: []func(*Scene){take, ran(planner.SnapshotOperation, `{"generation":3}`,
			rkev1.OperationStateFailed)}},
		"another restore runs": {
			is: []func(*Scene){ran(back.Kind, `{"name":"r","generation":3}`, rkev1.OperationStateRunning)}},
		"a key rotation that is off": {is: []func(*Scene){spec(func(c *provv1.RKEConfig) {
			c.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: -1}
		})}},
		"the cluster is stopped": {is: []func(*Scene){
			take, ran(back.Kind, `{"name":"r","generation":3}`, rkev1.OperationStateFailed), func(s *Scene) {
				s.ControlPlane.Status.Operations[0].Stopped = true
			},
		}},
		"a snapshot is taken": {[]func(*Scene){take, ran(planner.SnapshotOperation, `{"generation":3}`,
			rkev1.OperationStateRunning)},
			"the etcd snapshot of cluster a/demo runs, and a live cluster could get the " +
				"version when it has ended"},
		"a snapshot is to be taken": {[]func(*Scene){take},
			"the etcd snapshot of cluster a/demo waits to begin, with generation 3, and a " +
				"live cluster could get the version before the restore"},
		"the planner was told of one that the Cluster has no more": {
			[]func(*Scene){func(s *Scene) {
				s.ControlPlane.Spec.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 1}
			}},
			"the encryption key rotation of cluster a/demo waits to begin",
		},
	} {
		_, _, err := demoScene(tc.is...).Place(back)
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
		plain := back
		plain.KubernetesVersion = ""
		if _, _, err := demoScene(tc.is...).Place(plain); err != nil {
			t.Errorf("%s: without a version: %v", name, err)
		}
	}
}

// A request is written only if the state has not changed since the user's confirmation.
func TestPlace_RefusesWhatIsNotAsItWasAgreedTo(t *testing.T) {
	t.Parallel()
	kind := planner.RestoreOperation
	was := []func(*Scene){
		spec(func(c *provv1.RKEConfig) {
			c.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "r", Generation: 2}
		}),
		ran(kind, `{"name":"r","generation":2}`, rkev1.OperationStateRunning),
	}
	agreed := demoScene(was...)
	for name, tc := range map[string]struct {
		then    func(*Scene)
		refused bool
	}{
		"nothing has changed": {func(*Scene) {}, false},
		"the user did not see the change": {func(s *Scene) {
			s.Cluster.ResourceVersion, s.ControlPlane.Status.Operations[0].Step = "8", "another step"
		}, false},
		"it is another cluster":  {func(s *Scene) { s.Cluster.UID = "b" }, true},
		"it has another version": {func(s *Scene) { s.Cluster.Spec.KubernetesVersion = "v2" }, true},
		"a user withdrew the request": {func(s *Scene) { s.Cluster.Spec.RKEConfig.ETCDSnapshotRestore = nil },
			true},
		"a user asked for something else": {func(s *Scene) { s.Cluster.Spec.RKEConfig.ETCDSnapshotRestore.Name = "x" },
			true},
		"it has ended": {func(s *Scene) {
			s.ControlPlane.Status.Operations[0].State = rkev1.OperationStateSucceeded
		}, true},
		"it has begun again": {func(s *Scene) { s.ControlPlane.Status.Operations[0].Attempt = 2 }, true},
		"it is forgotten":    {func(s *Scene) { s.ControlPlane.Status.Operations = nil }, true},
	} {
		s := demoScene(append(slices.Clone(was), tc.then)...)
		_, _, err := s.Place(Order{Kind: kind, Wish: Wish{Name: "s"}, ReplacesRunning: true, Confirmed: &agreed})
		if (err != nil) != tc.refused || err != nil && err.Error() != changedSince {
			t.Errorf("%s: error %v, refused %t", name, err, tc.refused)
		}
	}
}

// changedSince is the refusal of a restore that the user has confirmed for another state.
const changedSince = "cluster a/demo or its last etcd restore has changed since the question: nothing was asked " +
	"for; run the command again"

func TestPlace_RefusesWhatWouldDoNothing(t *testing.T) {
	t.Parallel()
	take := Order{Kind: planner.SnapshotOperation}
	marks := func(annotations map[string]string) func(*Scene) {
		return func(s *Scene) { s.Cluster.Annotations = annotations }
	}
	for name, tc := range map[string]struct {
		order Order
		is    []func(*Scene)
		want  string
	}{
		"a deleted cluster": {take, []func(*Scene){func(s *Scene) {
			s.Cluster.DeletionTimestamp = &metav1.Time{}
		}}, "cluster a/demo is being deleted"},
		"an imported cluster": {take, []func(*Scene){func(s *Scene) {
			s.Cluster.Spec.RKEConfig = nil
		}}, "cluster a/demo has no spec.rkeConfig"},
		"a released cluster": {take,
			[]func(*Scene){
				marks(map[string]string{rkev1.ReleasedByAnnotation: "x"})}, "instance x has released cluster a/demo"},
		"a cluster of another manager": {take, []func(*Scene){marks(nil)},
			"no Drover manages cluster a/demo: no Drover starts a request until it is adopted; drover adopt demo"},
		"a cluster without control plane": {take, []func(*Scene){func(s *Scene) {
			s.ControlPlane = nil
		}}, "cluster a/demo has no control plane yet; drover explain demo -n a"},
		"the operation runs": {take,
			[]func(*Scene){ran(take.Kind, `{"generation":3}`,
				rkev1.OperationStateRunning)},
			"the etcd snapshot of cluster a/demo runs already, at generation 3: ask again"},
		"the way to stop what runs": {take,
			[]func(*Scene){ran(take.Kind, `{"generation":3}`,
				rkev1.OperationStateRunning)}, "remove spec.rkeConfig.etcdSnapshotCreate"},
		"a service of K3s": {Order{Kind: planner.CertificatesOperation,
			Wish: Wish{Services: []string{"kubelet", "k3s-server"}}}, nil,
			`cluster a/demo is one of rke2, which does not have k3s-server`},
	} {
		if _, _, err := demoScene(tc.is...).Place(tc.order); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

func TestPlace_NotesWhatElseThereIsToKnow(t *testing.T) {
	t.Parallel()
	take := Order{Kind: planner.SnapshotOperation}
	restore := Order{Kind: planner.RestoreOperation, Wish: Wish{Name: "s"}, ReplacesRunning: true}
	for name, tc := range map[string]struct {
		order Order
		is    []func(*Scene)
		want  []string
	}{
		"nothing": {order: take},
		"the last one has ended": {take, []func(*Scene){
			spec(func(c *provv1.RKEConfig) { c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 3} }),
			ran(take.Kind, `{"generation":3}`, rkev1.OperationStateSucceeded),
		}, nil},
		"the certificates of the spec were rotated": {Order{Kind: planner.CertificatesOperation}, []func(*Scene){
			spec(func(c *provv1.RKEConfig) { c.RotateCertificates = &rkev1.RotateCertificates{Generation: 3} }),
			func(s *Scene) { s.ControlPlane.Status.CertificateRotationGeneration = 3 },
		}, nil},
		"the last one has not begun": {take, []func(*Scene){
			spec(func(c *provv1.RKEConfig) { c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 3} }),
		}, []string{"the request with generation 3 has not begun, and this one takes its place"}},
		"another operation runs": {take,
			[]func(*Scene){ran(planner.CertificatesOperation, `{}`, rkev1.OperationStateRunning)},
			[]string{"it begins when the running certificate rotation has ended"}},
		"a restore starts again": {restore,
			[]func(*Scene){ran(restore.Kind, `{"name":"r","generation":2}`, rkev1.OperationStateRunning)},
			[]string{"the running etcd restore, at generation 2, stops at once, and the new one starts from the " +
				"beginning"}},
	} {
		_, got, err := demoScene(tc.is...).Place(tc.order)
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, notes (-want +got):\n%s", name, err, diff)
		}
	}
}

// The patch replaces the former request, applies to one version of the Cluster, and has the same result as the
// previewed edit.
func TestPatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		order Order
		want  string
		then  func(*provv1.ClusterSpec)
	}{
		"a snapshot": {
			Order{Kind: planner.SnapshotOperation}, `{"rkeConfig":{"etcdSnapshotCreate":{"generation":1}}}`,
			func(s *provv1.ClusterSpec) { s.RKEConfig.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1} },
		},
		"a restore with a version": {
			Order{Kind: planner.RestoreOperation, Wish: Wish{Name: "s"}, KubernetesVersion: "v1.35.3+rke2r1"},
			`{"kubernetesVersion":"v1.35.3+rke2r1","rkeConfig":{"etcdSnapshotRestore":{"generation":3,"name":"s","restoreRKEConfig":null}}}`,
			func(s *provv1.ClusterSpec) {
				s.KubernetesVersion = "v1.35.3+rke2r1"
				s.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "s", Generation: 3}
			},
		},
		"all certificates": {
			Order{Kind: planner.CertificatesOperation},
			`{"rkeConfig":{"rotateCertificates":{"generation":6,"services":null}}}`,
			func(s *provv1.ClusterSpec) { s.RKEConfig.RotateCertificates = &rkev1.RotateCertificates{Generation: 6} },
		},
		"certificates of a service": {
			Order{Kind: planner.CertificatesOperation, Wish: Wish{Services: []string{"kubelet"}}},
			`{"rkeConfig":{"rotateCertificates":{"generation":6,"services":["kubelet"]}}}`,
			func(s *provv1.ClusterSpec) {
				s.RKEConfig.RotateCertificates = &rkev1.RotateCertificates{Generation: 6, Services: []string{"kubelet"}}
			},
		},
		"keys": {
			Order{Kind: planner.KeysOperation}, `{"rkeConfig":{"rotateEncryptionKeys":{"generation":1}}}`,
			func(s *provv1.ClusterSpec) {
				s.RKEConfig.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 1}
			},
		},
	} {
		s := demoScene(spec(func(c *provv1.RKEConfig) {
			c.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "before", Generation: 2,
				RestoreRKEConfig: rkev1.RestoreModeAll}
			c.RotateCertificates = &rkev1.RotateCertificates{Generation: 5, Services: []string{"etcd", "scheduler"}}
		}), func(s *Scene) { s.ControlPlane.Status.CertificateRotationGeneration = 5 })
		asked, _, err := s.Place(tc.order)
		check(t, err)
		patch, err := tc.order.Patch(s.Cluster, asked)
		check(t, err)
		if want := `{"metadata":{"resourceVersion":"7"},"spec":` + tc.want + `}`; string(patch) != want {
			t.Errorf("%s: patch\n%s\nwant\n%s", name, patch, want)
		}
		edited, err := Patched(s.Cluster, patch)
		check(t, err)
		want := s.Cluster.DeepCopy()
		tc.then(&want.Spec)
		if diff := cmp.Diff(want, edited); diff != "" {
			t.Errorf("%s: edited (-want +got):\n%s", name, diff)
		}
	}
}

// The planner's record of a request has the same form as the spec, so both are read alike.
func TestWish_IsReadFromEveryKindOfRequest(t *testing.T) {
	t.Parallel()
	config := provv1.RKEConfig{
		ETCDSnapshotCreate: &rkev1.ETCDSnapshotCreate{Generation: 1},
		ETCDSnapshotRestore: &rkev1.ETCDSnapshotRestore{Name: "s", Generation: 2,
			RestoreRKEConfig: rkev1.RestoreModeAll},
		RotateCertificates:   &rkev1.RotateCertificates{Generation: 3, Services: []string{"etcd"}},
		RotateEncryptionKeys: &rkev1.RotateEncryptionKeys{Generation: 4},
	}
	requests := []any{config.ETCDSnapshotCreate, config.ETCDSnapshotRestore, config.RotateCertificates,
		config.RotateEncryptionKeys}
	want := []Wish{{Generation: 1}, {Generation: 2, Name: "s", RestoreRKEConfig: rkev1.RestoreModeAll},
		{Generation: 3, Services: []string{"etcd"}}, {Generation: 4}}
	for i, kind := range planner.OperationKinds() {
		text, err := json.Marshal(requests[i])
		check(t, err)
		for _, got := range []*Wish{WishIn(config, kind.Field),
			Requested(rkev1.OperationRecord{Request: string(text)})} {
			if diff := cmp.Diff(&want[i], got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", kind.Field, diff)
			}
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
