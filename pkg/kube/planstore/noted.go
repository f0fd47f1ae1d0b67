package planstore

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Noted returns the value of rkev1.NotedAnnotation on the Cluster with a UID, after notes were written on its Machines
// up to a resource version of Machines.
func Noted(cluster types.UID, version string) string {
	return string(cluster) + ":" + version
}

// NotedVersion returns the resource version that a cache of Machines must reach before it contains the notes of an
// adoption. It is empty if there is nothing to wait for. Either no adoption has written notes, or it wrote them in
// another management cluster, whose versions mean nothing in this one.
func NotedVersion(cluster metav1.Object) string {
	uid, version, found := strings.Cut(cluster.GetAnnotations()[rkev1.NotedAnnotation], ":")
	if !found || uid != string(cluster.GetUID()) {
		return ""
	}
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return "" // not a resource version of an API server
	}
	return version
}

// Reached reports whether seen is version or a later one, for resource versions of one kind.
func Reached(seen, version string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, version)
	return err == nil && order >= 0
}

// Latest returns the latest of several resource versions of one kind, and ignores invalid ones.
func Latest(versions ...string) string {
	latest := ""
	for _, version := range versions {
		if _, err := resourceversion.CompareResourceVersion(version, version); err == nil &&
			(latest == "" || Reached(version, latest)) {
			latest = version
		}
	}
	return latest
}
