package build

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	// Namespace is the namespace of all objects.
	Namespace = provv1.DefaultWorkspaceNamespace
	// Version is the Kubernetes version of clusters.
	Version = "v1.36.2+rke2r1"
)

// Cluster returns a Cluster with these pools, as a user applies it.
func Cluster(name string, pools ...provv1.RKEMachinePool) *provv1.Cluster {
	return &provv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: provv1.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: meta(name),
		Spec:       provv1.ClusterSpec{KubernetesVersion: Version, RKEConfig: &provv1.RKEConfig{MachinePools: pools}},
	}
}

// Pool returns a machine pool. Its machine config is the SimConfig of the same name.
func Pool(name, roles string, quantity int32) provv1.RKEMachinePool {
	return provv1.RKEMachinePool{
		Name: name, Quantity: &quantity, NodeConfig: &corev1.ObjectReference{Kind: "SimConfig", Name: name},
		EtcdRole: strings.Contains(roles, "e"), ControlPlaneRole: strings.Contains(roles, "c"),
		WorkerRole: strings.Contains(roles, "w"),
	}
}

// ControlPlane returns the control plane of a cluster.
func ControlPlane(cluster string) *rkev1.RKEControlPlane {
	return &rkev1.RKEControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "RKEControlPlane"},
		ObjectMeta: meta(cluster),
		Spec: rkev1.RKEControlPlaneSpec{KubernetesVersion: Version, ClusterName: cluster,
			ManagementClusterName: "c-m-" + cluster},
	}
}

// MachineOption changes a machine.
type MachineOption func(*clusterv1.Machine)

// Machine returns a machine of a cluster. It refers to a RKEBootstrap and a SimMachine of the same name.
func Machine(cluster, name, roles string, options ...MachineOption) *clusterv1.Machine {
	machine := &clusterv1.Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: meta(name),
		Spec: clusterv1.MachineSpec{
			ClusterName: cluster,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: name}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io",
				Kind: "SimMachine", Name: name},
		},
	}
	machine.Labels = roleLabels(roles)
	machine.Labels[clusterv1.ClusterNameLabel] = cluster
	machine.Labels[rkev1.ClusterNameLabel] = cluster
	machine.Labels[rkev1.CattleOSLabel] = "linux"
	for _, option := range options {
		option(machine)
	}
	return machine
}

// WithNode gives a machine a node.
func WithNode(name string) MachineOption {
	return func(m *clusterv1.Machine) {
		m.Spec.ProviderID = "sim://" + m.Name
		m.Status.NodeRef = clusterv1.MachineNodeReference{Name: name}
		m.Status.Phase = string(clusterv1.MachinePhaseRunning)
	}
}

// WithAddress gives a machine an internal address.
func WithAddress(address string) MachineOption {
	return func(m *clusterv1.Machine) {
		m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP,
			Address: address})
	}
}

// Deleting marks a machine as being deleted.
func Deleting() MachineOption {
	return func(m *clusterv1.Machine) {
		now := metav1.Unix(1_700_000_000, 0)
		m.DeletionTimestamp, m.Finalizers = &now, []string{clusterv1.MachineFinalizer}
	}
}

// Bootstrap returns the RKEBootstrap of a machine.
func Bootstrap(machine *clusterv1.Machine) *rkev1.RKEBootstrap {
	bootstrap := &rkev1.RKEBootstrap{
		TypeMeta:   metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "RKEBootstrap"},
		ObjectMeta: meta(machine.Spec.Bootstrap.ConfigRef.Name),
		Spec:       rkev1.RKEBootstrapSpec{ClusterName: machine.Spec.ClusterName},
	}
	yes := true
	bootstrap.Labels = machine.Labels
	bootstrap.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}}
	return bootstrap
}

// PlanSecret returns the plan Secret of a machine. The data are pairs of key and value.
func PlanSecret(machine *clusterv1.Machine, data ...string) *corev1.Secret {
	secret := Secret(naming.PlanSecret(machine.Spec.Bootstrap.ConfigRef.Name), data...)
	secret.Type = rkev1.SecretTypeMachinePlan
	secret.Labels = map[string]string{rkev1.ClusterNameLabel: machine.Spec.ClusterName,
		rkev1.MachineNameLabel: machine.Name}
	for key, value := range machine.Labels {
		if value == rkev1.RoleLabelValue {
			secret.Labels[key] = value
		}
	}
	return secret
}

// Secret returns a Secret. The data are pairs of key and value.
func Secret(name string, data ...string) *corev1.Secret {
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta(name),
		Data: map[string][]byte{}}
	for i := 0; i+1 < len(data); i += 2 {
		secret.Data[data[i]] = []byte(data[i+1])
	}
	return secret
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: types.UID("uid-of-" + name)}
}

func roleLabels(roles string) map[string]string {
	labels := map[string]string{}
	for letter, label := range map[string]string{"e": rkev1.EtcdRoleLabel, "c": rkev1.ControlPlaneRoleLabel,
		"w": rkev1.WorkerRoleLabel} {
		if strings.Contains(roles, letter) {
			labels[label] = rkev1.RoleLabelValue
		}
	}
	return labels
}
