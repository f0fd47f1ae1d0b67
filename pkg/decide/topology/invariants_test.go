package topology_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

func drawCluster(t *rapid.T) *provv1.Cluster {
	name := rapid.StringMatching(`[a-z]([a-z0-9-]{0,60}[a-z0-9])?`).Draw(t, "name")
	cluster := &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name, UID: "uid"},
		Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.2+k3s1", RKEConfig: &provv1.RKEConfig{
			ClusterConfiguration: rkev1.ClusterConfiguration{MachineGlobalConfig: rkev1.GenericMap{
				Data: rapid.MapOf(rapid.StringMatching(`[a-z]{1,6}`), rapid.Map(rapid.Int64(), func(i int64) any {
					return i
				})).Draw(t, "config"),
			}},
		}},
		Status: provv1.ClusterStatus{ClusterName: "c-m-q5wzxk7d"},
	}
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]([a-z0-9-]{0,60}[a-z0-9])?`), 0, 5,
		rapid.ID[string]).Draw(t, "pools")
	for i, poolName := range names {
		roles := rapid.IntRange(1, 7).Draw(t, fmt.Sprintf("roles %d", i))
		pool := provv1.RKEMachinePool{
			Name: poolName, EtcdRole: roles&1 > 0, ControlPlaneRole: roles&2 > 0, WorkerRole: roles&4 > 0,
			NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: "nc-demo"},
		}
		pool.Labels = rapid.MapOfN(rapid.StringMatching(`[a-z]{1,8}`), rapid.StringMatching(`[a-z]{0,8}`), 0, 6).Draw(t,
			fmt.Sprintf("labels %d", i))
		if rapid.Bool().Draw(t, fmt.Sprintf("sized %d", i)) {
			pool.Quantity = new(rapid.Int32Range(0, 9).Draw(t, fmt.Sprintf("quantity %d", i)))
		}
		cluster.Spec.RKEConfig.MachinePools = append(cluster.Spec.RKEConfig.MachinePools, pool)
	}
	return cluster
}

// TestDesired_Invariants checks the objects of any valid cluster. They are the same every time, share no memory with
// the cluster, have valid names, are in its namespace, and need no defaulting.
func TestDesired_Invariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		in := raw(drawCluster(rt))
		prepared, err := topology.Prepare(in.Cluster, instance, in.Schemas)
		if err != nil {
			rt.Fatal(err)
		}
		in.Cluster = prepared
		if len(topology.Validate(in)) > 0 {
			rt.Skip("not valid")
		}
		before := in.Cluster.DeepCopy()
		first, err := topology.Desired(in)
		if err != nil {
			rt.Fatal(err)
		}
		second, err := topology.Desired(in)
		if err != nil {
			rt.Fatal(err)
		}
		if !bytesEqual(rt, first, second) {
			rt.Fatal("two runs differ")
		}
		if diff := cmp.Diff(before, in.Cluster); diff != "" {
			rt.Fatalf("the input was changed: %s", diff)
		}
		checkObjects(rt, in.Cluster, first)
	})
}

func checkObjects(t *rapid.T, cluster *provv1.Cluster, objects []runtime.Object) {
	seen := map[string]bool{}
	for _, object := range objects {
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		gvk := object.GetObjectKind().GroupVersionKind()
		if gvk.Empty() || accessor.GetNamespace() != cluster.Namespace {
			t.Fatalf("%v %s/%s", gvk, accessor.GetNamespace(), accessor.GetName())
		}
		if gvk.Kind == "Secret" || gvk.Kind == "Beacon" {
			t.Fatalf("must never generate a %s", gvk.Kind)
		}
		key := gvk.String() + "/" + accessor.GetName()
		if seen[key] {
			t.Fatalf("%s generated twice", key)
		}
		seen[key] = true
		deployment, ok := object.(*clusterv1.MachineDeployment)
		if !ok {
			continue
		}
		limits := deployment.Spec.Rollout.Strategy.RollingUpdate
		if deployment.Spec.Replicas == nil || limits.MaxSurge == nil || limits.MaxUnavailable == nil ||
			deployment.Spec.Rollout.Strategy.Type == "" || len(deployment.Spec.Selector.MatchLabels) == 0 {
			t.Fatalf("MachineDeployment %s needs defaults", deployment.Name)
		}
		for key, value := range deployment.Spec.Selector.MatchLabels {
			if deployment.Spec.Template.Labels[key] != value {
				t.Fatalf("MachineDeployment %s does not select its own machines", deployment.Name)
			}
		}
		if deployment.Spec.Template.Spec.Version != "" {
			t.Fatalf("MachineDeployment %s has a version", deployment.Name)
		}
	}
}

func bytesEqual(t *rapid.T, a, b []runtime.Object) bool {
	first, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(first) == string(second)
}

func TestPrepare_WritesOnce(t *testing.T) {
	t.Parallel()
	in := raw(&provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo", Finalizers: []string{"another"}},
		Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{
			{Name: "a", NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: "nc-demo"}},
			{Name: "kept", NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: "nc-demo"},
				DynamicSchemaSpec: `{"resourceFields":{}}`},
			{Name: "unreadable", NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: "nc-demo"},
				DynamicSchemaSpec: `[`},
			{Name: "no-config"},
			{Name: "foreign", NodeConfig: &corev1.ObjectReference{APIVersion: "a.b/v1", Kind: "X", Name: "x"}},
			{Name: "no-schema", NodeConfig: &corev1.ObjectReference{Kind: "OtherConfig", Name: "x"}},
		}}},
	})
	prepared, err := topology.Prepare(in.Cluster, instance, in.Schemas)
	if err != nil || prepared == nil {
		t.Fatalf("prepared %v, error %v", prepared, err)
	}
	wantFinalizers := []string{"another", "wrangler.cattle.io/provisioning-cluster-remove",
		"wrangler.cattle.io/rke-cluster-remove"}
	if diff := cmp.Diff(wantFinalizers, prepared.Finalizers); diff != "" {
		t.Error(diff)
	}
	wantAnnotations := map[string]string{
		"clusterctl.cluster.x-k8s.io/block-move":                 "true",
		"drover.io/instance":                                     instance,
		"provisioning.cattle.io/management-cluster-display-name": "demo",
	}
	if diff := cmp.Diff(wantAnnotations, prepared.Annotations); diff != "" {
		t.Error(diff)
	}
	filled := map[string]bool{}
	for _, pool := range prepared.Spec.RKEConfig.MachinePools {
		var spec mgmtv3.DynamicSchemaSpec
		filled[pool.Name] = json.Unmarshal([]byte(pool.DynamicSchemaSpec), &spec) == nil &&
			len(spec.ResourceFields) == 3
	}
	want := map[string]bool{"a": true, "kept": false, "unreadable": true, "no-config": false, "foreign": false,
		"no-schema": false}
	if diff := cmp.Diff(want, filled); diff != "" {
		t.Error(diff)
	}
	if again, err := topology.Prepare(prepared, instance, in.Schemas); again != nil || err != nil {
		t.Errorf("a second write: %v, error %v", again, err)
	}
}

func released(c *provv1.Cluster) {
	c.Annotations = map[string]string{rkev1.ReleasedByAnnotation: "another"}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		mark     string
		children bool
		edit     func(*provv1.Cluster)
		want     topology.Ownership
	}{
		"new":      {want: topology.Unclaimed},
		"released": {edit: released, want: topology.Foreign},
		"named by another manager": {edit: func(c *provv1.Cluster) { c.Status.ClusterName = "local" },
			want: topology.Foreign},
		"an import": {edit: func(c *provv1.Cluster) { c.Spec.RKEConfig = nil },
			want: topology.Unclaimed},
		"imported by the management side": {edit: func(c *provv1.Cluster) {
			c.Name, c.Spec.RKEConfig = "c-a2b4c", nil
		}, want: topology.Foreign},
		"imported, with this instance's mark": {mark: instance, edit: func(c *provv1.Cluster) {
			c.Spec.RKEConfig = nil
		}, want: topology.Ours},
		"deleted before it was claimed": {edit: func(c *provv1.Cluster) {
			c.DeletionTimestamp = &metav1.Time{}
		}, want: topology.Foreign},
		"children of another controller":         {children: true, want: topology.Foreign},
		"this instance's mark":                   {mark: instance, want: topology.Ours},
		"this instance's mark and children":      {mark: instance, children: true, want: topology.Ours},
		"another instance's mark":                {mark: "instance-2", want: topology.Foreign},
		"another instance's mark, with children": {mark: "instance-2", children: true, want: topology.Foreign},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &provv1.Cluster{Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}}}
			if c.mark != "" {
				cluster.Annotations = map[string]string{rkev1.InstanceAnnotation: c.mark}
			}
			if c.edit != nil {
				c.edit(cluster)
			}
			if got := topology.Owner(cluster, instance, c.children); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestCAPIOwner(t *testing.T) {
	t.Parallel()
	ref := func(version, kind, name string, controller *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, Controller: controller,
			UID: types.UID(name)}
	}
	capi := clusterv1.GroupVersion.String()
	cases := map[string]struct {
		refs []metav1.OwnerReference
		want string
	}{
		"none": {},
		"controller": {refs: []metav1.OwnerReference{ref(capi, "Machine", "a", nil),
			ref(capi, "Machine", "b", new(true))}, want: "b"},
		"no controller": {refs: []metav1.OwnerReference{ref(capi, "MachineSet", "s", nil),
			ref(capi, "Machine", "a", nil)}, want: "a"},
		"older version of the same API": {refs: []metav1.OwnerReference{ref("cluster.x-k8s.io/v1beta1", "Machine", "a",
			new(true))}, want: "a"},
		"machine of another API": {refs: []metav1.OwnerReference{ref("example.org/v1", "Machine", "a", new(true))}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := topology.CAPIOwner(c.refs, "Machine"); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestTakeConfig_AddsTheOwnerOnce(t *testing.T) {
	t.Parallel()
	in := demo(t)
	taken, err := topology.TakeConfig(in.Cluster, podConfig())
	if err != nil || taken == nil {
		t.Fatalf("claimed %v, error %v", taken, err)
	}
	want := []metav1.OwnerReference{{
		APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster", Name: "demo", UID: "uid-of-demo",
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	if diff := cmp.Diff(want, taken.GetOwnerReferences()); diff != "" {
		t.Error(diff)
	}
	if again, err := topology.TakeConfig(in.Cluster, taken); again != nil || err != nil {
		t.Errorf("claimed twice: %v, error %v", again, err)
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	in := demo(t, func(c *provv1.Cluster) {
		c.Spec.CloudCredentialSecretName = "of-cluster"
		second := *pool(c, 0).DeepCopy()
		second.Name, second.CloudCredentialSecretName = "pool2", "cattle-global-data:cc-x"
		foreign := *pool(c, 0).DeepCopy()
		foreign.Name, foreign.NodeConfig = "pool3", &corev1.ObjectReference{APIVersion: "a.b/v1", Kind: "T", Name: "x",
			Namespace: "ignored"}
		c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, second, foreign)
	})
	if diff := cmp.Diff([]topology.ConfigRef{podRef}, topology.ConfigRefs(in.Cluster)); diff != "" {
		t.Error(diff)
	}
	wantKeys := []string{"a.b/v1/T/fleet-default/x", "rke-machine-config.cattle.io/v1/PodConfig/fleet-default/nc-demo"}
	if diff := cmp.Diff(wantKeys, topology.InfraKeys(in.Cluster)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"cattle-global-data:cc-x", "of-cluster"},
		topology.Credentials(in.Cluster)); diff != "" {
		t.Error(diff)
	}
	for reference, want := range map[string][2]string{
		"cattle-global-data:cc-x": {"cattle-global-data", "cc-x"},
		"plain":                   {"fleet-default", "plain"},
		"other:plain":             {"fleet-default", "other:plain"},
	} {
		namespace, name := topology.CredentialSecret("fleet-default", reference)
		if namespace != want[0] || name != want[1] {
			t.Errorf("%s: %s/%s", reference, namespace, name)
		}
	}
}

// BenchmarkDesired is a cluster of ten pools. The budget is three milliseconds, mostly for compressing the spec.
func BenchmarkDesired(b *testing.B) {
	in := raw(&provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo"},
		Spec:       provv1.ClusterSpec{KubernetesVersion: "v1.36.2+k3s1", RKEConfig: &provv1.RKEConfig{}},
		Status:     provv1.ClusterStatus{ClusterName: "c-m-q5wzxk7d"},
	})
	for i := range 10 {
		in.Cluster.Spec.RKEConfig.MachinePools = append(in.Cluster.Spec.RKEConfig.MachinePools, provv1.RKEMachinePool{
			Name: fmt.Sprintf("pool%d", i), WorkerRole: true, NodeConfig: &corev1.ObjectReference{Kind: "PodConfig",
				Name: "nc-demo"},
		})
	}
	prepared, err := topology.Prepare(in.Cluster, instance, in.Schemas)
	if err != nil {
		b.Fatal(err)
	}
	in.Cluster = prepared
	b.ReportAllocs()
	for b.Loop() {
		if _, err := topology.Desired(in); err != nil {
			b.Fatal(err)
		}
	}
}
