package events

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SyncRefused returns the event of a Secret or ConfigMap that is not copied into a cluster. The caller knows the old
// state, because it compares with objects in the cluster. Text is a sentence without data of the object.
func SyncRefused(kind string, object metav1.Object, cluster, text string) Event {
	l := about(corev1.SchemeGroupVersion.WithKind(kind), object)
	l.warning(ReasonSyncRefused, "Not copied into cluster "+cluster, text)
	return l.events[0]
}
