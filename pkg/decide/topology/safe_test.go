package topology_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// TestDesired_SafeValues checks that an error of a newer check neither stops nor harms an existing cluster. Errors of
// older checks still stop it.
func TestDesired_SafeValues(t *testing.T) {
	t.Parallel()
	budget := func(least, most string) func(*topology.Input) {
		return func(in *topology.Input) {
			in.Cluster.Spec.ClusterAgentDeploymentCustomization = &provv1.AgentDeploymentCustomization{
				SchedulingCustomization: &provv1.AgentSchedulingCustomization{
					PodDisruptionBudget: &provv1.PodDisruptionBudgetSpec{MinAvailable: least, MaxUnavailable: most},
				}}
		}
	}
	ofPool := func(edits ...func(*provv1.RKEMachinePool)) func(*topology.Input) {
		return func(in *topology.Input) {
			p := etcdPool("pool1", 3, edits...)
			p.NodeConfig, p.DynamicSchemaSpec = pool(in.Cluster, 0).NodeConfig, pool(in.Cluster, 0).DynamicSchemaSpec
			*pool(in.Cluster, 0) = p
		}
	}
	variable := func(name string) func(*topology.Input) {
		return func(in *topology.Input) { in.Cluster.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: name, Value: "v"}} }
	}
	system := func(name string) func(*provv1.RKEMachinePool) {
		return func(p *provv1.RKEMachinePool) { p.MachineOS = name }
	}
	there := func(roles topology.Servers, edit func(*topology.Input)) func(*topology.Input) {
		return func(in *topology.Input) {
			edit(in)
			in.Replicas, in.Roles = map[string]int32{"demo-pool1": 3}, map[string]topology.Servers{"demo-pool1": roles}
		}
	}
	servers := topology.Servers{Etcd: true, ControlPlane: true}
	for name, tc := range map[string]struct {
		edit  func(*topology.Input)
		told  string // the field that is reported as tolerated
		error bool
		// surge, unavailable and share are the resulting limits.
		surge, unavailable, share string
	}{
		"a valid cluster": {edit: ofPool(), surge: "1", unavailable: "0", share: "49%"},
		"most members are deleted first": {edit: ofPool(rolled("0", "3")),
			told: "spec.rkeConfig.machinePools[0].rollingUpdate.maxUnavailable", surge: "1", unavailable: "0",
			share: "49%"},
		"most members during a surge of one": {edit: ofPool(rolled("1", "3")),
			told: "spec.rkeConfig.machinePools[0].rollingUpdate.maxUnavailable", surge: "1", unavailable: "0",
			share: "49%"},
		"few members are deleted first": {edit: ofPool(rolled("0", "1")), surge: "0", unavailable: "1",
			share: "49%"},
		"an empty range": {edit: ofPool(between("[5-3]")),
			told: "spec.rkeConfig.machinePools[0].unhealthyRange", surge: "1", unavailable: "0", share: "0%"},
		"a range that starts at two": {edit: ofPool(between("[2-2]")),
			told: "spec.rkeConfig.machinePools[0].unhealthyRange", surge: "1", unavailable: "0", share: "0%"},
		"an invalid range": {edit: ofPool(between("3 to 5")), error: true},
		"a budget with both fields": {edit: budget("1", "1"),
			told: "spec.clusterAgentDeploymentCustomization.schedulingCustomization.podDisruptionBudget.maxUnavailable"},
		"a budget without fields": {edit: budget("0", "0"),
			told: "spec.clusterAgentDeploymentCustomization.schedulingCustomization.podDisruptionBudget"},
		"a variable that is invalid in a shell": {edit: variable("a-b"), told: "spec.agentEnvVars[0].name"},
		"a variable without a name":             {edit: variable(""), error: true},
		"a registry with a scheme": {
			edit: func(in *topology.Input) {
				in.Cluster.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{
					"system-default-registry": "https://me:hunter2@registry.example.com"}
			},
			told: "spec.rkeConfig.machineGlobalConfig.system-default-registry",
		},
		"a registry with a password": {
			edit: func(in *topology.Input) {
				in.Cluster.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{
					"system-default-registry": "me:hunter2@registry.example.com"}
			},
			told: "spec.rkeConfig.machineGlobalConfig.system-default-registry",
		},
		"a registry with a scheme for some machines": {
			edit: func(in *topology.Input) {
				in.Cluster.Spec.RKEConfig.MachineSelectorConfig = []rkev1.RKESystemConfig{
					{Config: rkev1.GenericMap{
						Data: map[string]any{"system-default-registry": "registry.example.com:5000/mirror"}}},
					{Config: rkev1.GenericMap{
						Data: map[string]any{"system-default-registry": "http://registry.example.com"}}},
				}
			},
			told: "spec.rkeConfig.machineSelectorConfig[1].config.system-default-registry",
		},
		"an endpoint with a path": {
			edit: func(in *topology.Input) {
				in.Cluster.Spec.LocalClusterAuthEndpoint = rkev1.LocalClusterAuthEndpoint{Enabled: true,
					FQDN: "demo.example.com/k8s"}
			},
			told: "spec.localClusterAuthEndpoint.fqdn",
		},
		"no registry": {
			edit: func(in *topology.Input) {
				in.Cluster.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"system-default-registry": ""}
			},
		},
		"another operating system of machines": {edit: there(servers, ofPool(system("windows"))),
			told: "spec.rkeConfig.machinePools[0].machineOS", surge: "1", unavailable: "0", share: "49%"},
		"another operating system before the first machine": {edit: ofPool(system("windows")), error: true},
		"an operating system that is not a label value":     {edit: there(servers, ofPool(system("?"))), error: true},
		"machines that lose their server roles": {
			edit: there(servers, ofPool(func(p *provv1.RKEMachinePool) { p.EtcdRole, p.WorkerRole = false, true })),
			told: "spec.rkeConfig.machinePools[0].etcdRole", surge: "1", unavailable: "0", share: "49%",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := demo(t)
			tc.edit(&in)
			stored := in.Cluster.DeepCopy()
			refused, told := topology.Tolerated(topology.Validate(in))
			if (len(refused) > 0) != tc.error || (len(told) > 0) != (tc.told != "") || len(told) > 0 &&
				told[0].Field != tc.told {
				t.Fatalf("refused %v, reported %v", refused, told)
			}
			if tc.error {
				return
			}
			if strings.Contains(topology.Explain(told), "hunter2") {
				t.Errorf("a password is reported: %s", topology.Explain(told))
			}
			objects, err := topology.Desired(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(stored, in.Cluster); diff != "" {
				t.Errorf("the stored cluster was changed (-stored +now):\n%s", diff)
			}
			deployment := find[*clusterv1.MachineDeployment](t, objects)[0]
			if got := topology.RolesOf(deployment.Spec.Template.Labels); got != servers {
				t.Errorf("roles %+v", got)
			}
			limits := deployment.Spec.Rollout.Strategy.RollingUpdate
			for _, limit := range []struct {
				got  *intstr.IntOrString
				want string
			}{{limits.MaxSurge, tc.surge}, {limits.MaxUnavailable, tc.unavailable}} {
				if tc.surge != "" && limit.got.String() != limit.want {
					t.Errorf("limit %s, want %s", limit.got, limit.want)
				}
			}
			for _, check := range find[*clusterv1.MachineHealthCheck](t, objects) {
				if trigger := check.Spec.Remediation.TriggerIf; trigger.UnhealthyInRange != "" ||
					trigger.UnhealthyLessThanOrEqualTo.String() != tc.share {
					t.Errorf("the strategy of members is %+v, want %s", trigger, tc.share)
				}
			}
			management := find[*mgmtv3.Cluster](t, topology.Management(in.Cluster, topology.Registry{}))[0]
			if agent := management.Spec.ClusterAgentDeploymentCustomization; agent != nil &&
				agent.SchedulingCustomization.PodDisruptionBudget != nil {
				t.Errorf("the agent is deployed with %+v", agent.SchedulingCustomization.PodDisruptionBudget)
			}
		})
	}
}
