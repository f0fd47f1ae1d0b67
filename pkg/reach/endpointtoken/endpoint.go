package endpointtoken

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Endpoint is what tokens for one cluster are made with.
type Endpoint struct {
	Keys     Keys
	Audience string
}

var (
	// ErrOff is for a cluster that has no authorized endpoint. Errors that wrap it say why, to users who may get the Cluster.
	ErrOff = errors.New("the cluster has no authorized endpoint")
	// ErrNotYet is for one whose keys are about to be made.
	ErrNotYet = errors.New("the keys of the cluster's authorized endpoint are not there yet")
	// ErrSpoiled is for one whose Secret holds no keys. Errors that wrap it name the Secret and what is wrong, and nothing that is in it.
	ErrSpoiled = errors.New("the keys of the cluster's authorized endpoint cannot be used")
)

// Wanted reports whether a Cluster is to have an endpoint. API servers of clusters that were imported are configured by others.
func Wanted(cluster *provv1.Cluster) bool {
	return cluster.Spec.RKEConfig != nil && cluster.Spec.LocalClusterAuthEndpoint.Enabled && cluster.DeletionTimestamp == nil
}

// For returns what tokens for a cluster are made with. management and secret are nil when they are not there. The error is ErrOff,
// ErrNotYet or ErrSpoiled.
func For(cluster *provv1.Cluster, management *mgmtv3.Cluster, secret *corev1.Secret) (Endpoint, error) {
	switch {
	case cluster.DeletionTimestamp != nil:
		return Endpoint{}, fmt.Errorf("%w: the Cluster is being deleted", ErrOff)
	case cluster.Spec.RKEConfig == nil:
		return Endpoint{}, fmt.Errorf("%w: it was imported, and Drover does not configure its API servers", ErrOff)
	case !cluster.Spec.LocalClusterAuthEndpoint.Enabled:
		return Endpoint{}, fmt.Errorf("%w: spec.localClusterAuthEndpoint.enabled of the Cluster is not true", ErrOff)
	case management == nil || management.DeletionTimestamp != nil || secret == nil || secret.DeletionTimestamp != nil:
		return Endpoint{}, ErrNotYet
	}
	keys, err := KeysOf(secret)
	return Endpoint{Keys: keys, Audience: Audience(management.Name, management.UID)}, err
}

// KeysOf are the keys in a Secret.
func KeysOf(secret *corev1.Secret) (Keys, error) {
	if secret.Type != rkev1.SecretTypeEndpointKeys {
		return Keys{}, fmt.Errorf("%w: secret %s/%s must have type %s; delete it, and Drover makes it anew", ErrSpoiled, secret.Namespace, secret.Name, rkev1.SecretTypeEndpointKeys)
	}
	keys, err := ParseKeys(secret.Data)
	if err != nil {
		return Keys{}, fmt.Errorf("%w: secret %s/%s: %w; delete it, and Drover makes it anew", ErrSpoiled, secret.Namespace, secret.Name, err)
	}
	return keys, nil
}

// Secret is that with the keys of a cluster.
func (k Keys) Secret(cluster *provv1.Cluster) (*corev1.Secret, error) {
	data, err := k.Data()
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: naming.EndpointKeys(cluster.Name),
			Labels:          map[string]string{rkev1.BackupLabel: "true", rkev1.ClusterNameLabel: cluster.Name},
			OwnerReferences: []metav1.OwnerReference{topology.OwnerReference(cluster, false)},
		},
		Type: rkev1.SecretTypeEndpointKeys,
		Data: data,
	}, nil
}
