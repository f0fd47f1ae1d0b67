package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// TestValidate_NamesThePoolsOfAnAbsentObject checks that pools which use the same absent object share one error.
func TestValidate_NamesThePoolsOfAnAbsentObject(t *testing.T) {
	t.Parallel()
	of := func(edit func(*provv1.RKEMachinePool), names ...string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) {
			first := c.Spec.RKEConfig.MachinePools[0]
			c.Spec.RKEConfig.MachinePools = nil
			for _, name := range names {
				another := *first.DeepCopy()
				another.Name = name
				edit(&another)
				c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, another)
			}
		}
	}
	none := func(*provv1.RKEMachinePool) {}
	lost := func(p *provv1.RKEMachinePool) { p.CloudCredentialSecretName = "lost" }
	many := make([]string, 9)
	for i := range many {
		many[i] = fmt.Sprintf("p%d", i)
	}
	for name, tc := range map[string]struct {
		edits []func(*provv1.Cluster)
		want  string
	}{
		"the cluster's credential": {[]func(*provv1.Cluster){of(none, "a", "b"), func(c *provv1.Cluster) {
			c.Spec.CloudCredentialSecretName = "lost"
		}}, "spec.cloudCredentialSecretName: Not found: \"lost\": no Secret lost in namespace fleet-default, " +
			"which pools " +
			"a, b use; create it, or name another (NAME, or cattle-global-data:NAME)"},
		"the pools' credential": {[]func(*provv1.Cluster){of(lost, "a", "b")},
			"spec.rkeConfig.machinePools[0].cloudCredentialSecretName: Not found: \"lost\": no Secret lost in namespace " +
				"fleet-default, which pools a, b use; create it, or name another (NAME, or cattle-global-data:NAME)"},
		"a driver": {[]func(*provv1.Cluster){of(func(p *provv1.RKEMachinePool) { p.NodeConfig.Kind = "CloudConfig" },
			"a",
			"b", "c")}, "spec.rkeConfig.machinePools[0].machineConfigRef.kind: Not found: \"CloudConfig\": " +
			"no active node " +
			"driver has this kind, which pools a, b, c use; register or activate the NodeDriver, or correct the kind"},
		"many pools": {[]func(*provv1.Cluster){of(lost, many...)},
			"spec.rkeConfig.machinePools[0].cloudCredentialSecret" +
				"Name: Not found: \"lost\": no Secret lost in namespace fleet-default, which pools p0, p1, p2, p3, p4 and 4 more " +
				"use; create it, or name another (NAME, or cattle-global-data:NAME)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, topology.Explain(topology.Validate(demo(t, tc.edits...)))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestValidate_NamesAnAbsentProvider checks the kinds of other infrastructure providers: that of the cluster, and those
// of its pools.
func TestValidate_NamesAnAbsentProvider(t *testing.T) {
	t.Parallel()
	const group = "infrastructure.cluster.x-k8s.io"
	in := demo(t, func(c *provv1.Cluster) {
		c.Spec.RKEConfig.InfrastructureRef = &corev1.ObjectReference{APIVersion: group + "/v1beta2", Kind: "AWSCluster",
			Name: "a"}
		pool(c, 0).NodeConfig = &corev1.ObjectReference{APIVersion: group + "/v1beta2", Kind: "AWSMachineTemplate",
			Name: "a"}
	})
	kinds := []schema.GroupKind{{Group: group, Kind: "AWSCluster"}, {Group: group, Kind: "AWSMachineTemplate"}}
	if diff := cmp.Diff(kinds, topology.ProviderKinds(in.Cluster)); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if got := topology.Explain(topology.Validate(in)); got != "" {
		t.Errorf("all kinds exist: %s", got)
	}
	in.Unserved = kinds
	got := topology.Validate(in)
	want := []string{"spec.rkeConfig.infrastructureRef.kind: Not found: \"AWSCluster\": no CustomResourceDefinition " +
		"of group " + group + " has this kind; install the infrastructure provider of Cluster API that defines it: " +
		"clusterctl generate provider --infrastructure NAME | kubectl apply -f -, or correct apiVersion and kind",
		"spec.rkeConfig.machinePools[0].machineConfigRef.kind: Not found: \"AWSMachineTemplate\": no " +
			"CustomResourceDefinition of group " + group + " has this kind, which pool pool1 uses; install the " +
			"infrastructure provider of Cluster API"}
	if len(got) != len(want) {
		t.Fatalf("errors: %v", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i].Error(), want[i]) {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
	if refused, _ := topology.Tolerated(got); len(refused) != 1 || refused[0] != got[1] {
		t.Errorf("a new pool of an existing cluster: %v", refused)
	}
	in.Replicas = map[string]int32{"demo-pool1": 1}
	if refused, told := topology.Tolerated(topology.Validate(in)); len(refused) > 0 || len(told) != 2 {
		t.Errorf("an existing pool: %v", refused)
	}
	if got := topology.ValidateAlone(in); len(got) > 0 {
		t.Errorf("a provider may be installed later: %v", got)
	}
}
