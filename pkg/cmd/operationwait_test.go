package cmd

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

// staged is a management cluster with one scene and optional errors.
type staged struct {
	scene
	cluster, controlPlane, patch error
	// hangs: requests hang until the channel is closed.
	hangs chan struct{}
	// patches that arrived.
	patches []string
}

func (s *staged) api() operationAPI {
	return operationAPI{stagedClusters{s}, stagedControlPlanes{s}}
}

type stagedClusters struct{ *staged }

func (s stagedClusters) Get(string, string, metav1.GetOptions) (*provv1.Cluster, error) {
	if s.hangs != nil {
		<-s.hangs
	}
	return s.Cluster, s.staged.cluster
}

func (s stagedClusters) Patch(_, _ string, _ types.PatchType, data []byte, _ ...string) (*provv1.Cluster, error) {
	s.patches = append(s.patches, string(data))
	return s.Cluster, s.patch
}

type stagedControlPlanes struct{ *staged }

func (s stagedControlPlanes) Get(string, string, metav1.GetOptions) (*rkev1.RKEControlPlane, error) {
	return s.ControlPlane, s.staged.controlPlane
}

// Only an answer about the control plane itself proves that it is gone. A proxy's error page does not end the wait.
func TestRead_TellsWhatIsGoneFromWhatIsAway(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err             error
		gone, isRefusal bool
	}{
		"it is there": {},
		"it is gone":  {apierrors.NewNotFound(inspect.ControlPlaneResource(), "demo"), true, false},
		"it may not be read": {apierrors.NewForbidden(inspect.ControlPlaneResource(), "demo",
			errors.New("a tenant")), false, true},
		"a proxy refuses the request": {apierrors.NewGenericServerResponse(http.StatusForbidden, "get",
			inspect.ControlPlaneResource(), "demo", "<html>", 0, true), false, false},
		"a proxy finds nothing": {apierrors.NewGenericServerResponse(http.StatusNotFound, "get",
			inspect.ControlPlaneResource(), "demo", "<html>", 0, true), false, false},
		"the kind is not served": {apierrors.NewNotFound(schema.GroupResource{}, ""), false, false},
		"no server answers":      {errors.New("connection refused"), false, false},
	} {
		s, isRefusal, err := (&staged{scene: demoScene(), controlPlane: tc.err}).api().read("a", "demo")
		if isRefusal != tc.isRefusal || (err == nil) != (tc.err == nil || tc.gone) || err == nil &&
			(s.ControlPlane == nil) != tc.gone {
			t.Errorf("%s: control plane %v, refusal %t, error %v", name, s.ControlPlane, isRefusal, err)
		}
	}
}

// A user that ends the command before the request is written learns that nothing was requested.
func TestAsk_EndsWithTheUserBeforeItAsks(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	world := &staged{scene: demoScene()}
	_, _, err := world.api().ask(ctx, "a", "demo", order{Kind: planner.SnapshotOperation})
	if err == nil || err.Error() != "nothing was asked for: context canceled" || len(world.patches) > 0 {
		t.Errorf("error %v, patches %v", err, world.patches)
	}
}

func TestAsk_TellsWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	clusters := provv1.SchemeGroupVersion.WithResource("clusters").GroupResource()
	const said, unknown = "ask on cluster a/demo: ",
		"ask on cluster a/demo: it may have been asked for, which drover explain demo -n a shows: "
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"the API server says no": {apierrors.NewForbidden(clusters, "demo", errors.New("a tenant")), said +
			"clusters.provisioning"},
		"the spec is not valid": {apierrors.NewBadRequest("x"), said + "x"},
		"no answer in time":     {context.DeadlineExceeded, unknown + "context deadline exceeded"},
		"the line broke":        {errors.New("unexpected EOF"), unknown + "unexpected EOF"},
		"a proxy gave up": {apierrors.NewGenericServerResponse(http.StatusBadGateway, "patch", clusters,
			"demo", "<html>", 0, true), unknown},
		"etcd has another leader": {apierrors.NewInternalError(errors.New("etcdserver: leader changed")),
			unknown},
		"the API server itself gave up": {apierrors.NewTimeoutError("too long", 1), unknown},
	} {
		_, _, err := (&staged{scene: demoScene(), patch: tc.err}).api().ask(t.Context(), "a", "demo",
			order{Kind: planner.SnapshotOperation})
		if !errors.Is(err, tc.err) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

// A patch without an answer in time is an error.
func TestAskToRoll_TellsOfATimeLimit(t *testing.T) {
	t.Parallel()
	err := askToRoll(stagedClusters{&staged{scene: demoScene(), patch: context.DeadlineExceeded}}, "a", "demo", "1",
		nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a roll without an answer: error %v", err)
	}
}

// An API server that does not answer delays neither Ctrl-C nor --timeout, and an outage does not end the wait.
func TestAwait_OutlivesTheAPIServerAndEndsInTime(t *testing.T) {
	for name, err := range map[string]error{"it hangs": nil, "it is away": errors.New("busy")} {
		synctest.Test(t, func(t *testing.T) {
			world := &staged{scene: demoScene(), cluster: err}
			if err == nil {
				world.hangs = make(chan struct{})
				defer close(world.hangs)
			}
			cmd := NewCommand(nil)
			cmd.SetErr(&bytes.Buffer{})
			cmd.SetContext(t.Context())
			began := time.Now()
			err := (&operationOptions{inspectOptions: &inspectOptions{}, timeout: time.Minute}).await(cmd, world.api(),
				"demo", order{Kind: planner.SnapshotOperation})
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
				t.Errorf("%s: it took %s: %v", name, took, err)
			}
		})
	}
}

// An expired credential ends the wait, because it stays invalid.
func TestVigil_EndsWithTheCredential(t *testing.T) {
	t.Parallel()
	expired := sighting{away: apierrors.NewUnauthorized("expired")}
	for name, tc := range map[string]struct {
		looks []sighting
		want  string
		told  []string
	}{
		"for a minute": {
			append([]sighting{{line: "it works", begun: true}},
				slices.Repeat([]sighting{expired}, refusedCredentials)...),
			"the etcd snapshot is not waited for any more, as the management cluster refuses the credential and " +
				"goes on; drover explain demo -n a shows how it gets on: expired",
			[]string{"it works", "cannot look, and tries again: expired"},
		},
		"now and then": {
			[]sighting{expired, expired, {line: "it works", begun: true}, expired}, "",
			[]string{"cannot look, and tries again: expired", "it works", "cannot look, and tries again: expired"},
		},
		"the API server is away": {
			[]sighting{{away: errors.New("refused")}, {away: errors.New("refused")}, {away: errors.New("refused")},
				{away: errors.New("refused")}}, "",
			[]string{"cannot look, and tries again: refused"},
		},
		"what a machine says does nothing to the terminal": {[]sighting{{line: "a\x1b[2Jb\nc"}}, "",
			[]string{"a [2Jb c"}},
	} {
		var told []string
		v := &vigil{order: order{Kind: planner.SnapshotOperation}, namespace: "a", name: "demo",
			say: func(line string) { told = append(told, line) }}
		var err error
		for i, seen := range tc.looks {
			var ended bool
			ended, err = v.take(seen)
			if ended != (tc.want != "" && i == len(tc.looks)-1) {
				t.Errorf("%s: ended %t at look %d", name, ended, i)
			}
		}
		if diff := cmp.Diff(tc.told, told); diff != "" || (err == nil) != (tc.want == "") || err != nil &&
			err.Error() != tc.want {
			t.Errorf("%s: error %v, want %q (-want +got):\n%s", name, err, tc.want, diff)
		}
	}
}

// A user that stops waiting learns what happens to the request. A request that has not begun can begin later.
func TestVigil_TellsWhatBecomesOfTheRequest(t *testing.T) {
	t.Parallel()
	const shows = "; drover explain demo -n a shows how it gets on: "
	for name, tc := range map[string]struct {
		last    *sighting
		version string
		why     error
		want    string
	}{
		"it runs, at the end of the time": {&sighting{begun: true}, "", context.DeadlineExceeded,
			"has not ended within 1m0s and goes on" + shows},
		"it runs, and the user ends it": {&sighting{begun: true}, "", context.Canceled,
			"is not waited for any more and goes on" + shows},
		"nothing was seen": {nil, "", context.Canceled, "is not waited for any more and goes on" + shows},
		"it has not begun, and the user ends it": {&sighting{}, "", context.Canceled,
			"is not waited for any more: its request still waits for its turn; to take it back, remove " +
				"spec.rkeConfig.etcdSnapshotRestore" + shows},
		"it has not begun, at the end of the time, and brought a version": {&sighting{}, "v1", context.DeadlineExceeded,
			"has not begun within 1m0s: its request still waits for its turn; to take it back, remove " +
				"spec.rkeConfig.etcdSnapshotRestore and set spec.kubernetesVersion back" + shows},
	} {
		v := &vigil{order: order{Kind: planner.RestoreOperation, KubernetesVersion: tc.version}, namespace: "a",
			name: "demo", timeout: time.Minute, last: tc.last}
		if got, want := v.unended(tc.why), "the etcd restore "+tc.want+tc.why.Error(); got.Error() != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	kind, asked := planner.SnapshotOperation, wish{Generation: 4}
	ask := func(generation int) func(*scene) {
		return spec(func(c *provv1.RKEConfig) {
			c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: generation}
		})
	}
	passed := func(generation int) func(*scene) {
		return func(s *scene) {
			s.ControlPlane.Spec.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: generation}
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
			is: []func(*scene){ask(4), says(rkev1.ConditionReady, "all is well"), func(s *scene) {
				s.Cluster.Status.Conditions = []rkev1.GenericCondition{{Type: provv1.ConditionUpdated,
					Status: rkev1.ConditionFalse, Message: "spec.x: Invalid value"}}
			}},
			want: "etcd snapshot: it has not begun; the cluster says: spec.x: Invalid value",
		},
		"it was taken back, and the planner is not told of that yet": {is: []func(*scene){passed(4)},
			want: "etcd snapshot: it has not begun"},
		"another one took its place, and the planner is not told yet": {is: []func(*scene){ask(5), passed(4)},
			want: "etcd snapshot: it has not begun"},
		"what a machine says does nothing to the terminal": {
			is: []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateFailed), func(s *scene) {
				s.ControlPlane.Status.Operations[0].Message = "\x1b[2J\nok"
			}}, ended: true,
			err: "the etcd snapshot failed:  [2J ok; docs/reasons/SnapshotFailed.md says what to do",
		},
		"the one before failed": {
			is: []func(*scene){ask(4), ran(kind, `{"generation":3}`, rkev1.OperationStateFailed),
				says(rkev1.ConditionReady, "m drains")},
			want: "etcd snapshot: it has not begun; the cluster says: m drains",
		},
		"it runs, and the cluster says how": {
			is: []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateRunning),
				says(rkev1.ConditionReady, "etcd snapshot: waiting for a snapshot on m")},
			want: "etcd snapshot: waiting for a snapshot on m",
		},
		"it runs, and only the record says how": {is: []func(*scene){ask(4),
			ran(kind, `{"generation":4}`, rkev1.OperationStateRunning)}, want: "a step"},
		"it goes on after a newer request": {is: []func(*scene){ask(5),
			ran(kind, `{"generation":4}`, rkev1.OperationStateRunning)}, want: "a step"},
		"it is done": {is: []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateSucceeded)},
			want: "the etcd snapshot is done", ended: true},
		"it is done, with something to say": {
			is: []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateSucceeded),
				says(kind.Condition, "left out: m")},
			want: "left out: m", ended: true,
		},
		"it failed": {
			is: []func(*scene){ask(4), ran(kind, `{"generation":4}`, rkev1.OperationStateFailed)}, ended: true,
			err: "the etcd snapshot failed: m is lost; docs/reasons/SnapshotFailed.md says what to do",
		},
		"it was cancelled": {
			is: []func(*scene){ran(kind, `{"generation":4}`, rkev1.OperationStateCancelled)}, ended: true,
			err: "the etcd snapshot was cancelled: its request was taken back while it ran; " +
				"docs/reasons/Cancelled.md says what stays",
		},
		"it was taken back in time": {ended: true,
			err: "the request for the etcd snapshot was taken back before it began"},
		"another request came before it": {
			is: []func(*scene){ask(5), ran(kind, `{"generation":5}`, rkev1.OperationStateRunning)}, ended: true,
			err: "another request took the place of this one, or came after it: spec.rkeConfig.etcdSnapshotCreate " +
				"has generation 5, and not 4",
		},
		"the cluster goes": {is: []func(*scene){ask(4), func(s *scene) {
			s.Cluster.DeletionTimestamp = &metav1.Time{}
		}}, ended: true, err: "cluster a/demo is being deleted, and the etcd snapshot with it"},
		"the control plane is gone": {is: []func(*scene){ask(4), func(s *scene) {
			s.ControlPlane = nil
		}}, ended: true, err: "the control plane of cluster a/demo is gone, and the etcd snapshot with it"},
	} {
		got := followed(demoScene(tc.is...), order{Kind: kind, Wish: asked})
		if got.line != tc.want || got.ended != tc.ended || (got.err == nil) != (tc.err == "") || got.err != nil &&
			got.err.Error() != tc.err {
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
	if got := followed(s, order{Kind: planner.RestoreOperation, Wish: wish{Name: "s", Generation: 2}}); !got.ended ||
		got.err == nil {
		t.Errorf("another snapshot is this one: %+v", got)
	}
	done := demoScene(func(s *scene) { s.ControlPlane.Status.CertificateRotationGeneration = 4 },
		ran(planner.CertificatesOperation, `{"generation":5}`, rkev1.OperationStateRunning))
	if got := followed(done, order{Kind: planner.CertificatesOperation, Wish: wish{Generation: 4}}); !got.ended ||
		got.err != nil || got.line != "the certificate rotation is done" {
		t.Errorf("what is done is not known: %+v", got)
	}
}

// A restore does not succeed if another program resets spec.kubernetesVersion, because the data are not on the
// requested version.
func TestFollow_TellsThatSomebodyPutTheVersionBack(t *testing.T) {
	t.Parallel()
	kind, asked := planner.RestoreOperation, wish{Name: "s", Generation: 4}
	const request = `{"name":"s","generation":4}`
	const back = `another user or program has set spec.kubernetesVersion to "v1.36.2+rke2r1", and the etcd restore asked for v1.35.3+rke2r1`
	for name, tc := range map[string]struct {
		version string
		state   rkev1.OperationState
		want    string
		err     string
	}{
		"it is as it was asked for": {"v1.36.2+rke2r1", rkev1.OperationStateSucceeded, "the etcd restore is done",
			""},
		"none was asked for": {"", rkev1.OperationStateSucceeded, "the etcd restore is done", ""},
		"the restore is done": {"v1.35.3+rke2r1", rkev1.OperationStateSucceeded, "the etcd restore is done",
			"the etcd restore is done, but " + back},
		"the restore goes on": {"v1.35.3+rke2r1", rkev1.OperationStateRunning, "a step; " + back, ""},
		"the restore fails of its own": {"v1.35.3+rke2r1", rkev1.OperationStateFailed, "",
			"the etcd restore failed: m is lost; docs/reasons/RestoreFailed.md says what to do"},
	} {
		got := followed(demoScene(ran(kind, request, tc.state)), order{Kind: kind, Wish: asked,
			KubernetesVersion: tc.version})
		if got.line != tc.want || got.ended != (tc.state != rkev1.OperationStateRunning) ||
			(got.err == nil) != (tc.err == "") || got.err != nil && got.err.Error() != tc.err {
			t.Errorf("%s: %+v; want %q, %q", name, got, tc.want, tc.err)
		}
	}
}

// demoScene is a cluster that a Drover manages, without requests.
func demoScene(changes ...func(*scene)) scene {
	s := scene{
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
func ran(kind planner.OperationKind, request string, state rkev1.OperationState) func(*scene) {
	return func(s *scene) {
		status := &s.ControlPlane.Status
		status.Operations = append(status.Operations, rkev1.OperationRecord{Name: kind.Record, Request: request,
			State: state, Message: "m is lost", Step: "a step"})
	}
}

// says gives the control plane a condition.
func says(condition, message string) func(*scene) {
	return func(s *scene) {
		s.ControlPlane.Status.Conditions = append(s.ControlPlane.Status.Conditions,
			rkev1.GenericCondition{Type: condition, Message: message})
	}
}

func spec(change func(*provv1.RKEConfig)) func(*scene) {
	return func(s *scene) { change(s.Cluster.Spec.RKEConfig) }
}

// Every kind of operation has a page about its failure.
func TestFailurePages_Exist(t *testing.T) {
	t.Parallel()
	for _, kind := range planner.OperationKinds() {
		if _, err := os.Stat("../../docs/reasons/" + failurePages[kind] + ".md"); err != nil {
			t.Errorf("%s: %v", kind.Title, err)
		}
	}
}

// A refusal names the flag that it is about.
func TestPlace_NamesTheFlag(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]order{
		"--kubernetes-version: the etcd snapshot of cluster a/demo waits to begin": {Kind: planner.RestoreOperation,
			Wish: wish{Name: "s"}, KubernetesVersion: "v1.35.3+rke2r1"},
		"--service: cluster a/demo is one of rke2, which does not have k3s-server": {
			Kind: planner.CertificatesOperation, Wish: wish{Services: []string{"k3s-server"}}},
	} {
		s := demoScene(spec(func(c *provv1.RKEConfig) {
			c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 3}
		}))
		if _, _, err := place(s, o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// changedSince is the refusal of a restore that the user has confirmed for another state.
const changedSince = "cluster a/demo or its last etcd restore has changed since the question: nothing was asked " +
	"for; run the command again"
