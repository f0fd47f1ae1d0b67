// Package fleet decides what Fleet gets from Drover: which Fleet Cluster stands for a provisioning Cluster, and which
// objects a FleetWorkspace has. Fleet is optional. Drover has none of its types and no dependency on it.
// (docs/wire/fleet.md.)
package fleet

import (
	"maps"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Definition is the CRD with which Fleet is present.
const Definition = "clusters.fleet.cattle.io"

// Kinds of Fleet that Drover uses.
var (
	ClusterKind = schema.GroupVersionKind{Group: "fleet.cattle.io", Version: "v1alpha1", Kind: "Cluster"}
	BundleKind  = schema.GroupVersionKind{Group: "fleet.cattle.io", Version: "v1alpha1", Kind: "Bundle"}
)

// IsDefinition reports whether a CRD is the one with which Fleet is present.
func IsDefinition(crd *apiextv1.CustomResourceDefinition) bool { return crd.Name == Definition }

// secretKeys are the keys of a kubeconfig Secret in which users tell Fleet's agent where the management cluster is.
var secretKeys = []string{"apiServerURL", "apiServerCA"}

// KeepSecretKeys returns the wanted data of a kubeconfig Secret, and Fleet's keys of the present data.
func KeepSecretKeys(present, wanted map[string][]byte) map[string][]byte {
	out := maps.Clone(wanted)
	for _, key := range secretKeys {
		if value, ok := present[key]; ok {
			out[key] = value
		}
	}
	return out
}

// secretNamespaces are the namespaces from which Fleet reads kubeconfigs for Fleet Clusters of all namespaces: its two
// workspaces, its own namespace with the present and the former name, and those for registrations.
var secretNamespaces = map[string]bool{
	"fleet-local": true, "fleet-default": true, "cattle-fleet-system": true, "fleet-system": true,
	"cattle-fleet-clusters-system": true, "fleet-clusters-system": true,
}

// ReadsSecrets reports whether Fleet reads the kubeconfig of a Fleet Cluster from a namespace. Other namespaces than
// these make Fleet refuse the Fleet Cluster. (docs/wire/fleet.md#kubeconfig-secret.)
func ReadsSecrets(namespace, workspace string) bool {
	return namespace == workspace || secretNamespaces[namespace] || strings.HasPrefix(namespace, "cluster-")
}
