package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/admission"
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/testkit/build"
)

func ofClusters(list ...*provv1.Cluster) func(*admission.Facts) {
	return func(f *admission.Facts) { f.Clusters = list }
}

func TestDecide_KeepsNamespacesOfProtectedClusters(t *testing.T) {
	t.Parallel()
	protected := demo(func(c *provv1.Cluster) { c.Annotations[rkev1.ProtectAnnotation] = "true" })
	for name, tc := range map[string]struct {
		namespace string
		clusters  []*provv1.Cluster
		want      string
	}{
		"with one": {build.Namespace, []*provv1.Cluster{demo(), protected},
			"remove annotation drover.io/protect from Cluster demo first"},
		"with unprotected clusters":                {build.Namespace, []*provv1.Cluster{demo()}, ""},
		"a protected cluster of another namespace": {"elsewhere", []*provv1.Cluster{protected}, ""},
		"the clusters are unknown":                 {build.Namespace, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request(t, "", "namespaces", facts(t, ofClusters(tc.clusters...)), &corev1.Namespace{}, nil)
			r.Namespace, r.Name = "", tc.namespace
			if a := decide(t, r); a.Allowed() != (tc.want == "") || !strings.HasSuffix(a.Forbidden, tc.want) {
				t.Errorf("answer %+v", a)
			}
		})
	}
}

func TestDecide_KeepsDriversOfMachines(t *testing.T) {
	t.Parallel()
	active := func(name string) *mgmtv3.NodeDriver {
		return &mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mgmtv3.NodeDriverSpec{Active: true}}
	}
	inactive := active("sim")
	inactive.Spec.Active = false
	described := active("sim")
	described.Spec.Description = "edited"
	used := machines(build.Machine("demo", "a", "w"))
	for name, tc := range map[string]struct {
		before, after any
		facts         []func(*admission.Facts)
		want          string
	}{
		"deleted with machines": {active("sim"), nil, []func(*admission.Facts){used},
			"machines of this driver exist, such as fleet-default/a"},
		"deactivated with machines": {active("sim"), inactive, []func(*admission.Facts){used},
			"spec.active: Forbidden: machines of this driver exist"},
		"edited with machines":          {active("sim"), described, []func(*admission.Facts){used}, ""},
		"an inactive driver is deleted": {inactive, nil, []func(*admission.Facts){used}, ""},
		"another driver":                {active("pod"), nil, []func(*admission.Facts){used}, ""},
		"without machines":              {active("sim"), nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := decide(t, request(t, "management.cattle.io", "nodedrivers", facts(t, tc.facts...), tc.before,
				tc.after))
			if got := topology.Explain(a.Errors) + a.Forbidden; a.Allowed() != (tc.want == "") ||
				!strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestDecide_ChecksPlans(t *testing.T) {
	t.Parallel()
	secret := func(kind corev1.SecretType, plan string) *corev1.Secret {
		return &corev1.Secret{Type: kind, Data: map[string][]byte{"plan": []byte(plan)}}
	}
	for name, tc := range map[string]struct {
		secret  *corev1.Secret
		refused bool
	}{
		"a plan":                   {secret(rkev1.SecretTypeMachinePlan, `{"files":[]}`), false},
		"no plan yet":              {secret(rkev1.SecretTypeMachinePlan, ""), false},
		"not a plan":               {secret(rkev1.SecretTypeMachinePlan, `password: hunter2`), true},
		"a Secret of another type": {secret(corev1.SecretTypeOpaque, `password`), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := decide(t, request(t, "", "secrets", facts(t), nil, tc.secret))
			if got := topology.Explain(a.Errors); a.Allowed() == tc.refused || strings.Contains(got, "hunter2") ||
				tc.refused && !strings.HasPrefix(got, "data[plan]: ") {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestDecide_WarnsAboutScalingAMachineDeployment(t *testing.T) {
	t.Parallel()
	autoscaled := func(c *provv1.Cluster) {
		pool(c, 0).AutoscalingMinSize, pool(c, 0).AutoscalingMaxSize = new(int32(1)), new(int32(9))
	}
	for name, tc := range map[string]struct {
		cluster    *provv1.Cluster
		deployment string
		replicas   int32
		want       string
	}{
		"a pool": {demo(withTwo), "demo-other", 5,
			"spec.rkeConfig.machinePools[1].quantity of Cluster demo is 3"},
		"the size is unchanged":       {demo(), "demo-all", 3, ""},
		"another MachineDeployment":   {demo(), "web", 5, ""},
		"a pool with an autoscaler":   {demo(autoscaled), "demo-all", 5, ""},
		"a pool without a fixed size": {demo(func(c *provv1.Cluster) { pool(c, 0).Quantity = nil }), "demo-all", 5, ""},
		"a cluster of another Drover": {demo(func(c *provv1.Cluster) {
			c.Annotations[rkev1.InstanceAnnotation] = "other"
		}), "demo-all", 5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: tc.replicas}}
			r := request(t, "cluster.x-k8s.io", "machinedeployments", facts(t, ofClusters(tc.cluster)),
				&autoscalingv1.Scale{}, scale)
			r.Subresource, r.Name = "scale", tc.deployment
			a := decide(t, r)
			if got := strings.Join(a.Warnings, ""); !a.Allowed() || (got == "") != (tc.want == "") ||
				!strings.HasPrefix(got, tc.want) {
				t.Errorf("warnings %q", got)
			}
		})
	}
}

func TestComplete_RestoresSchemas(t *testing.T) {
	t.Parallel()
	had := func(c *provv1.Cluster) { pool(c, 0).DynamicSchemaSpec = `{"resourceFields":{}}` }
	for name, tc := range map[string]struct {
		after *provv1.Cluster
		want  []admission.Patch
	}{
		"left out": {demo(),
			[]admission.Patch{{Op: "add", Path: "/spec/rkeConfig/machinePools/0/dynamicSchemaSpec",
				Value: `{"resourceFields":{}}`}}},
		"kept": {demo(had), nil},
		"removed with the annotation": {demo(func(c *provv1.Cluster) {
			c.Annotations["provisioning.cattle.io/allow-dynamic-schema-drop"] = "true"
		}), nil},
		"another driver": {demo(func(c *provv1.Cluster) { pool(c, 0).NodeConfig.Kind = "PodConfig" }), nil},
		"another pool":   {demo(func(c *provv1.Cluster) { pool(c, 0).Name = "new" }), nil},
		"moved": {demo(func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools = []provv1.RKEMachinePool{build.Pool("new", "w", 1), *pool(c, 0)}
		}), []admission.Patch{{Op: "add", Path: "/spec/rkeConfig/machinePools/1/dynamicSchemaSpec",
			Value: `{"resourceFields":{}}`}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := complete(t, request(t, "provisioning.cattle.io", "clusters", facts(t), demo(had), tc.after))
			if diff := cmp.Diff(tc.want, a.Patches); diff != "" {
				t.Error(diff)
			}
		})
	}
}
