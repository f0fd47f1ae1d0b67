package admission

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

const (
	capi         = "cluster.x-k8s.io/v1beta2"
	provisioning = "provisioning.cattle.io/v1"
)

// TestAdmission is one story, whose parts depend on their order.
func TestAdmission(t *testing.T) {
	var d *drover
	st := stage.Start(t, stage.Settings{Drover: func(t *testing.T) { d = run(t) }})
	alice, namespace := newPerson(t), plane.Namespace(t)
	awaitRegistered(t, alice)

	t.Run("wrong fields are refused", func(t *testing.T) { refusesManifests(t, alice, namespace) })
	t.Run("unusual fields cause warnings", func(t *testing.T) { warns(t, alice, namespace) })

	clusters := st.Apply(namespace, 3, map[string]string{"demo": stage.RKE2})
	clusters.AwaitReady()
	t.Run("harmful edits of a live cluster are refused", func(t *testing.T) { refusesEdits(t, alice, namespace) })
	t.Run("protected objects are not deleted", func(t *testing.T) { protects(t, st, alice, namespace) })
	t.Run("controllers delay deletions that policies allow", func(t *testing.T) { holds(t, st, alice) })

	d.end(t)
	t.Run("without Drover, other objects can be written", func(t *testing.T) { goesOn(t, alice, namespace) })
	t.Run("without Drover, a deleted namespace keeps its clusters", func(t *testing.T) {
		keepsTheNamespace(t, alice, namespace)
	})
}

// awaitRegistered waits until webhooks and policies are in force. The API server needs a moment for that.
func awaitRegistered(t *testing.T, alice *person) {
	t.Helper()
	guarded := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "guarded-",
		Annotations: map[string]string{"drover.io/protect": "true"}}}
	check(t, alice.Create(t.Context(), guarded))
	plane.Until(t, time.Minute, func() string {
		if err := alice.Delete(t.Context(), guarded, client.DryRunAll); !apierrors.IsForbidden(err) {
			return "policies are not in force"
		}
		if err := alice.apply(t, cluster("default", "wrong", func(spec map[string]any) {
			delete(spec, "kubernetesVersion")
		}), client.DryRunAll); err == nil {
			return "the API server does not call the webhooks yet"
		}
		return ""
	})
	alice.warned()
}

// cluster returns a manifest as a user writes it.
func cluster(namespace, name string, edits ...func(spec map[string]any)) *unstructured.Unstructured {
	o := object(provisioning, "Cluster", namespace, name)
	spec := map[string]any{
		"kubernetesVersion": stage.RKE2,
		"rkeConfig":         map[string]any{"machinePools": []any{pool("all", true, true)}},
	}
	for _, edit := range edits {
		edit(spec)
	}
	o.Object["spec"] = spec
	return o
}

func pool(name string, etcd, controlPlane bool) map[string]any {
	return map[string]any{
		"name": name, "etcdRole": etcd, "controlPlaneRole": controlPlane, "workerRole": true, "quantity": int64(1),
		"machineConfigRef": map[string]any{"kind": "SimConfig", "name": name},
	}
}

func with(pool map[string]any, key string, value any) map[string]any {
	pool[key] = value
	return pool
}

func set(value any, path ...string) func(map[string]any) {
	return func(spec map[string]any) {
		if err := unstructured.SetNestedField(spec, value, path...); err != nil {
			panic(err)
		}
	}
}

func refusesManifests(t *testing.T, alice *person, namespace string) {
	for name, tc := range map[string]struct {
		edit        func(map[string]any)
		text, field string
	}{
		"no etcd": {
			set([]any{pool("all", false, true)}, "rkeConfig", "machinePools"), "no pool has machines with etcd",
			"spec.rkeConfig.machinePools",
		},
		"a range with the larger number first": {
			set([]any{with(pool("all", true, true), "unhealthyRange", "[5-3]")}, "rkeConfig", "machinePools"),
			"must begin with the smaller number", "spec.rkeConfig.machinePools[0].unhealthyRange",
		},
		"a variable with an invalid name": {
			set([]any{map[string]any{"name": "a-b", "value": "c"}}, "agentEnvVars"), "the name of a shell variable",
			"spec.agentEnvVars[0].name",
		},
		"one directory inside another": {
			set(map[string]any{"systemAgent": "/data", "k8sDistro": "/data/k8s"}, "rkeConfig", "dataDirectories"),
			"a separate directory", "spec.rkeConfig.dataDirectories.k8sDistro",
		},
	} {
		refused(t, name, alice.apply(t, cluster(namespace, "wrong", tc.edit), client.DryRunAll), tc.text, tc.field)
	}
	// Objects that it refers to may be created later, for example by a GitOps tool.
	if err := alice.apply(t, cluster(namespace, "early"), client.DryRunAll); err != nil {
		t.Errorf("a cluster without its machine config yet: %v", err)
	}
}

func warns(t *testing.T, alice *person, namespace string) {
	alice.warned()
	check(t, alice.apply(t,
		cluster(namespace, "odd", set(map[string]any{"kubelet-args": "v=2"}, "rkeConfig", "machineGlobalConfig")),
		client.DryRunAll))
	got := strings.Join(alice.warned(), "\n")
	if want := "spec.rkeConfig.machineGlobalConfig.kubelet-args: key kubelet-args is unknown"; !strings.Contains(got,
		want) || !strings.Contains(got, "did you mean kubelet-arg?") {
		t.Errorf("the warnings are %q", got)
	}
}

// refusesEdits makes edits of a cluster that could not be undone.
func refusesEdits(t *testing.T, alice *person, namespace string) {
	patch := func(text string) error {
		return alice.Patch(t.Context(), object(provisioning, "Cluster", namespace, "demo"),
			client.RawPatch("application/json-patch+json", []byte(text)))
	}
	refused(t, "the etcd role is removed from machines",
		patch(`[{"op":"replace","path":"/spec/rkeConfig/machinePools/0/etcdRole","value":false}]`),
		"machines of the pool are etcd members", "spec.rkeConfig.machinePools[0].etcdRole")
	refused(t, "the last server is scaled to zero",
		patch(`[{"op":"replace","path":"/spec/rkeConfig/machinePools/0/quantity","value":0}]`),
		"no pool has machines with etcd", "spec.rkeConfig.machinePools")
	refused(t, "rkeConfig is removed", patch(`[{"op":"remove","path":"/spec/rkeConfig"}]`),
		"a provisioned cluster needs it", "")
	refused(t, "a directory moves",
		patch(`[{"op":"add","path":"/spec/rkeConfig/dataDirectories/k8sDistro","value":"/data"}]`),
		"dataDirectories.k8sDistro: Invalid value: cannot be changed", "")
	refused(t, "the driver of its machines is deleted",
		alice.Delete(t.Context(), object("management.cattle.io/v3", "NodeDriver", "", "sim")),
		"machines of this driver exist", "")
	refused(t, "a restore of a missing snapshot",
		patch(`[{"op":"add","path":"/spec/rkeConfig/etcdSnapshotRestore","value":{"name":"none","generation":1,"restoreRKEConfig":"all"}}]`),
		`Not found: "none"`, "spec.rkeConfig.etcdSnapshotRestore.name")
	refused(t, "a missing credential",
		patch(`[{"op":"add","path":"/spec/rkeConfig/etcd","value":{"s3":{"bucket":"b","cloudCredentialName":"none"}}}]`),
		"Secret none does not exist in namespace "+namespace, "spec.rkeConfig.etcd.s3.cloudCredentialName")
	refused(t, "another user becomes the creator",
		patch(`[{"op":"add","path":"/metadata/annotations/field.cattle.io~1creatorId","value":"bob"}]`),
		"creatorId]: Invalid value", "")
	before := &provv1.Cluster{}
	check(t, getTyped(t, namespace, before))
	if who := before.Annotations[provv1.CreatorIDAnnotation]; who == "" || who == "alice" {
		t.Errorf("the creator of the cluster is %q, not the user of the stage", who)
	}
	alice.warned()
	check(t, patch(`[{"op":"replace","path":"/spec/rkeConfig/machinePools/0/dynamicSchemaSpec","value":""}]`))
	after := &provv1.Cluster{}
	check(t, getTyped(t, namespace, after))
	if had := before.Spec.RKEConfig.MachinePools[0].DynamicSchemaSpec; had == "" ||
		after.Spec.RKEConfig.MachinePools[0].DynamicSchemaSpec != had {
		t.Errorf("the copy of the driver's schema is %q, was %q",
			after.Spec.RKEConfig.MachinePools[0].DynamicSchemaSpec, had)
	}
	for _, deployment := range alice.list(t, capi, "MachineDeployment", namespace) {
		scale := object("autoscaling/v1", "Scale", namespace, deployment.GetName())
		check(t, unstructured.SetNestedField(scale.Object, int64(7), "spec", "replicas"))
		check(t, alice.SubResource("scale").Update(t.Context(), &deployment, client.WithSubResourceBody(scale),
			client.DryRunAll))
	}
	if got := strings.Join(alice.warned(), "\n"); !strings.Contains(got,
		"machinePools[0].quantity of Cluster demo is 1") {
		t.Errorf("the warnings after a scale beyond the pool are %q", got)
	}
}

func getTyped(t *testing.T, namespace string, into *provv1.Cluster) error {
	t.Helper()
	scheme := newScheme(t)
	c, err := client.New(plane.Config(t, "contract-tests"), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo"}, into)
}
