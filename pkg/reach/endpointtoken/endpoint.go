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

// Endpoint contains the keys and the audience for tokens of one cluster.
type Endpoint struct {
	Keys     Keys
	Audience string
}

var (
	// ErrOff means that the cluster has no authorized endpoint. Errors that wrap it name the reason, for users who may
	// get the Cluster.
	ErrOff = errors.New("the cluster has no authorized endpoint")
	// ErrNotYet means that the keys are not created yet.
	ErrNotYet = errors.New("the keys of the cluster's authorized endpoint do not exist yet")
	// ErrInvalidKeys means that the Secret contains no usable keys. Errors that wrap it name the Secret and the
	// problem, and contain no data of it.
	ErrInvalidKeys = errors.New("the keys of the cluster's authorized endpoint are unusable")
)

// Wanted reports whether a Cluster shall have an endpoint. Drover does not configure the API servers of imported
// clusters.
func Wanted(cluster *provv1.Cluster) bool {
	return cluster.Spec.RKEConfig != nil && cluster.Spec.LocalClusterAuthEndpoint.Enabled &&
		cluster.DeletionTimestamp == nil
}

// For returns the keys and audience for tokens of a cluster. management and secret are nil if they do not exist. The
// error is ErrOff, ErrNotYet or ErrInvalidKeys.
func For(cluster *provv1.Cluster, management *mgmtv3.Cluster, secret *corev1.Secret) (Endpoint, error) {
	switch {
	case cluster.DeletionTimestamp != nil:
		return Endpoint{}, fmt.Errorf("%w: the Cluster is being deleted", ErrOff)
	case cluster.Spec.RKEConfig == nil:
		return Endpoint{}, fmt.Errorf("%w: the cluster was imported, and Drover does not configure its API servers",
			ErrOff)
	case !cluster.Spec.LocalClusterAuthEndpoint.Enabled:
		return Endpoint{}, fmt.Errorf("%w: spec.localClusterAuthEndpoint.enabled of the Cluster is not true", ErrOff)
	case management == nil || management.DeletionTimestamp != nil || secret == nil || secret.DeletionTimestamp != nil:
		return Endpoint{}, ErrNotYet
	}
	keys, err := KeysOf(secret)
	return Endpoint{Keys: keys, Audience: Audience(management.Name, management.UID)}, err
}

// KeysOf returns the keys in a Secret.
func KeysOf(secret *corev1.Secret) (Keys, error) {
	if secret.Type != rkev1.SecretTypeEndpointKeys {
		return Keys{}, fmt.Errorf("%w: secret %s/%s must have type %s; delete the Secret, and Drover creates it again",
			ErrInvalidKeys, secret.Namespace, secret.Name, rkev1.SecretTypeEndpointKeys)
	}
	keys, err := ParseKeys(secret.Data)
	if err != nil {
		return Keys{}, fmt.Errorf("%w: secret %s/%s: %w; delete the Secret, and Drover creates it again",
			ErrInvalidKeys, secret.Namespace, secret.Name, err)
	}
	return keys, nil
}

// Secret returns the Secret with the keys of a cluster.
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
