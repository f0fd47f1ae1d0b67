package planstore

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
)

const (
	etcdRole         = "rke.cattle.io/etcd-role"
	controlPlaneRole = "rke.cattle.io/control-plane-role"
	noneHealthy      = `{"kubelet":{"healthy":false},"etcd":{"healthy":false},"kube-apiserver":{"healthy":false}}`
	allHealthy       = `{"kubelet":{"healthy":true},"etcd":{"healthy":true},"kube-apiserver":{"healthy":true}}`
	kubeletPlan      = `{"probes":{"kubelet":{}}}`
	etcdPlan         = `{"probes":{"etcd":{},"kubelet":{}}}`
)

// node is a machine with its plan secret, delivered at noon and applied.
func node(name, role, plan, probes string) (*clusterv1.Machine, *corev1.Secret) {
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{role: "true"}}}
	machine.Status.NodeRef.Name = name
	secret := &corev1.Secret{Type: rkev1.SecretTypeMachinePlan, Data: map[string][]byte{
		"plan": []byte(plan), "applied-checksum": []byte(nodeplan.Checksum([]byte(plan))),
		"probe-statuses": []byte(probes),
	}}
	secret.Annotations = map[string]string{rkev1.PlanUpdatedTimeAnnotation: noon.Format(time.RFC3339)}
	return machine, secret
}

// The kubelet of a K3s server with etcd alone starts when an API server answers. Until then its probe says nothing
// about etcd, for the hook as for the planner. Afterwards it is the only evidence of etcd.
func TestMember_AnIdleKubeletIsNoEvidenceForTheHookAndThePlanner(t *testing.T) {
	lose := func(reason string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			m.Status.Conditions = []metav1.Condition{{Type: "NodeReady", Status: "Unknown", Reason: reason,
				LastTransitionTime: metav1.NewTime(noon)}}
		}
	}
	for name, tc := range map[string]struct {
		role, plan string
		// server are the reported probes of the control plane machine. happen changes that machine.
		server string
		happen func(*clusterv1.Machine)
		want   bool
	}{
		"K3s, no API server answers": {role: etcdRole, plan: kubeletPlan, server: noneHealthy, want: true},
		"K3s, an API server answers": {role: etcdRole, plan: kubeletPlan, server: allHealthy},
		"K3s, the node of the API server is lost": {role: etcdRole, plan: kubeletPlan, server: allHealthy,
			happen: lose(clusterv1.MachineNodeReadyUnknownReason), want: true},
		"K3s, the API server is not seen": {role: etcdRole, plan: kubeletPlan, server: allHealthy,
			happen: lose(clusterv1.MachineNodeConnectionDownReason), want: true},
		"K3s, the API server is being deleted": {role: etcdRole, plan: kubeletPlan, server: allHealthy,
			happen: func(m *clusterv1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: noon} }, want: true},
		"RKE2, whose kubelet starts etcd": {role: etcdRole, plan: etcdPlan, server: noneHealthy},
		"a control plane machine":         {role: controlPlaneRole, plan: kubeletPlan, server: noneHealthy},
	} {
		t.Run(name, func(t *testing.T) {
			machine, secret := node("e1", tc.role, tc.plan, noneHealthy)
			server, serverSecret := node("c1", controlPlaneRole, `{"probes":{"kube-apiserver":{}}}`, tc.server)
			if tc.happen != nil {
				tc.happen(server)
			}
			cluster, machines := &clusterv1.Cluster{}, []*clusterv1.Machine{machine, server}
			member, err := MemberOf(machine, secret, func() (bool, error) {
				return APIServerAnswers(cluster, machines, func(m *clusterv1.Machine) (*corev1.Secret, error) {
					return map[string]*corev1.Secret{"e1": secret, "c1": serverSecret}[m.Name], nil
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := member.EtcdServes(); got != tc.want {
				t.Errorf("etcd serves: %v", got)
			}
			if got := member.Broken(noon.Add(time.Hour), time.Minute); got == tc.want {
				t.Errorf("broken: %v", got)
			}
			if got := member.Restarting(noon, time.Minute); got == tc.want {
				t.Errorf("restarting: %v", got)
			}
			s := planner.Snapshot{Machines: []planner.Machine{
				{Name: "e1", Labels: machine.Labels, Plan: decode(secret)},
				{Name: "c1", Labels: server.Labels, Plan: decode(serverSecret),
					Deleting:    server.DeletionTimestamp != nil,
					NodeUnknown: NodeUnknown(server, cluster), NodeLostSince: NodeLostSince(server)},
			}}
			explained := planner.Explain(s).Machines
			i := slices.IndexFunc(explained, func(m planner.ExplainedMachine) bool { return m.Name == "e1" })
			if got := explained[i].State == planner.StateHealthy; got != tc.want {
				t.Errorf("the planner sees it as %s", explained[i].State)
			}
		})
	}
}
