package metrics

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/summary"
)

// pauses are the pauses that users have set. A pause of Drover's own operation does not count: it ends with the
// operation, and removals continue meanwhile. A pause of a pool does not count either, because it covers only changes
// of its template. Its machines are still created and removed.
type pauses struct {
	*Source
	cores  map[types.NamespacedName]*clusterv1.Cluster
	planes map[types.NamespacedName]*rkev1.RKEControlPlane
	now    time.Time
	// before and held are when machines were seen held, before this scrape and including it. A Machine has no condition
	// for the pause of another object.
	before, held map[types.UID]time.Time
}

// cluster sets the reason that holds a cluster that is being removed. Cluster API ignores a cluster that is paused or
// has the annotation.
func (p pauses) cluster(key types.NamespacedName, s objectState) objectState {
	core := p.cores[key]
	if core == nil || s.state != stateDeleting {
		return s
	}
	if (s.reason == summary.ReasonDeleting || s.reason == summary.ReasonOverdue) &&
		(isPausedByUser(core) || annotated(core.Annotations)) {
		s.reason = summary.ReasonPaused
		return s
	}
	s.since = resumed(core.Status.Conditions, s.since)
	return s
}

// machine sets the reason that holds a machine that is being created or removed.
func (p pauses) machine(machine *clusterv1.Machine, s objectState) objectState {
	switch s.state {
	case stateCreating, stateJoining, stateDeleting:
	default:
		return s
	}
	if p.hold(machine, s.state) {
		p.held[machine.UID] = p.now
		s.reason = summary.ReasonPaused
		return s
	}
	s.since = resumed(machine.Status.Conditions, s.since)
	if last, seen := p.before[machine.UID]; seen {
		p.held[machine.UID] = last
		if last.After(s.since) {
			s.since = last
		}
	}
	return s
}

// hold reports whether a user has paused an object that a machine waits for. The pause of the infrastructure machine
// holds the creation and removal of the host. The pause of the RKEBootstrap holds the creation of the machine. The
// pause of the control plane holds the delivery of plans, once the machine has a host.
func (p pauses) hold(machine *clusterv1.Machine, state string) bool {
	key := types.NamespacedName{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}
	if isPausedByUser(p.cores[key]) || annotated(machine.Annotations) ||
		state != stateJoining && annotated(p.Annotations(machine.Namespace, machine.Spec.InfrastructureRef)) {
		return true
	}
	if state == stateDeleting {
		return false
	}
	plane := p.planes[key]
	return state == stateJoining && plane != nil && annotated(plane.Annotations) ||
		annotated(p.Annotations(machine.Namespace, machine.Spec.Bootstrap.ConfigRef))
}

func isPausedByUser(core *clusterv1.Cluster) bool {
	return core != nil && core.Spec.Paused != nil && *core.Spec.Paused &&
		core.Annotations[rkev1.PausedByOperationAnnotation] == ""
}

func annotated(annotations map[string]string) bool {
	_, paused := annotations[clusterv1.PausedAnnotation]
	return paused
}

// resumed returns the start of an object's wait, or the end of its pause if that is later.
func resumed(list []metav1.Condition, since time.Time) time.Time {
	paused := conditions.GetMeta(list, clusterv1.PausedCondition)
	if paused != nil && paused.Status == clusterFalse && paused.LastTransitionTime.After(since) {
		return paused.LastTransitionTime.Time
	}
	return since
}

func byKey[T metav1.Object](list []T) map[types.NamespacedName]T {
	out := make(map[types.NamespacedName]T, len(list))
	for _, object := range list {
		out[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = object
	}
	return out
}
