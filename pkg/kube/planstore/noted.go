package planstore

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Noted is the value of rkev1.NotedAnnotation on the Cluster with a UID, after notes were written on its Machines up to a resource version of
// Machines.
func Noted(cluster types.UID, version string) string {
	return string(cluster) + ":" + version
}

// NotedVersion is the resource version that a cache of Machines has to show before the notes of an adoption are in it, empty when nothing is waited
// for: no adoption has noted anything, or it did so in another management cluster, whose versions mean nothing in this one.
func NotedVersion(cluster metav1.Object) string {
	uid, version, found := strings.Cut(cluster.GetAnnotations()[rkev1.NotedAnnotation], ":")
	if !found || uid != string(cluster.GetUID()) {
		return ""
	}
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return "" // no API server gave it
	}
	return version
}

// Reached reports that one resource version of a kind is another one or a later one.
func Reached(seen, version string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, version)
	return err == nil && order >= 0
}

// Latest is the latest of resource versions of one kind; those that are none do not count.
func Latest(versions ...string) string {
	latest := ""
	for _, version := range versions {
		if _, err := resourceversion.CompareResourceVersion(version, version); err == nil && (latest == "" || Reached(version, latest)) {
			latest = version
		}
	}
	return latest
}
