package simulated

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestBadInput applies what users get wrong. The Cluster says which field it is and what would be right, soon, and nothing is
// made from it.
func TestBadInput(t *testing.T) {
	st := stage.Start(t, stage.Settings{})
	tests := map[string]struct {
		change func(*provv1.Cluster)
		// want are words of the message: the field, and the remedy.
		want []string
		// refused is set where the API server itself refuses the object.
		refused bool
	}{
		"pool without a role": {
			change: func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].EtcdRole = false },
			want:   []string{"spec.rkeConfig.machinePools", "etcdRole"},
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
		"no version": {
			change: func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "" },
			want:   []string{"spec.kubernetesVersion"},
		},
		"version that is none": {
			change: func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "latest" },
			want:   []string{"spec.kubernetesVersion", "latest"},
		},
		"name too long": {
			change: func(c *provv1.Cluster) { c.Name = strings.Repeat("n", 64) },
			want:   []string{"metadata.name", "63"},
		},
		"negative quantity": {change: func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(-1)) }, refused: true},
		"pool without name": {change: func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].Name = "" }, refused: true},
		"two pools, one name": {change: func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, c.Spec.RKEConfig.MachinePools[0])
		}, refused: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			namespace := plane.Namespace(t)
			config := &unstructured.Unstructured{Object: map[string]any{"size": "small"}}
			config.SetAPIVersion("rke-machine-config.cattle.io/v1")
			config.SetKind("SimConfig")
			config.SetNamespace(namespace)
			config.SetName("good")
			if err := st.Client.Create(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"}, Spec: provv1.ClusterSpec{
				KubernetesVersion: k3s, RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{stage.Pool("a", "e", 1)}},
			}}
			cluster.Spec.RKEConfig.MachinePools[0].NodeConfig.Name = "good"
			test.change(cluster)
			err := st.Client.Create(t.Context(), cluster)
			if test.refused {
				if !apierrors.IsInvalid(err) {
					t.Errorf("want the API server to refuse it, got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			applied := time.Now()
			plane.Until(t, 20*time.Second, func() string { return complaintMissing(t, st, cluster, test.want) })
			if took := time.Since(applied); took > 2*time.Second {
				t.Errorf("the Cluster says so after %s only", took)
			}
			expectNothingMade(t, st, namespace)
		})
	}
}

// complaintMissing says what the Cluster's conditions do not say yet.
func complaintMissing(t *testing.T, st *stage.Stage, cluster *provv1.Cluster, want []string) string {
	t.Helper()
	if err := st.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		return err.Error()
	}
	condition := stage.Condition(cluster.Status.Conditions, provv1.ConditionRKECluster)
	if condition.Status != rkev1.ConditionFalse {
		return fmt.Sprintf("condition RKECluster is %+v", condition)
	}
	missing := slices.DeleteFunc(slices.Clone(want), func(word string) bool { return strings.Contains(condition.Message, word) })
	if len(missing) > 0 {
		return fmt.Sprintf("the message %q does not speak of %q", condition.Message, missing)
	}
	return ""
}

func expectNothingMade(t *testing.T, st *stage.Stage, namespace string) {
	t.Helper()
	for _, list := range []client.ObjectList{&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &rkev1.RKEControlPlaneList{}, &rkev1.RKEBootstrapTemplateList{}, &corev1.SecretList{}} {
		if err := st.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		if n := lengthOf(list); n != 0 {
			t.Errorf("%d objects of %T were made", n, list)
		}
	}
}

func lengthOf(list client.ObjectList) int {
	n := 0
	_ = meta.EachListItem(list, func(runtime.Object) error { n++; return nil }) // the function returns no error
	return n
}
