package backup

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// replacedSince warns about expired tokens of imported clusters. Their agents may have received newer tokens since the
// backup was made. Only the lost management cluster had those tokens.
func replacedSince(objects []*unstructured.Unstructured, now time.Time) []string {
	clusters := imported(objects)
	var out []string
	for _, object := range objects {
		var secret corev1.Secret
		cluster := clusters[object.GetNamespace()]
		if cluster == "" || object.GetKind() != kindSecret || into(object, &secret) != nil {
			continue
		}
		if _, token := registration.IsSecretName(secret.Name); !token ||
			!registration.Serves(secret.Labels, registration.ForAgent) {
			continue
		}
		if expiry := registration.Read(&secret).ExpiresAt; !expiry.IsZero() && !expiry.After(now) {
			out = append(out,
				fmt.Sprintf(
					"%s: this token expired at %s, and the agent of the imported cluster %s may have a newer one "+
						"that Drover refuses now; "+
						"then apply the manifest in that cluster again", describe(object), expiry.Format(time.RFC3339),
					cluster))
		}
	}
	return out
}

// imported maps identities to imported clusters, as NAMESPACE/NAME. An identity is also the namespace of the cluster's
// tokens.
func imported(objects []*unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, object := range objects {
		var cluster provv1.Cluster
		if object.GroupVersionKind().GroupKind() != provisioningKind || into(object, &cluster) != nil {
			continue
		}
		if cluster.Spec.RKEConfig == nil && cluster.Status.ClusterName != "" {
			out[cluster.Status.ClusterName] = cluster.Namespace + "/" + cluster.Name
		}
	}
	return out
}
