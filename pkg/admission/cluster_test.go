package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/pkg/admission"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// Admission refuses what is wrong with the object alone, with the controller's words.
func TestDecide_RefusesWhatTheControllerRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*provv1.Cluster)
		want string
	}{
		"an invalid version": {
			func(c *provv1.Cluster) {
				c.Spec.KubernetesVersion = "1.36"
			}, `spec.kubernetesVersion: Invalid value: "1.36": must be v and a semantic version`,
		},
		"a pool without a role": {
			func(c *provv1.Cluster) {
				*pool(c, 0) = build.Pool("all", "",
					1)
			}, "spec.rkeConfig.machinePools[0]: Required value: at least one role",
		},
		"a duplicate pool": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, *pool(c, 0))
			},
			`spec.rkeConfig.machinePools[1].name: Duplicate value: "all"`,
		},
		"no pool with etcd": {
			func(c *provv1.Cluster) {
				*pool(c, 0) = build.Pool("all", "cw",
					1)
			}, "spec.rkeConfig.machinePools: Required value: no pool has machines with etcd",
		},
		"a registry with a scheme": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineGlobalConfig = rkev1.GenericMap{
					Data: map[string]any{"system-default-registry": "https://registry.example.com"}}
			},
			`spec.rkeConfig.machineGlobalConfig.system-default-registry: Invalid value: "https://registry.example.com": must be a host`,
		},
		"a registry with a password": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineGlobalConfig = rkev1.GenericMap{
					Data: map[string]any{"system-default-registry": "me:hunter2@registry.example.com"}}
			},
			`spec.rkeConfig.machineGlobalConfig.system-default-registry: Invalid value: "registry.example.com": must be a host`,
		},
		"nested directories": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.DataDirectories = rkev1.DataDirectories{SystemAgent: "/data", K8sDistro: "/data/k8s"}
			},
			"spec.rkeConfig.dataDirectories.k8sDistro: Invalid value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := demo(tc.edit)
			a := decide(t, request(t, "provisioning.cattle.io", "clusters", facts(t), nil, cluster))
			got := topology.Explain(a.Errors)
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if controller := topology.Explain(topology.ValidateAlone(topology.Input{Cluster: cluster})); got !=
				controller {
				t.Errorf("the controller says %q", controller)
			}
			if a.Allowed() {
				t.Error("it is allowed")
			}
		})
	}
}

func TestDecide_Allows(t *testing.T) {
	t.Parallel()
	wrong := func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "1.36" }
	for name, tc := range map[string]struct {
		before, after *provv1.Cluster
		facts         []func(*admission.Facts)
	}{
		"references to objects that do not exist yet": {after: demo()},
		"an error that existed before": {before: demo(wrong),
			after: demo(wrong, func(c *provv1.Cluster) { c.Labels = map[string]string{"a": "b"} })},
		"a deleted Cluster": {before: demo(), after: demo(wrong, func(c *provv1.Cluster) {
			c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		})},
		"another Drover's": {after: demo(wrong, func(c *provv1.Cluster) {
			c.Annotations[rkev1.InstanceAnnotation] = "other"
		})},
		"another manager's": {
			before: demo(unmarked, func(c *provv1.Cluster) {
				c.Finalizers = []string{"wrangler.cattle.io/rke-cluster"}
			}), after: demo(wrong, unmarked),
		},
		"an imported Cluster": {after: demo(func(c *provv1.Cluster) { c.Spec = provv1.ClusterSpec{} })},
		"worker pools with registered servers": {
			after: demo(func(c *provv1.Cluster) { *pool(c, 0) = build.Pool("all", "w", 1) }),
			facts: []func(*admission.Facts){machines(build.Machine("demo", "a", "ec"))},
		},
		"worker pools while registered servers are unknown": {
			after: demo(func(c *provv1.Cluster) { *pool(c, 0) = build.Pool("all", "w", 1) }),
			facts: []func(*admission.Facts){func(f *admission.Facts) { f.Known = false }},
		},
		"one of three machines at a time, in a pool with an external size": {
			after: demo(deletedFirst),
			facts: []func(*admission.Facts){machines(pooled("a", "all", "ecw"), pooled("b", "all", "ecw"),
				pooled("c", "all", "ecw"))},
		},
		"one machine at a time, while other machines are unknown": {
			after: demo(deletedFirst), facts: []func(*admission.Facts){func(f *admission.Facts) { f.Known = false }},
		},
		"a correction that uncovers another error": {before: demo(withoutEtcd, labelled), after: demo(withoutEtcd)},
		"a role for a pool without roles": {
			before: demo(withTwo, func(c *provv1.Cluster) {
				pool(c, 0).EtcdRole, pool(c, 0).ControlPlaneRole, pool(c, 0).WorkerRole = false, false, false
			}),
			after: demo(withTwo, func(c *provv1.Cluster) {
				pool(c, 0).EtcdRole, pool(c, 0).ControlPlaneRole = false, false
			}),
			facts: []func(*admission.Facts){machines(pooled("a", "all", "ecw"))},
		},
		"two invalid sizes, one of them corrected": {before: demo(sizes(0, -1)), after: demo(sizes(0, 3))},
		"a pool without machines loses etcd":       {before: demo(withTwo), after: demo(withTwo, withoutEtcd)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := decide(t, ofCluster(t, facts(t, tc.facts...), tc.before, tc.after))
			if !a.Allowed() {
				t.Errorf("refused: %s %s", topology.Explain(a.Errors), a.Forbidden)
			}
		})
	}
}

func unmarked(c *provv1.Cluster) { delete(c.Annotations, rkev1.InstanceAnnotation) }

// withTwo adds a second pool with etcd, so that the first one can lose the role.
func withTwo(c *provv1.Cluster) {
	c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, build.Pool("other", "ec", 3))
}

// deletedFirst deletes machines before others replace them, whatever the size of the pool.
func deletedFirst(c *provv1.Cluster) {
	pool(c, 0).Quantity, pool(c, 0).RollingUpdate = nil,
		&provv1.RKEMachinePoolRollingUpdate{MaxSurge: new(intstr.FromInt32(0)),
			MaxUnavailable: new(intstr.FromInt32(1))}
}

// labelled has an invalid label.
func labelled(c *provv1.Cluster) { pool(c, 0).Labels = map[string]string{"no label!": "a"} }

func sizes(smallest, largest int32) func(*provv1.Cluster) {
	return func(c *provv1.Cluster) {
		pool(c, 0).AutoscalingMinSize, pool(c, 0).AutoscalingMaxSize = &smallest, &largest
	}
}

func withoutEtcd(c *provv1.Cluster) { pool(c, 0).EtcdRole = false }

// Admission refuses changes that cannot be undone while they would affect existing machines.
func TestDecide_KeepsRoles(t *testing.T) {
	t.Parallel()
	live := facts(t, machines(pooled("a", "all", "ecw")))
	a := decide(t, request(t, "provisioning.cattle.io", "clusters", live, demo(withTwo), demo(withTwo, withoutEtcd)))
	if got := topology.Explain(a.Errors); !strings.HasPrefix(got,
		"spec.rkeConfig.machinePools[0].etcdRole: Forbidden: machines of the pool are etcd members") {
		t.Errorf("existing machines lose etcd: %q", got)
	}
	workers := func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, build.Pool("workers", "w", 2))
	}
	member := func(c *provv1.Cluster) { pool(c, 1).EtcdRole = true }
	working := facts(t, machines(pooled("a", "all", "ecw"), pooled("b", "workers", "w")))
	a = decide(t, request(t, "provisioning.cattle.io", "clusters", working, demo(workers), demo(workers, member)))
	if got := topology.Explain(a.Errors); !strings.HasPrefix(got,
		"spec.rkeConfig.machinePools[1].etcdRole: Forbidden: existing machines of the pool cannot become ") {
		t.Errorf("workers become etcd members: %q", got)
	}
	if a = decide(t, request(t, "provisioning.cattle.io", "clusters", working, demo(workers, member),
		demo(workers))); !a.Allowed() {
		t.Errorf("an earlier error cannot be corrected: %q", topology.Explain(a.Errors))
	}
	a = decide(t, request(t, "provisioning.cattle.io", "clusters", live, demo(), demo(deletedFirst)))
	if got := topology.Explain(a.Errors); !strings.Contains(got, "machinePools[0].rollingUpdate.maxUnavailable") {
		t.Errorf("the only member is deleted before its replacement: %q", got)
	}
	gone := func(c *provv1.Cluster) { pool(c, 0).Quantity = new(int32(0)) }
	a = decide(t, request(t, "provisioning.cattle.io", "clusters", live, demo(), demo(gone)))
	if got := topology.Explain(a.Errors); !strings.Contains(got, "no pool has machines with etcd") {
		t.Errorf("the last servers are removed: %q", got)
	}
	foreign := pooled("a", "all", "ecw")
	foreign.Spec.ClusterName = "other"
	others := facts(t, machines(foreign))
	if a = decide(t, request(t, "provisioning.cattle.io", "clusters", others, demo(withTwo),
		demo(withTwo, withoutEtcd))); !a.Allowed() {
		t.Errorf("machines of another cluster block the edit: %q", topology.Explain(a.Errors))
	}
}

// An update that keeps an old mistake gets a warning. An update that adds a new one is refused.
func TestDecide_WarnsAboutEarlierErrors(t *testing.T) {
	t.Parallel()
	wrong := func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "1.36" }
	more := func(c *provv1.Cluster) { c.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "a-b"}} }
	a := decide(t, request(t, "provisioning.cattle.io", "clusters", facts(t), demo(wrong), demo(wrong, more)))
	if len(a.Errors) != 1 || a.Errors[0].Field != "spec.agentEnvVars[0].name" {
		t.Errorf("errors %v", a.Errors)
	}
	if len(a.Warnings) != 1 || !strings.HasPrefix(a.Warnings[0], "spec.kubernetesVersion: ") {
		t.Errorf("warnings %q", a.Warnings)
	}
}

// An update may move an old mistake to another index. It is refused only for mistakes that it adds.
func TestDecide_MatchesEarlierErrorsByPoolName(t *testing.T) {
	t.Parallel()
	odd := func(name string) provv1.RKEMachinePool {
		p := build.Pool(name, "w", 1)
		p.UnhealthyRange = new("[5-3]")
		return p
	}
	with := func(pools ...provv1.RKEMachinePool) *provv1.Cluster {
		return demo(func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, pools...)
		})
	}
	variables := func(names ...string) *provv1.Cluster {
		return demo(func(c *provv1.Cluster) {
			for _, name := range names {
				c.Spec.AgentEnvVars = append(c.Spec.AgentEnvVars, rkev1.EnvVar{Name: name})
			}
		})
	}
	const rangeOf = "spec.rkeConfig.machinePools[%d].unhealthyRange"
	for name, tc := range map[string]struct {
		before, after    *provv1.Cluster
		refused, allowed string
	}{
		"a pool moves to another index": {with(build.Pool("first", "w", 1), odd("odd")), with(odd("odd")), "",
			fmt.Sprintf(rangeOf, 1)},
		"another pool has its index": {with(odd("odd")), with(odd("other")), fmt.Sprintf(rangeOf, 1), ""},
		"another pool has the same error": {with(odd("odd")), with(odd("other"), odd("odd")),
			fmt.Sprintf(rangeOf, 1), fmt.Sprintf(rangeOf, 2)},
		"a variable moves to another index": {variables("A", "a-b"), variables("a-b"), "",
			"spec.agentEnvVars[0].name"},
		"a second variable of the same kind": {variables("a-b"), variables("a-b", "a-b"), "spec.agentEnvVars[1].name",
			"spec.agentEnvVars[0].name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := decide(t, request(t, "provisioning.cattle.io", "clusters", facts(t), tc.before, tc.after))
			for what, got := range map[string][2]string{"errors": {topology.Explain(a.Errors), tc.refused},
				"warnings": {strings.Join(a.Warnings, ""), tc.allowed}} {
				if (got[0] == "") != (got[1] == "") || !strings.HasPrefix(got[0], got[1]) {
					t.Errorf("%s %q, want %q", what, got[0], got[1])
				}
			}
		})
	}
}

// A stored cluster may contain what is refused today. Other edits of it pass with a warning, whatever the number of its
// machines. What an edit adds is refused.
func TestDecide_AllowsEditsOfStoredInvalidClusters(t *testing.T) {
	t.Parallel()
	first := func(c *provv1.Cluster) {
		pool(c, 0).RollingUpdate = &provv1.RKEMachinePoolRollingUpdate{MaxSurge: new(intstr.FromInt32(0)),
			MaxUnavailable: new(intstr.FromString("100%"))}
	}
	const rolling, rangeOf = "spec.rkeConfig.machinePools[0].rollingUpdate.maxUnavailable",
		"spec.rkeConfig.machinePools[0].unhealthyRange"
	const budgetOf = "spec.clusterAgentDeploymentCustomization.schedulingCustomization.podDisruptionBudget.maxUnavailable"
	budget := func(c *provv1.Cluster) {
		c.Spec.ClusterAgentDeploymentCustomization = &provv1.AgentDeploymentCustomization{
			SchedulingCustomization: &provv1.AgentSchedulingCustomization{
				PodDisruptionBudget: &provv1.PodDisruptionBudgetSpec{MinAvailable: "1", MaxUnavailable: "1"},
			}}
	}
	unhealthy := func(text string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) { pool(c, 0).UnhealthyRange = &text }
	}
	restored := func(c *provv1.Cluster) {
		c.Spec.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "snapshot-1"}
	}
	larger := func(c *provv1.Cluster) { pool(c, 0).Quantity = new(int32(5)) }
	for name, tc := range map[string]struct {
		before, after   *provv1.Cluster
		refused, warned string
	}{
		"a restore": {demo(first), demo(first, restored), "", rolling},
		"more machines, which changes the counts": {demo(first), demo(first, larger), "", rolling},
		"another rolling update":                  {demo(), demo(first), rolling, ""},
		"a budget with a restore":                 {demo(budget), demo(budget, restored), "", budgetOf},
		"a changed budget":                        {demo(), demo(budget), budgetOf, ""},
		"a range with a restore": {demo(unhealthy("[5-3]")), demo(unhealthy("[5-3]"), restored), "",
			rangeOf},
		"another invalid range":        {demo(unhealthy("[5-3]")), demo(unhealthy("[6-3]")), rangeOf, ""},
		"a new error and an old error": {demo(first), demo(first, budget), budgetOf, rolling},
		"a new cluster":                {nil, demo(first), rolling, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := decide(t, ofCluster(t, facts(t), tc.before, tc.after))
			for what, got := range map[string][2]string{"errors": {topology.Explain(a.Errors), tc.refused},
				"warnings": {strings.Join(a.Warnings, ""), tc.warned}} {
				if (got[0] == "") != (got[1] == "") || !strings.HasPrefix(got[0], got[1]) {
					t.Errorf("%s %q, want %q", what, got[0], got[1])
				}
			}
		})
	}
}

func TestDecide_ReportsUnreadableObjects(t *testing.T) {
	t.Parallel()
	r := request(t, "provisioning.cattle.io", "clusters", facts(t), nil, map[string]any{"spec": 1})
	if a, err := admission.Decide(r); err == nil || a.Allowed() != true || len(a.Warnings) > 0 {
		t.Errorf("answer %+v, error %v", a, err)
	}
}

// Controllers write metadata. An unchanged spec causes neither refusals nor warnings.
func TestDecide_IgnoresUnchangedFields(t *testing.T) {
	t.Parallel()
	odd := func(c *provv1.Cluster) {
		c.Spec.KubernetesVersion = "1.36"
		c.Spec.RKEConfig.MachineGlobalConfig = rkev1.GenericMap{Data: map[string]any{"frobnicate": true}}
	}
	labelled := func(c *provv1.Cluster) { c.Labels = map[string]string{"a": "b"} }
	a := decide(t, request(t, "provisioning.cattle.io", "clusters", facts(t), demo(odd), demo(odd, labelled)))
	if !a.Allowed() || len(a.Warnings) > 0 {
		t.Errorf("answer %+v", a)
	}
}
