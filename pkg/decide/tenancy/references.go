package tenancy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// ReasonAccessDenied is the reason of conditions about a Secret of another namespace that the cluster may not use.
const ReasonAccessDenied = "AccessDenied"

// Reference is a Secret outside the namespace of the Cluster that refers to it.
type Reference struct {
	// Field is the path of the reference, or of the first of several.
	Field string
	types.NamespacedName
}

// References returns the Secrets of other namespaces that a Cluster refers to. These are cloud credentials, the
// credential for snapshots in S3, and configuration of the form secret://NAMESPACE:NAME. All other references are
// within the Cluster's own namespace. The result is sorted by namespace and name, without duplicates.
func References(cluster *provv1.Cluster) []Reference {
	if cluster.Spec.RKEConfig == nil {
		return nil
	}
	refs := append(credentials(cluster), configured(cluster)...)
	refs = slices.DeleteFunc(refs, func(r Reference) bool { return r.Namespace == cluster.Namespace })
	slices.SortStableFunc(refs, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(refs, func(a, b Reference) bool { return a.NamespacedName == b.NamespacedName })
}

// credentials returns the cloud credentials of the pools. The cluster's own credential counts even while every pool has
// another one.
func credentials(cluster *provv1.Cluster) []Reference {
	var refs []Reference
	add := func(field, reference string) {
		if reference == "" {
			return
		}
		namespace, name := topology.CredentialSecret(cluster.Namespace, reference)
		refs = append(refs,
			Reference{Field: field, NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	add("spec.cloudCredentialSecretName", cluster.Spec.CloudCredentialSecretName)
	for i := range cluster.Spec.RKEConfig.MachinePools {
		add(fmt.Sprintf("spec.rkeConfig.machinePools[%d].cloudCredentialSecretName", i),
			cluster.Spec.RKEConfig.MachinePools[i].CloudCredentialSecretName)
	}
	return refs
}

// configured returns the references from which plans are rendered.
func configured(cluster *provv1.Cluster) []Reference {
	config := &cluster.Spec.RKEConfig.ClusterConfiguration
	var inS3 []render.Reference
	if config.ETCD != nil {
		inS3 = render.StorageReferences(cluster.Namespace, config.ETCD.S3)
	}
	var refs []Reference
	for _, ref := range render.References(cluster.Namespace, &rkev1.RKEControlPlaneSpec{ClusterConfiguration: *config},
		render.Settings{}) {
		if ref.Kind != render.KindSecret {
			continue
		}
		field := "spec.rkeConfig.machineGlobalConfig or machineSelectorConfig, cloud-provider-config"
		if slices.Contains(inS3, ref) {
			field = "spec.rkeConfig.etcd.s3.cloudCredentialName"
		}
		refs = append(refs, Reference{Field: field, NamespacedName: ref.NamespacedName})
	}
	return refs
}

// Offered reports whether a Secret permits its use by a cluster of another namespace. An annotation that authorizes
// clusters must list NAMESPACE/NAME or NAMESPACE/*. A bare name means a cluster in the Secret's own namespace, because
// any user can create a cluster of the same name in another namespace.
func Offered(annotations map[string]string, cluster types.NamespacedName) bool {
	for _, key := range []string{rkev1.AuthorizedObjectAnnotation, rkev1.AuthorizedSecretAnnotation} {
		for entry := range strings.SplitSeq(annotations[key], ",") {
			namespace, name, qualified := strings.Cut(strings.TrimSpace(entry), "/")
			if qualified && namespace == cluster.Namespace && (name == "*" || name == cluster.Name) {
				return true
			}
		}
	}
	return false
}
