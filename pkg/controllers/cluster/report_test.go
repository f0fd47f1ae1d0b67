package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// TestReport_Reconciling: a cluster is Reconciling until it has been reached, while a failure is tried again, and not
// while a person must act.
func TestReport_Reconciling(t *testing.T) {
	t.Parallel()
	const waiting = "Waiting for the agent of the cluster to connect, or for a server to report its kubeconfig"
	for name, tc := range map[string]struct {
		ready, stalled bool
		imported       bool
		kubeconfig     *corev1.Secret
		refused        error
		end            error
		want           string
	}{
		"it is not reached": {want: "True Reconciling " + waiting},
		"it is imported": {imported: true, want: "True Reconciling Waiting for the agent: in the imported cluster, " +
			"run the command in status.command of ClusterRegistrationToken c-m-demo/default-token"},
		"its API server does not answer": {kubeconfig: &corev1.Secret{},
			want: "True Reconciling Waiting for the API server of the cluster to answer the management plane"},
		"its kubeconfig breaks a rule": {kubeconfig: &corev1.Secret{}, refused: errors.New("Secret n/demo is refused"),
			want: "True Reconciling Secret n/demo is refused"},
		"it is reached":                    {ready: true, want: "False  "},
		"it is stalled":                    {stalled: true, want: "False  "},
		"its kubeconfig cannot be written": {end: errors.New("forbidden"), want: "True Error forbidden"},
		"a token cannot be renewed when it works": {ready: true, end: errors.New("forbidden"),
			want: "True Error forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clusters := fake.NewMockControllerInterface[*provv1.Cluster, *provv1.ClusterList](gomock.NewController(t))
			clusters.EXPECT().UpdateStatus(gomock.Any()).DoAndReturn(func(c *provv1.Cluster) (*provv1.Cluster, error) {
				return c, nil
			})
			facts := &Facts{cluster: made(), now: time.Unix(0, 0), kubeconfig: tc.kubeconfig}
			facts.cluster.Status.Ready = tc.ready
			if tc.imported {
				facts.cluster.Spec.RKEConfig, facts.cluster.Status.ClusterName = nil, "c-m-demo"
			}
			if tc.stalled {
				stalled := conditions.Condition{Type: provv1.ConditionStalled, Status: rkev1.ConditionTrue,
					Reason: "InvalidSpec"}
				conditions.Set(&facts.cluster.Status.Conditions, stalled, facts.now)
			}
			h := &handler{Deps: Deps{Clusters: clusters, Refuses: func(*corev1.Secret) error { return tc.refused }}}
			after, err := h.report(facts, tc.end)
			if !errors.Is(err, tc.end) {
				t.Errorf("error %v", err)
			}
			c := conditions.Get(after.Status.Conditions, provv1.ConditionReconciling)
			if got := c.Status + " " + c.Reason + " " + c.Message; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if after.Status.Ready != tc.ready {
				t.Errorf("ready is %t", after.Status.Ready)
			}
		})
	}
}
