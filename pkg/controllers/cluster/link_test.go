package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// made returns a cluster that Drover created.
func made() *provv1.Cluster {
	return &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo"},
		Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}}}
}

type tunnels map[string]bool

func (t tunnels) Connected(id string) bool                 { return t[id] }
func (tunnels) Subscribe(context.Context, func(id string)) {}

// TestLink follows an agent's connection, and checks the management cluster's conditions.
func TestLink(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	connected, disconnected := "Connected=True", "Connected=False"
	deployed := func() []rkev1.GenericCondition {
		return []rkev1.GenericCondition{{Type: mgmtv3.ClusterConditionAgentDeployed, Status: rkev1.ConditionTrue}}
	}
	cases := map[string]struct {
		noTunnel, session, answered, came bool
		before                            []rkev1.GenericCondition
		after                             time.Duration
		want                              []string
		awaits                            time.Duration
	}{
		"no tunnel, and the API server has not answered":  {noTunnel: true},
		"no tunnel, and the API server has answered":      {noTunnel: true, answered: true, want: []string{connected}},
		"an agent that was never there is not missed":     {after: time.Hour},
		"the API server answers before there is an agent": {answered: true, want: []string{connected}},
		"an agent dials in": {session: true,
			want: []string{"AgentDeployed=True", connected}},
		"an agent of before may come back": {before: deployed(), after: 20 * time.Second,
			awaits: 40 * time.Second, want: []string{"AgentDeployed=True"}},
		"an agent of before has not come back": {before: deployed(), after: time.Minute,
			want: []string{"AgentDeployed=True", disconnected, "Ready=False"}},
		"an agent that came in this term goes": {before: deployed(), came: true, after: time.Second,
			want: []string{"AgentDeployed=True", disconnected, "Ready=False"}},
		"that the API server answered once is no agent": {before: deployed(), came: true, answered: true,
			want: []string{"AgentDeployed=True", disconnected, "Ready=False"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clusters := fake.NewMockControllerInterface[*provv1.Cluster, *provv1.ClusterList](gomock.NewController(t))
			if c.awaits > 0 {
				clusters.EXPECT().EnqueueAfter("n", "demo", c.awaits)
			}
			h := &handler{Deps: Deps{Clusters: clusters}, began: began}
			if !c.noTunnel {
				h.Tunnel = tunnels{"c-m-1": c.session}
			}
			if c.came {
				h.met.add("c-m-1")
			}
			management := &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-1"},
				Status: mgmtv3.ClusterStatus{Conditions: c.before}}
			seen := &Facts{
				cluster:    made(),
				management: management, now: began.Add(c.after),
				controlPlane: &rkev1.RKEControlPlane{
					Status: rkev1.RKEControlPlaneStatus{Conditions: []rkev1.GenericCondition{
						{Type: rkev1.ConditionStable, Status: rkev1.ConditionTrue},
					}}},
			}
			seen.link = h.linkOf(seen.cluster, management, seen.now)
			status := seen.managementStatus(c.answered)
			var got []string
			for _, kind := range []string{mgmtv3.ClusterConditionAgentDeployed, mgmtv3.ClusterConditionConnected,
				mgmtv3.ClusterConditionReady} {
				if condition := conditions.Get(status.Conditions, kind); condition != nil {
					got = append(got, kind+"="+condition.Status)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			management.Status = status
			seen.now = seen.now.Add(time.Hour)
			if again := seen.managementStatus(c.answered); cmp.Diff(status, again) != "" {
				t.Error("it is written again and again:", cmp.Diff(status, again))
			}
		})
	}
}

// TestLink_ReadyAgain: an agent that reconnects makes the cluster as ready as its control plane.
func TestLink_ReadyAgain(t *testing.T) {
	t.Parallel()
	plane := &rkev1.RKEControlPlane{Status: rkev1.RKEControlPlaneStatus{Conditions: []rkev1.GenericCondition{
		{Type: rkev1.ConditionStable, Status: rkev1.ConditionTrue},
		{Type: rkev1.ConditionReady, Status: rkev1.ConditionTrue},
	}}}
	seen := &Facts{cluster: made(), management: &mgmtv3.Cluster{}, controlPlane: plane}
	seen.link = link{agent: true, lost: true}
	seen.management.Status = seen.managementStatus(false)
	if ready := conditions.Get(seen.management.Status.Conditions, mgmtv3.ClusterConditionReady); ready == nil ||
		ready.Reason != reasonDisconnected {
		t.Fatalf("Ready is %v", ready)
	}
	seen.link = link{agent: true, connected: true}
	if status := seen.managementStatus(false); !conditions.IsTrue(status.Conditions, mgmtv3.ClusterConditionReady) ||
		!conditions.IsTrue(status.Conditions, mgmtv3.ClusterConditionConnected) {
		t.Errorf("conditions are %v", status.Conditions)
	}
}

// TestLink_Imported: the status of an imported cluster follows from its agent alone.
func TestLink_Imported(t *testing.T) {
	t.Parallel()
	seen := &Facts{cluster: &provv1.Cluster{}, management: &mgmtv3.Cluster{}}
	expect := func(when string, of link, want ...string) {
		t.Helper()
		seen.link = of
		seen.management.Status = seen.managementStatus(false)
		var got []string
		for _, condition := range seen.management.Status.Conditions {
			got = append(got, condition.Type+"="+condition.Status)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("no user has run the command", link{})
	expect("the agent is there", link{agent: true, connected: true}, "AgentDeployed=True", "Connected=True",
		"Provisioned=True", "Ready=True")
	expect("it may come back", link{agent: true}, "AgentDeployed=True", "Connected=True", "Provisioned=True",
		"Ready=True")
	expect("it is gone", link{agent: true, lost: true}, "AgentDeployed=True", "Connected=False", "Provisioned=True",
		"Ready=False")
}

// TestLetGo: the agent of an imported cluster is removed with it, and a failing removal does not keep the Cluster
// forever.
func TestLetGo(t *testing.T) {
	t.Parallel()
	deleted := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		made, session   bool
		fails           error
		after           time.Duration
		asked, tryAgain bool
	}{
		"an agent that is connected":           {session: true, asked: true},
		"an agent that is not connected":       {},
		"a cluster whose machines are removed": {made: true, session: true},
		"it fails": {session: true, fails: errors.New("busy"), after: uninstallTries,
			asked: true, tryAgain: true},
		"it has failed for long enough": {session: true, fails: errors.New("busy"), after: uninstallTries +
			time.Second, asked: true},
		"it succeeds at last, long after it began": {session: true, after: time.Hour, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := false
			h := &handler{ctx: t.Context(), Deps: Deps{
				Tunnel: tunnels{"c-m-1": c.session}, Now: func() time.Time { return deleted.Add(c.after) },
				Uninstall: func(ctx context.Context, name types.NamespacedName) error {
					asked = true
					if _, limited := ctx.Deadline(); !limited || name.String() != "n/demo" {
						t.Errorf("the agent of %s is taken out, with a deadline: %t", name, limited)
					}
					return c.fails
				},
			}}
			cluster := made()
			cluster.DeletionTimestamp, cluster.Status.ClusterName = &metav1.Time{Time: deleted}, "c-m-1"
			if !c.made {
				cluster.Spec.RKEConfig = nil
			}
			if err := h.letGo(cluster); (err != nil) != c.tryAgain || asked != c.asked {
				t.Errorf("error %v, asked %t", err, asked)
			}
		})
	}
}
