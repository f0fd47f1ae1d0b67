package manifests

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// host is the name of the machine that registers itself: "custom-" and the beginning of a hash of its identity.
const host = "custom-0123456789ab"

// registerHost creates what the registration of a host with all roles creates in a custom cluster
// (docs/wire/endpoints.md#register-a-host): the three objects of a machine, with one name and the host's own data. The
// host exists, so its infrastructure is ready.
func registerHost(t *testing.T, c client.Client, cluster string) {
	t.Helper()
	labels := map[string]string{
		clusterv1.ClusterNameLabel: cluster, rkev1.ClusterNameLabel: cluster, clusterv1.MachineControlPlaneLabel: "",
		rkev1.EtcdRoleLabel: "true", rkev1.ControlPlaneRoleLabel: "true", rkev1.WorkerRoleLabel: "true",
		rkev1.MachineIDLabel: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
		rkev1.NodeNameLabel:  "edge-1", rkev1.CattleOSLabel: "linux",
	}
	meta := func(annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: host, Labels: labels, Annotations: annotations}
	}
	taints := map[string]string{
		rkev1.TaintsAnnotation: `[{"key":"edge.example.com/isolated","value":"true","effect":"NoSchedule"}]`}
	said := map[string]string{
		rkev1.AddressAnnotation: "203.0.113.7", rkev1.InternalAddressAnnotation: "10.9.8.7",
		rkev1.LabelsAnnotation: `{"site":"north"}`,
		rkev1.TaintsAnnotation: taints[rkev1.TaintsAnnotation],
	}
	infrastructure := &rkev1.CustomMachine{ObjectMeta: meta(taints),
		Spec: rkev1.CustomMachineSpec{ProviderID: "rke2://edge-1"}}
	reference := func(kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.SchemeGroupVersion.Group, Kind: kind,
			Name: host}
	}
	for _, object := range []client.Object{
		&rkev1.RKEBootstrap{ObjectMeta: meta(said), Spec: rkev1.RKEBootstrapSpec{ClusterName: cluster}},
		infrastructure,
		&clusterv1.Machine{ObjectMeta: meta(taints), Spec: clusterv1.MachineSpec{
			ClusterName: cluster, Bootstrap: clusterv1.Bootstrap{ConfigRef: reference("RKEBootstrap")},
			InfrastructureRef: reference("CustomMachine"),
		}},
	} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("register %T: %v", object, err)
		}
	}
	exists := client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"ready":true,"initialization":{"provisioned":true}}}`))
	if err := c.Status().Patch(t.Context(), infrastructure, exists); err != nil {
		t.Fatal(err)
	}
}

// withoutPlan returns what the registered host waits for.
func withoutPlan(t *testing.T, c client.Client, cluster string) string {
	t.Helper()
	secrets := &corev1.SecretList{}
	selector := client.MatchingLabels{rkev1.ClusterNameLabel: cluster, rkev1.MachineNameLabel: host}
	if err := c.List(t.Context(), secrets, client.InNamespace(namespace), selector); err != nil {
		return err.Error()
	}
	for i := range secrets.Items {
		if secrets.Items[i].Type == rkev1.SecretTypeMachinePlan && len(secrets.Items[i].Data[nodeplan.KeyPlan]) > 0 {
			return ""
		}
	}
	controlPlane := &rkev1.RKEControlPlane{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: cluster}, controlPlane); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("the host has no plan; control plane: %+v", controlPlane.Status.Conditions)
}
