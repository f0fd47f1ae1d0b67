package simulated

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestBadInput applies typical mistakes of users. The Cluster soon names the field and the remedy in a condition, and
// Drover creates nothing from it.
func TestBadInput(t *testing.T) {
	st, all := stage.Start(t, stage.Settings{}), t
	tests := map[string]struct {
		change func(*provv1.Cluster)
		// want are words of the message or the rejection: the field and the remedy.
		want []string
		// refused is set where the API server itself rejects the object.
		refused bool
	}{
		"pool without a role": {
			change: func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].EtcdRole = false },
			want:   []string{"spec.rkeConfig.machinePools", "etcdRole"}, refused: true,
		},
		"unknown kind of machine config": {
			change: func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].NodeConfig.Kind = "NowhereConfig" },
			want:   []string{"spec.rkeConfig.machinePools", "machineConfigRef", "NowhereConfig"},
		},
		"missing machine config": {
			change: func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].NodeConfig.Name = "absent" },
			want:   []string{"spec.rkeConfig.machinePools", "machineConfigRef", "absent"},
		},
		"missing machine config reference": {
			change: func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].NodeConfig = nil },
			want:   []string{"spec.rkeConfig.machinePools", "machineConfigRef"},
		},
		"missing credential": {
			change: func(c *provv1.Cluster) { c.Spec.CloudCredentialSecretName = "cattle-global-data:absent" },
			want:   []string{"cloudCredentialSecretName", "absent"},
		},
		"without a version": {
			change: func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "" },
			want:   []string{"spec.kubernetesVersion"}, refused: true,
		},
		"invalid version": {
			change: func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "latest" },
			want:   []string{"spec.kubernetesVersion", "semantic version"}, refused: true,
		},
		"name too long": {
			change: func(c *provv1.Cluster) { c.Name = strings.Repeat("n", 64) },
			want:   []string{"metadata.name", "63"}, refused: true,
		},
		"negative quantity": {change: func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(-1))
		}, refused: true},
		"pool without name": {change: func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].Name = "" },
			refused: true},
		"two pools, one name": {change: func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, c.Spec.RKEConfig.MachinePools[0])
		}, refused: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			namespace := plane.Namespace(all) // its deletion would make Drover write during the next case
			config := &unstructured.Unstructured{Object: map[string]any{"size": "small"}}
			config.SetAPIVersion("rke-machine-config.cattle.io/v1")
			config.SetKind("SimConfig")
			config.SetNamespace(namespace)
			config.SetName("good")
			if err := st.Client.Create(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
				Spec: provv1.ClusterSpec{
					KubernetesVersion: stage.K3s,
					RKEConfig: &provv1.RKEConfig{
						MachinePools: []provv1.RKEMachinePool{stage.Pool("a", "e", 1)}},
				}}
			cluster.Spec.RKEConfig.MachinePools[0].NodeConfig.Name = "good"
			test.change(cluster)
			stage.AwaitQuiet(t, time.Minute) // wait for the end of the previous case
			applied := time.Now()
			err := st.Client.Create(t.Context(), cluster)
			if test.refused {
				if !apierrors.IsInvalid(err) {
					t.Errorf("want the API server to refuse it, got %v", err)
				}
				for _, word := range test.want {
					if err != nil && !strings.Contains(err.Error(), word) {
						t.Errorf("the refusal %q does not mention %q", err, word)
					}
				}
				expectNothingMade(t, st, namespace, applied, "SimConfig good")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			plane.Until(t, 20*time.Second, func() string { return complaintMissing(t, st, cluster, test.want) })
			if took := time.Since(applied); took > 2*time.Second {
				t.Errorf("the Cluster reports the problem only after %s", took)
			}
			expectNothingMade(t, st, namespace, applied, "Cluster "+cluster.Name, "SimConfig good")
			if cluster.Annotations[rkev1.InstanceAnnotation] == "" || len(cluster.Finalizers) != 2 {
				t.Errorf("the Cluster is not claimed: %v", cluster.ObjectMeta)
			}
			if cluster.Generation != 1 || len(cluster.Labels) > 0 || cluster.Status.ClusterName != "" {
				t.Errorf("the Cluster has more than the claim: generation %d, %v", cluster.Generation,
					cluster.ObjectMeta)
			}
		})
	}
}

// complaintMissing returns what is still missing in the Cluster's conditions.
func complaintMissing(t *testing.T, st *stage.Stage, cluster *provv1.Cluster, want []string) string {
	t.Helper()
	if err := st.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		return err.Error()
	}
	condition := stage.Condition(cluster.Status.Conditions, provv1.ConditionRKECluster)
	if condition.Status != rkev1.ConditionFalse {
		return fmt.Sprintf("condition RKECluster is %+v", condition)
	}
	missing := slices.DeleteFunc(slices.Clone(want), func(word string) bool {
		return strings.Contains(condition.Message, word)
	})
	if len(missing) > 0 {
		return fmt.Sprintf("the message %q does not mention %q", condition.Message, missing)
	}
	return ""
}

// expectNothingMade waits until Drover and Cluster API are idle. It fails if the namespace has any object that the test
// did not create. It also fails if Drover has written anything except the Cluster, even objects that are gone again or
// outside the namespace.
func expectNothingMade(t *testing.T, st *stage.Stage, namespace string, applied time.Time, given ...string) {
	t.Helper()
	stage.AwaitQuiet(t, time.Minute)
	if diff := cmp.Diff(given, st.Inventory(namespace)); diff != "" {
		t.Errorf("objects in the namespace (-want +got):\n%s", diff)
	}
	for _, write := range plane.Writes(t, stage.DroverAgent, applied) {
		own := write.Namespace == namespace && write.Group == provv1.SchemeGroupVersion.Group &&
			write.Resource == "clusters"
		if !own {
			t.Errorf("writes for it: %+v", write)
		}
	}
}
