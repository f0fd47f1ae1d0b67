package embedhost

import (
	"encoding/json"

	"github.com/rancher/wrangler/v3/pkg/schemes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Cluster is the host's type for a provisioning Cluster.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSpec   `json:"spec"`
	Status ClusterStatus `json:"status,omitempty"`
}

type ClusterSpec struct {
	KubernetesVersion string         `json:"kubernetesVersion,omitempty"`
	RKEConfig         map[string]any `json:"rkeConfig,omitempty"`
}

type ClusterStatus struct {
	ClusterName string `json:"clusterName,omitempty"`
}

type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Cluster `json:"items"`
}

func (c *Cluster) DeepCopyObject() runtime.Object     { return copied(c) }
func (l *ClusterList) DeepCopyObject() runtime.Object { return copied(l) }

// Other is the host's type for every other kind of Drover.
type Other struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

type OtherList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Other `json:"items"`
}

func (o *Other) DeepCopyObject() runtime.Object     { return copied(o) }
func (l *OtherList) DeepCopyObject() runtime.Object { return copied(l) }

func copied[T any](in *T) *T {
	out := new(T)
	raw, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

var (
	provisioning = schema.GroupVersion{Group: "provisioning.cattle.io", Version: "v1"}
	others       = map[schema.GroupVersion][]string{
		{Group: "rke.cattle.io", Version: "v1"}: {
			"RKECluster", "RKEControlPlane", "RKEBootstrap", "RKEBootstrapTemplate", "CustomMachine", "ETCDSnapshot",
		},
		{Group: "management.cattle.io", Version: "v3"}: {"Cluster", "NodeDriver", "DynamicSchema",
			"ClusterRegistrationToken", "FleetWorkspace", "ManagedChart", "PodSecurityAdmissionConfigurationTemplate"},
		{Group: "cluster.x-k8s.io", Version: "v1beta2"}: {"Cluster", "Machine", "MachineSet", "MachineDeployment",
			"MachineHealthCheck"},
	}
)

// registerTypes adds the host's types to the process-wide scheme of lasso and wrangler. It would panic if a library had
// registered its own types for these kinds.
func registerTypes() error {
	return schemes.Register(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(provisioning, &Cluster{}, &ClusterList{})
		metav1.AddToGroupVersion(scheme, provisioning)
		for gv, kinds := range others {
			for _, kind := range kinds {
				scheme.AddKnownTypeWithName(gv.WithKind(kind), &Other{})
				scheme.AddKnownTypeWithName(gv.WithKind(kind+"List"), &OtherList{})
			}
			metav1.AddToGroupVersion(scheme, gv)
		}
		return nil
	})
}
