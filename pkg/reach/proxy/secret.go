package proxy

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// KubeconfigKey is the key of the kubeconfig in its Secret. Cluster API,
// clusterctl and Fleet read it. (docs/wire/secrets.md#kubeconfig.)
const KubeconfigKey = "value"

// Secret builds the Secret with the kubeconfig of a cluster in the form Cluster
// API looks for: name, type and label are all part of it. It is owned by the
// cluster and goes with it.
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
