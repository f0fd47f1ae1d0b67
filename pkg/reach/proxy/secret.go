package proxy

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// KubeconfigKey is the key of the kubeconfig in its Secret. Cluster API, clusterctl and Fleet read it.
// (docs/wire/secrets.md#kubeconfig.)
const KubeconfigKey = "value"

// Secret builds the kubeconfig Secret of a cluster. Cluster API requires this name, type and label. The cluster owns
// it, so it is deleted with the cluster.
func Secret(namespace, cluster string, owner metav1.OwnerReference, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       namespace,
			Name:            naming.Kubeconfig(cluster),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: cluster},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{KubeconfigKey: kubeconfig},
	}
}
