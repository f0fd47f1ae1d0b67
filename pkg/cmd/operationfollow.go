package cmd

import (
	"cmp"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// failurePages are the pages of docs/reasons about the failure of an operation.
var failurePages = map[planner.OperationKind]string{
	planner.SnapshotOperation: "SnapshotFailed", planner.RestoreOperation: "RestoreFailed",
	planner.CertificatesOperation: "CertificateRotationFailed", planner.KeysOperation: "EncryptionKeyRotationFailed",
}

// follow says how a request gets on, and whether it has ended: with an error unless what was asked for was done. A version that somebody has put back is not what was
// asked for.
func (s scene) follow(o order) sighting {
	seen := s.progress(o.kind, o.wish)
	is := s.cluster.Spec.KubernetesVersion
	if o.kubernetesVersion == "" || is == o.kubernetesVersion {
		return seen
	}
	changed := printable(fmt.Sprintf("somebody has set spec.kubernetesVersion to %q, and %s was asked for with the %s", is, o.kubernetesVersion, o.kind.Title))
	switch {
	case !seen.ended:
		seen.line += "; " + changed
	case seen.err == nil:
		seen.err = errors.New("the " + o.kind.Title + " is done, but " + changed)
	}
	return seen
}

// progress says how a request gets on, whatever the version is.
func (s scene) progress(kind planner.OperationKind, asked wish) sighting {
	record := s.record(kind)
	began := requested(record)
	switch {
	case s.cluster.DeletionTimestamp != nil:
		return failed("cluster %s is being deleted, and the %s with it", s.name(), kind.Title)
	case s.controlPlane == nil:
		return failed("the control plane of cluster %s is gone, and the %s with it", s.name(), kind.Title)
	case began == nil || !equality.Semantic.DeepEqual(*began, asked):
		return s.waiting(kind, asked)
	}
	switch record.State {
	case rkev1.OperationStateSucceeded:
		return sighting{line: cmp.Or(s.message(kind.Condition), "the "+kind.Title+" is done"), begun: true, ended: true}
	case rkev1.OperationStateFailed:
		return failed("the %s failed: %s; docs/reasons/%s.md says what to do", kind.Title, printable(record.Message), failurePages[kind])
	case rkev1.OperationStateCancelled:
		return failed("the %s was cancelled: its request was taken back while it ran; docs/reasons/Cancelled.md says what stays", kind.Title)
	case rkev1.OperationStateRunning:
	}
	return sighting{line: cmp.Or(s.message(rkev1.ConditionReady), record.Step, kind.Title+": it runs"), begun: true}
}

// failed is the end of what was not done.
func failed(format string, args ...any) sighting {
	return sighting{ended: true, err: fmt.Errorf(format, args...)}
}

// waiting says how a request gets on that is not the one which was started last. One that the planner was told of may begin while the Cluster has it no more.
func (s scene) waiting(kind planner.OperationKind, asked wish) sighting {
	var now *wish
	if s.cluster.Spec.RKEConfig != nil {
		now = wishIn(s.cluster.Spec.RKEConfig, kind.Field)
	}
	passed := wishIn(s.controlPlane.Spec, kind.Field)
	isPassed := passed != nil && equality.Semantic.DeepEqual(*passed, asked)
	switch {
	case kind == planner.CertificatesOperation && s.controlPlane.Status.CertificateRotationGeneration == asked.Generation:
		return sighting{line: "the " + kind.Title + " is done", begun: true, ended: true} // and the next one has begun since
	case isPassed:
	case now == nil:
		return failed("the request for the %s was taken back before it began", kind.Title)
	case !equality.Semantic.DeepEqual(*now, asked):
		return failed("another request took the place of this one, or came after it: %s has generation %d, and not %d",
			fieldPath(kind), now.Generation, asked.Generation)
	}
	line := kind.Title + ": it has not begun"
	if why := s.unpassed(); !isPassed && why != "" {
		return sighting{line: line + "; the spec of the Cluster is not passed on: " + why}
	}
	if message := s.message(rkev1.ConditionReady); message != "" {
		line += "; the cluster says: " + message
	}
	return sighting{line: line}
}

// unpassed is why the spec of the Cluster is not passed on to the planner, as its conditions tell; empty when they do not. Condition Updated may also be what the control
// plane says.
func (s scene) unpassed() string {
	for _, condition := range []string{provv1.ConditionRKECluster, provv1.ConditionUpdated} {
		for _, c := range s.cluster.Status.Conditions {
			if c.Type == condition && c.Status != rkev1.ConditionTrue && c.Message != s.message(rkev1.ConditionReady) {
				return c.Message
			}
		}
	}
	return ""
}

// message is that of a condition of the control plane.
func (s scene) message(condition string) string {
	for _, c := range s.controlPlane.Status.Conditions {
		if c.Type == condition {
			return c.Message
		}
	}
	return ""
}
