package cmd

import (
	"bytes"
	"context"
	"errors"
	"net/http"
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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

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
	return operationAPI{stagedClusters{s}, stagedControlPlanes{s}, stagedCores{}}
}

type stagedClusters struct{ *staged }

func (s stagedClusters) Get(string, string, metav1.GetOptions) (*provv1.Cluster, error) {
	if s.hangs != nil {
		<-s.hangs
	}
	return s.scene.cluster, s.staged.cluster
}

func (s stagedClusters) Patch(_, _ string, _ types.PatchType, data []byte, _ ...string) (*provv1.Cluster, error) {
	s.patches = append(s.patches, string(data))
	return s.scene.cluster, s.patch
}

type stagedControlPlanes struct{ *staged }

func (s stagedControlPlanes) Get(string, string, metav1.GetOptions) (*rkev1.RKEControlPlane, error) {
	return s.scene.controlPlane, s.staged.controlPlane
}

type stagedCores struct{}

func (stagedCores) Get(string, string, metav1.GetOptions) (*clusterv1.Cluster, error) {
	return nil, errors.New("it may not be read")
}

// Only an answer about the control plane itself proves that it is gone. A proxy's error page does not end the wait.
func TestRead_TellsWhatIsGoneFromWhatIsAway(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err             error
		gone, isRefusal bool
	}{
		"it is there":                 {},
		"it is gone":                  {apierrors.NewNotFound(inspect.ControlPlaneResource(), "demo"), true, false},
		"it may not be read":          {apierrors.NewForbidden(inspect.ControlPlaneResource(), "demo", errors.New("a tenant")), false, true},
		"somebody on the way says no": {apierrors.NewGenericServerResponse(http.StatusForbidden, "get", inspect.ControlPlaneResource(), "demo", "<html>", 0, true), false, false},
		"a proxy knows nothing":       {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", inspect.ControlPlaneResource(), "demo", "<html>", 0, true), false, false},
		"the kind is not served":      {apierrors.NewNotFound(schema.GroupResource{}, ""), false, false},
		"nobody answers":              {errors.New("connection refused"), false, false},
	} {
		s, isRefusal, err := (&staged{scene: demoScene(), controlPlane: tc.err}).api().read("a", "demo")
		if isRefusal != tc.isRefusal || (err == nil) != (tc.err == nil || tc.gone) || err == nil && (s.controlPlane == nil) != tc.gone {
			t.Errorf("%s: control plane %v, refusal %t, error %v", name, s.controlPlane, isRefusal, err)
		}
	}
}

// A user that ends the command before the request is written learns that nothing was requested.
func TestAsk_EndsWithTheUserBeforeItAsks(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	world := &staged{scene: demoScene()}
	_, _, err := world.api().ask(ctx, "a", "demo", order{kind: planner.SnapshotOperation})
	if err == nil || err.Error() != "nothing was asked for: context canceled" || len(world.patches) > 0 {
		t.Errorf("error %v, patches %v", err, world.patches)
	}
}

func TestAsk_TellsWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	clusters := provv1.SchemeGroupVersion.WithResource("clusters").GroupResource()
	const said, unknown = "ask on cluster a/demo: ", "ask on cluster a/demo: it may have been asked for, which drover explain demo -n a shows: "
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"the API server says no":        {apierrors.NewForbidden(clusters, "demo", errors.New("a tenant")), said + "clusters.provisioning"},
		"the spec is not valid":         {apierrors.NewBadRequest("x"), said + "x"},
		"nobody has answered in time":   {context.DeadlineExceeded, unknown + "context deadline exceeded"},
		"the line broke":                {errors.New("unexpected EOF"), unknown + "unexpected EOF"},
		"a proxy has given up":          {apierrors.NewGenericServerResponse(http.StatusBadGateway, "patch", clusters, "demo", "<html>", 0, true), unknown},
		"etcd has another leader":       {apierrors.NewInternalError(errors.New("etcdserver: leader changed")), unknown},
		"the API server itself gave up": {apierrors.NewTimeoutError("too long", 1), unknown},
	} {
		_, _, err := (&staged{scene: demoScene(), patch: tc.err}).api().ask(t.Context(), "a", "demo", order{kind: planner.SnapshotOperation})
		if !errors.Is(err, tc.err) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

// A patch without an answer in time is an error.
func TestAskToRoll_TellsOfATimeLimit(t *testing.T) {
	t.Parallel()
	err := askToRoll(stagedClusters{&staged{scene: demoScene(), patch: context.DeadlineExceeded}}, "a", "demo", "1", nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a roll that nobody has answered: error %v", err)
	}
}

// An API server that does not answer delays neither Ctrl-C nor --timeout.
func TestAwait_IsNotHeldByALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := &staged{scene: demoScene(), hangs: make(chan struct{})}
		defer close(world.hangs)
		cmd := NewCommand(nil)
		cmd.SetErr(&bytes.Buffer{})
		cmd.SetContext(t.Context())
		began := time.Now()
		err := (&operationOptions{inspectOptions: &inspectOptions{}, timeout: time.Minute}).await(cmd, world.api(), "demo", order{kind: planner.SnapshotOperation})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
			t.Errorf("it took %s: %v", took, err)
		}
	})
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
			append([]sighting{{line: "it works", begun: true}}, slices.Repeat([]sighting{expired}, refusedCredentials)...),
			"the etcd snapshot is not waited for any more, as the management cluster refuses the credential and goes on; drover explain demo -n a shows how it gets on: expired",
			[]string{"it works", "cannot look, and tries again: expired"},
		},
		"now and then": {
			[]sighting{expired, expired, {line: "it works", begun: true}, expired}, "", []string{"cannot look, and tries again: expired", "it works", "cannot look, and tries again: expired"},
		},
		"the API server is away": {
			[]sighting{{away: errors.New("refused")}, {away: errors.New("refused")}, {away: errors.New("refused")}, {away: errors.New("refused")}}, "",
			[]string{"cannot look, and tries again: refused"},
		},
		"what a machine says does nothing to the terminal": {[]sighting{{line: "a\x1b[2Jb\nc"}}, "", []string{"a [2Jb c"}},
	} {
		var told []string
		v := &vigil{order: order{kind: planner.SnapshotOperation}, namespace: "a", name: "demo", say: func(line string) { told = append(told, line) }}
		var err error
		for i, seen := range tc.looks {
			var ended bool
			ended, err = v.take(seen)
			if ended != (tc.want != "" && i == len(tc.looks)-1) {
				t.Errorf("%s: ended %t at look %d", name, ended, i)
			}
		}
		if diff := cmp.Diff(tc.told, told); diff != "" || (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
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
		"it runs, at the end of the time": {&sighting{begun: true}, "", context.DeadlineExceeded, "has not ended within 1m0s and goes on" + shows},
		"it runs, and the user ends it":   {&sighting{begun: true}, "", context.Canceled, "is not waited for any more and goes on" + shows},
		"nothing was seen":                {nil, "", context.Canceled, "is not waited for any more and goes on" + shows},
		"it has not begun, and the user ends it": {&sighting{}, "", context.Canceled,
			"is not waited for any more: its request still waits for its turn; to take it back, remove spec.rkeConfig.etcdSnapshotRestore" + shows},
		"it has not begun, at the end of the time, and brought a version": {&sighting{}, "v1", context.DeadlineExceeded,
			"has not begun within 1m0s: its request still waits for its turn; to take it back, remove spec.rkeConfig.etcdSnapshotRestore and set spec.kubernetesVersion back" + shows},
	} {
		v := &vigil{order: order{kind: planner.RestoreOperation, kubernetesVersion: tc.version}, namespace: "a", name: "demo", timeout: time.Minute, last: tc.last}
		if got, want := v.unended(tc.why), "the etcd restore "+tc.want+tc.why.Error(); got.Error() != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
