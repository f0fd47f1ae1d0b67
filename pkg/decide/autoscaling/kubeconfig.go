package autoscaling

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
)

const (
	// PathPrefix is where Drover's server serves the API of the management cluster for autoscalers.
	// (docs/wire/endpoints.md#autoscalers.)
	PathPrefix = "/k8s/clusters/local/"
	// KindAutoscaler is the value of provv1.KubeconfigTypeLabel.
	KindAutoscaler = "autoscaler"
	// KeyKubeconfig is the key of the kubeconfig in the Secret. The kubeconfig names the file of the token, so that a
	// client reads a renewed token without a restart.
	KeyKubeconfig = "value"
	// KeyToken is the key of the token in the Secret.
	KeyToken = "token"
	// FormerTokenAnnotation is the SHA-256 of the token before the last renewal. Drover's server accepts that token
	// until it expires, because the copy in the cluster follows later.
	FormerTokenAnnotation = "drover.io/former-token-sha256"
	// CopyNamespace is the namespace of the copy of the Secret in the cluster.
	CopyNamespace = metav1.NamespaceSystem
	// CopyName is the name of the copy of the Secret in the cluster.
	CopyName = "mgmt-kubeconfig"
)

// Kubeconfig is the desired kubeconfig Secret, without the token.
type Kubeconfig struct {
	// ServerURL and CACerts are those of Drover's server.
	ServerURL, CACerts string
	// Copy requests a copy of the Secret in the cluster.
	Copy bool
}

// Secret returns the Secret with a token. stored is the present Secret, or nil.
func (k Kubeconfig) Secret(cluster *provv1.Cluster, stored *corev1.Secret, token string) (*corev1.Secret, error) {
	config, err := k.render()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace,
		Name: naming.AutoscalerKubeconfig(cluster.Namespace, cluster.Name)}}
	former := ""
	if stored != nil {
		secret = stored.DeepCopy()
		former = secret.Annotations[FormerTokenAnnotation]
		if had := string(stored.Data[KeyToken]); had != "" && had != token {
			former = naming.SHA256(had)
		}
	}
	secret.OwnerReferences = []metav1.OwnerReference{topology.OwnerReference(cluster, true)}
	secret.Type = corev1.SecretTypeOpaque
	secret.Data = map[string][]byte{KeyKubeconfig: config, KeyToken: []byte(token)}
	for key, value := range map[string]string{
		clusterv1.ClusterNameLabel: cluster.Name, provv1.KubeconfigTypeLabel: KindAutoscaler,
	} {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, key, value)
	}
	annotations := map[string]string{FormerTokenAnnotation: former, provv1.SyncAnnotation: "",
		provv1.SyncTargetNamespaceAnnotation: "", provv1.SyncTargetNameAnnotation: "",
		rkev1.AuthorizedObjectAnnotation: ""}
	if k.Copy {
		annotations[provv1.SyncAnnotation] = "true"
		annotations[provv1.SyncTargetNamespaceAnnotation] = CopyNamespace
		annotations[provv1.SyncTargetNameAnnotation] = CopyName
		annotations[rkev1.AuthorizedObjectAnnotation] = cluster.Name
	}
	for key, value := range annotations {
		if delete(secret.Annotations, key); value != "" {
			metav1.SetMetaDataAnnotation(&secret.ObjectMeta, key, value)
		}
	}
	return secret, nil
}

// Digest identifies the content of the kubeconfig, which does not depend on the token.
func (k Kubeconfig) Digest() (string, error) {
	config, err := k.render()
	if err != nil {
		return "", err
	}
	return naming.SHA256(config), nil
}

// CopyIsBehind reports whether the copy of the Secret in a cluster has another kubeconfig than that with the digest.
func CopyIsBehind(copied *corev1.Secret, digest string) bool {
	return copied != nil && naming.SHA256(copied.Data[KeyKubeconfig]) != digest
}

// IsKubeconfig reports whether a Secret is the kubeconfig of an autoscaler, and returns its cluster.
func IsKubeconfig(secret *corev1.Secret) (cluster string, ok bool) {
	return secret.Labels[clusterv1.ClusterNameLabel], secret.Labels[provv1.KubeconfigTypeLabel] == KindAutoscaler
}

// TokenIn returns the token of a Secret if it is still usable: it belongs to the account with that UID, and is not due
// for renewal. renewal is when it is due. The token "" must be replaced now.
func TokenIn(secret *corev1.Secret, account types.UID, now time.Time) (token string, renewal time.Time) {
	if secret == nil {
		return "", time.Time{}
	}
	token = string(secret.Data[KeyToken])
	parsed, err := ParseToken(token)
	if err != nil || parsed.Account != account || !now.Before(parsed.Renewal()) {
		return "", time.Time{}
	}
	return token, parsed.Renewal()
}

// render returns the kubeconfig. It contains no token, but the name of its file in the same folder.
func (k Kubeconfig) render() ([]byte, error) {
	server := map[string]any{"server": strings.TrimRight(k.ServerURL, "/") + strings.TrimRight(PathPrefix, "/")}
	if k.CACerts != "" {
		server["certificate-authority-data"] = []byte(k.CACerts)
	}
	const name = "management"
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{map[string]any{"name": name, "cluster": server}},
		"users":    []any{map[string]any{"name": name, "user": map[string]any{"tokenFile": KeyToken}}},
		"contexts": []any{map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": name}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the kubeconfig of the autoscaler: %w", err)
	}
	return config, nil
}
