package topology_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/testkit/golden"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

// TestDesired_Golden compares all objects of a cluster with testdata. A difference changes the objects of existing
// clusters.
func TestDesired_Golden(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*provv1.Cluster){
		"one-pool": func(*provv1.Cluster) {},
		"custom":   func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools = nil },
		"everything": func(c *provv1.Cluster) {
			c.Labels = map[string]string{rkev1.InitNodeMachineIDLabel: "machine-7", "env": "not copied"}
			c.Annotations = map[string]string{
				rkev1.DeleteMissingCustomMachinesAfterAnnotation: "10m", provv1.RKE2PrimeEnabledAnnotation: "true",
			}
			c.Spec.CloudCredentialSecretName = "cattle-global-data:cc-known"
			c.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "HTTP_PROXY", Value: "http://proxy:3128"}}
			c.Spec.RKEConfig.MachineGlobalConfig = rkev1.GenericMap{Data: map[string]any{"cni": "calico"}}
			c.Spec.RKEConfig.MachinePoolDefaults.HostnameLengthLimit = 20
			c.Spec.RKEConfig.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
			first := pool(c, 0)
			first.UnhealthyNodeTimeout = &metav1.Duration{Duration: 5 * time.Minute}
			first.WorkerRole = false
			worker := provv1.RKEMachinePool{
				Name: "workers", WorkerRole: true, Quantity: new(int32(2)), Paused: true, DrainBeforeDelete: true,
				NodeConfig: &corev1.ObjectReference{APIVersion: topology.MachineConfigVersion,
					Kind: "PodConfig", Name: "nc-demo"},
				DrainBeforeDeleteTimeout:     &metav1.Duration{Duration: 90*time.Second + time.Millisecond},
				MachineDeploymentLabels:      map[string]string{"tier": "workers"},
				MachineDeploymentAnnotations: map[string]string{"note": "kept"},
				HostnameLengthLimit:          30,
				RollingUpdate: &provv1.RKEMachinePoolRollingUpdate{
					MaxSurge: new(intstr.FromString("25%"))},
				NodeStartupTimeout:   &metav1.Duration{Duration: 20 * time.Minute},
				UnhealthyNodeTimeout: &metav1.Duration{Duration: time.Minute},
				MaxUnhealthy:         new("40%"), UnhealthyRange: new("[1-2]"),
				AutoscalingMinSize: new(int32(3)), AutoscalingMaxSize: new(int32(6)),
			}
			worker.Labels = map[string]string{"env": "prod"}
			worker.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
			worker.CloudCredentialSecretName = "known"
			c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, worker)
		},
		"foreign-infrastructure": func(c *provv1.Cluster) {
			c.Spec.RKEConfig.InfrastructureRef = &corev1.ObjectReference{
				APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSCluster", Name: "aws",
			}
			pool(c, 0).NodeConfig = &corev1.ObjectReference{
				APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSMachineTemplate", Name: "aws-a",
			}
			pool(c, 0).Userdata = &rkev1.UserdataSpec{InlineUserdata: "#cloud-config\npackages: [htop]\n"}
		},
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareGolden(t, name, desired(t, demo(t, edit)))
		})
	}
}

func desired(t *testing.T, in topology.Input) []runtime.Object {
	t.Helper()
	if errs := topology.Validate(in); len(errs) > 0 {
		t.Fatalf("not valid: %s", topology.Explain(errs))
	}
	objects, err := topology.Desired(in)
	if err != nil {
		t.Fatalf("desired: %v", err)
	}
	return objects
}

func compareGolden(t *testing.T, name string, objects []runtime.Object) {
	t.Helper()
	golden.Check(t, "testdata/"+name+".golden.yaml", render(t, objects))
}

// render writes objects as one YAML stream, with the compressed spec as text.
func render(t *testing.T, objects []runtime.Object) string {
	t.Helper()
	var out strings.Builder
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: content}
		if spec := u.GetAnnotations()[rkev1.ClusterSpecAnnotation]; spec != "" {
			annotations := u.GetAnnotations()
			annotations[rkev1.ClusterSpecAnnotation] = packed.Read(t, spec)
			u.SetAnnotations(annotations)
		}
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n" + string(text))
	}
	return out.String()
}

func find[T runtime.Object](t *testing.T, objects []runtime.Object) []T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

func templateNames(t *testing.T, objects []runtime.Object) []string {
	t.Helper()
	var names []string
	for _, template := range find[*unstructured.Unstructured](t, objects) {
		names = append(names, template.GetName())
	}
	return names
}

// TestDesired_WhatReplacesMachines pins the edits that give a template another name. Another name replaces every
// machine of the pool.
func TestDesired_WhatReplacesMachines(t *testing.T) {
	t.Parallel()
	const recorded = "demo-pool1-4d5c3958"
	cases := map[string]struct {
		cluster      func(*provv1.Cluster)
		config       func(*unstructured.Unstructured)
		wantReplaced bool
	}{
		"nothing":          {},
		"labels":           {cluster: func(c *provv1.Cluster) { pool(c, 0).Labels = map[string]string{"a": "b"} }},
		"credential":       {cluster: func(c *provv1.Cluster) { c.Spec.CloudCredentialSecretName = "known" }},
		"quantity":         {cluster: func(c *provv1.Cluster) { pool(c, 0).Quantity = new(int32(5)) }},
		"version":          {cluster: func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.36.3+rke2r1" }},
		"configuration":    {cluster: func(c *provv1.Cluster) { c.Spec.RKEConfig.ProvisionGeneration = 4 }},
		"an unknown field": {config: func(u *unstructured.Unstructured) { u.Object["unknown"] = "changed" }},
		"an emptied field": {config: func(u *unstructured.Unstructured) { delete(u.Object, "userdata") }},
		"labels of a config": {config: func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{"a": "b"})
		}},
		"a field of the spec": {config: func(u *unstructured.Unstructured) { u.Object["image"] = "other" },
			wantReplaced: true},
		"a field's type": {config: func(u *unstructured.Unstructured) { u.Object["etcdTmpfs"] = int64(512) },
			wantReplaced: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var edits []func(*provv1.Cluster)
			if c.cluster != nil {
				edits = append(edits, c.cluster)
			}
			in := demo(t, edits...)
			if c.config != nil {
				c.config(in.MachineConfigs[podRef])
			}
			names := templateNames(t, desired(t, in))
			if len(names) != 1 || (names[0] != recorded) != c.wantReplaced {
				t.Errorf("templates %v, want machines replaced: %v", names, c.wantReplaced)
			}
		})
	}
}

func TestDesired_NewDriverSchemaReplacesNothing(t *testing.T) {
	t.Parallel()
	in := demo(t)
	in.Schemas["podconfig"].ResourceFields["unknown"] = in.Schemas["podconfig"].ResourceFields["image"]
	again := prepare(t, in)
	if names := templateNames(t, desired(t, again)); names[0] != "demo-pool1-4d5c3958" {
		t.Errorf("templates %v", names)
	}
}

func TestDesired_Replicas(t *testing.T) {
	t.Parallel()
	autoscale := func(low, high int32) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) {
			pool(c, 0).AutoscalingMinSize, pool(c, 0).AutoscalingMaxSize = &low, &high
		}
	}
	cases := map[string]struct {
		edit    func(*provv1.Cluster)
		current map[string]int32
		want    int32
		sized   bool
	}{
		"the quantity": {edit: func(*provv1.Cluster) {}, want: 3},
		"the quantity overrides the existing size": {edit: func(*provv1.Cluster) {},
			current: map[string]int32{"demo-pool1": 7}, want: 3},
		"without a quantity the size starts at one": {edit: func(c *provv1.Cluster) { pool(c, 0).Quantity = nil },
			want: 1},
		"without a quantity the existing size is kept": {edit: func(c *provv1.Cluster) { pool(c, 0).Quantity = nil },
			current: map[string]int32{"demo-pool1": 7}, want: 7, sized: true},
		"an autoscaler starts with its quantity": {edit: autoscale(1, 5), want: 3},
		"an autoscaler starts with its minimum":  {edit: autoscale(4, 5), want: 4},
		"an autoscaler keeps the existing size": {edit: autoscale(1, 9), current: map[string]int32{"demo-pool1": 7},
			want: 7, sized: true},
		"an autoscaler is limited to its maximum": {edit: autoscale(1, 5), current: map[string]int32{"demo-pool1": 7},
			want: 5},
		"another pool's size is ignored": {edit: autoscale(1, 5), current: map[string]int32{"demo-pool2": 5}, want: 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := demo(t, c.edit)
			in.Replicas = c.current
			deployments := find[*clusterv1.MachineDeployment](t, desired(t, in))
			if got := *deployments[0].Spec.Replicas; got != c.want {
				t.Errorf("replicas %d, want %d", got, c.want)
			}
			if sized := len(topology.Sized(in)) > 0; sized != c.sized {
				t.Errorf("another program sets the size: %t", sized)
			}
		})
	}
}

func TestDesired_Autoscaler(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		paused string
		scaled bool
		want   map[string]string
	}{
		"not used": {},
		"enabled": {scaled: true,
			want: map[string]string{provv1.ClusterAutoscalerEnabledAnnotation: "true"}},
		"paused": {scaled: true, paused: "true",
			want: map[string]string{provv1.ClusterAutoscalerPausedAnnotation: "true"}},
		"paused by any value": {scaled: true, paused: "maintenance",
			want: map[string]string{provv1.ClusterAutoscalerPausedAnnotation: "true"}},
		"false does not pause it": {scaled: true, paused: "false",
			want: map[string]string{provv1.ClusterAutoscalerEnabledAnnotation: "true"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := demo(t, func(cluster *provv1.Cluster) {
				cluster.Annotations = map[string]string{provv1.ClusterAutoscalerPausedAnnotation: c.paused}
				if c.scaled {
					pool(cluster, 0).AutoscalingMinSize, pool(cluster, 0).AutoscalingMaxSize = new(int32(1)),
						new(int32(5))
				}
			})
			clusters := find[*clusterv1.Cluster](t, desired(t, in))
			if diff := cmp.Diff(c.want, clusters[0].Annotations); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDesired_LabelsOfMachinesAreNotTheUsers(t *testing.T) {
	t.Parallel()
	in := demo(t)
	pool(in.Cluster, 0).Labels = map[string]string{rkev1.ClusterNameLabel: "another", "mine": "yes"}
	objects, err := topology.Desired(in)
	if err != nil {
		t.Fatal(err)
	}
	labels := find[*clusterv1.MachineDeployment](t, objects)[0].Spec.Template.Labels
	if labels[rkev1.ClusterNameLabel] != "demo" || labels["mine"] != "yes" {
		t.Errorf("labels %v", labels)
	}
}

func TestDesired_Nothing(t *testing.T) {
	t.Parallel()
	in := raw(&provv1.Cluster{})
	if objects, err := topology.Desired(in); err != nil || len(objects) != 0 {
		t.Errorf("an imported cluster has %d objects, error %v", len(objects), err)
	}
	in = demo(t, func(c *provv1.Cluster) { c.Status.ClusterName = "" })
	if _, err := topology.Desired(in); err == nil {
		t.Error("no management cluster name is an error")
	}
	in = demo(t)
	delete(in.MachineConfigs, podRef)
	if _, err := topology.Desired(in); err == nil {
		t.Error("a missing machine config is an error")
	}
	in = demo(t)
	pool(in.Cluster, 0).DynamicSchemaSpec = "{"
	if _, err := topology.Desired(in); err == nil {
		t.Error("a pool without a schema is an error")
	}
}

func TestDesired_SpecForSnapshotsHasNoOperations(t *testing.T) {
	t.Parallel()
	with := func(edit func(*provv1.RKEConfig)) string {
		in := demo(t, func(c *provv1.Cluster) { edit(c.Spec.RKEConfig) })
		return find[*rkev1.RKEControlPlane](t, desired(t, in))[0].Annotations[rkev1.ClusterSpecAnnotation]
	}
	without := with(func(*provv1.RKEConfig) {})
	operations := with(func(c *provv1.RKEConfig) {
		c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
		c.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "s"}
		c.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
		c.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 1}
	})
	if without != operations {
		t.Error("a requested operation counts as a change of configuration")
	}
	var spec provv1.ClusterSpec
	if err := json.Unmarshal([]byte(packed.Read(t, without)), &spec); err != nil ||
		spec.KubernetesVersion != "v1.36.2+rke2r1" {
		t.Errorf("spec %+v, error %v", spec, err)
	}
}

// TestDesired_NodeDeletionTimeout checks that the limit includes what happens before the Node's deletion, because it
// counts from the beginning of a machine's deletion.
func TestDesired_NodeDeletionTimeout(t *testing.T) {
	t.Parallel()
	const minutes = 60
	drained := func(limit *metav1.Duration) func(*provv1.RKEMachinePool) {
		return func(p *provv1.RKEMachinePool) { p.DrainBeforeDelete, p.DrainBeforeDeleteTimeout = true, limit }
	}
	cases := map[string]struct {
		pool func(*provv1.RKEMachinePool)
		want int32
	}{
		"not drained": {func(*provv1.RKEMachinePool) {}, 10 * minutes},
		"a limit without a drain": {func(p *provv1.RKEMachinePool) {
			p.DrainBeforeDeleteTimeout = &metav1.Duration{Duration: time.Hour}
		}, 10 * minutes},
		"drained":                      {drained(nil), 70 * minutes},
		"drained without limit":        {drained(&metav1.Duration{}), 70 * minutes},
		"drained for a while":          {drained(&metav1.Duration{Duration: 5 * time.Minute}), 15 * minutes},
		"drained for the maximum time": {drained(&metav1.Duration{Duration: math.MaxInt64}), math.MaxInt32},
		"drained for a negative time":  {drained(&metav1.Duration{Duration: -time.Hour}), 70 * minutes},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := demo(t, func(cluster *provv1.Cluster) { c.pool(pool(cluster, 0)) })
			objects, err := topology.Desired(in)
			if err != nil {
				t.Fatal(err)
			}
			got := find[*clusterv1.MachineDeployment](t,
				objects)[0].Spec.Template.Spec.Deletion.NodeDeletionTimeoutSeconds
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
