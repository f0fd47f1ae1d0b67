package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// A pause and its note are one write, and a pause without the note is never ended.
func TestAct_PausesAreOwned(t *testing.T) {
	const note = "drover.io/paused-by-operation"
	for name, tc := range map[string]struct {
		annotations map[string]string
		paused      *bool
		effect      planner.Effect
		wantWrite   bool
		wantNote    string
		wantPaused  bool
	}{
		"an operation pauses": {effect: planner.PauseCluster{Operation: "x"}, wantWrite: true, wantNote: "x",
			wantPaused: true},
		"the user paused it first": {paused: new(true), effect: planner.PauseCluster{Operation: "x"},
			wantPaused: true},
		"an operation has paused it": {annotations: map[string]string{note: "x"}, paused: new(true),
			effect: planner.PauseCluster{Operation: "x"}, wantNote: "x", wantPaused: true},
		"an operation ends its pause": {annotations: map[string]string{note: "x"}, paused: new(true),
			effect: planner.ResumeCluster{}, wantWrite: true},
		"the user's pause stays": {paused: new(true), effect: planner.ResumeCluster{}, wantPaused: true},
		"the user ended the pause first": {annotations: map[string]string{note: "x"}, effect: planner.ResumeCluster{},
			wantWrite: true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Annotations: tc.annotations},
				Spec: clusterv1.ClusterSpec{Paused: tc.paused}}
			clusters := fake.NewMockControllerInterface[*clusterv1.Cluster,
				*clusterv1.ClusterList](gomock.NewController(t))
			writes := 0
			clusters.EXPECT().Update(gomock.Any()).DoAndReturn(func(c *clusterv1.Cluster) (*clusterv1.Cluster, error) {
				writes++
				return c, nil
			}).AnyTimes()
			h := &handler{Deps: Deps{Clusters: clusters, Now: time.Now}, written: newWritten()}
			a := &actor{handler: h, cp: &rkev1.RKEControlPlane{}, view: &view{cluster: cluster}}
			if err := a.one(tc.effect); err != nil {
				t.Fatal(err)
			}
			got := a.view.cluster
			paused := got.Spec.Paused != nil && *got.Spec.Paused
			if diff := cmp.Diff([]any{tc.wantWrite, tc.wantNote, tc.wantPaused},
				[]any{writes == 1, got.Annotations[note], paused}); diff != "" {
				t.Errorf("written, note, paused (-want +got):\n%s", diff)
			}
		})
	}
}

// Users wait for a pause, so its text is not held back like others.
func TestOnlyTexts_APauseIsMore(t *testing.T) {
	status := func(message string) rkev1.RKEControlPlaneStatus {
		return rkev1.RKEControlPlaneStatus{Conditions: []rkev1.GenericCondition{{Type: rkev1.ConditionReady,
			Status: rkev1.ConditionUnknown, Reason: rkev1.ReasonWaiting, Message: message}}}
	}
	for message, want := range map[string]bool{"draining node": true, planner.PausedMessage: false} {
		if got := onlyTexts(status("configuring"), status(message)); got != want {
			t.Errorf("%s: %v", message, got)
		}
	}
}
