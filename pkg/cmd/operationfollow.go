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

// failurePages are the pages of docs/reasons about failed operations.
var failurePages = map[planner.OperationKind]string{
	planner.SnapshotOperation: "SnapshotFailed", planner.RestoreOperation: "RestoreFailed",
	planner.CertificatesOperation: "CertificateRotationFailed", planner.KeysOperation: "EncryptionKeyRotationFailed",
}

// follow reports the progress of a request and whether it has ended. It ends with an error unless the operation
// succeeded. If spec.kubernetesVersion has changed again, the request did not succeed.
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

// progress reports the progress of a request without regard to the version.
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

// failed is the end of a request that did not succeed.
func failed(format string, args ...any) sighting {
	return sighting{ended: true, err: fmt.Errorf(format, args...)}
}

// waiting reports the progress of a request that is not the last started one. A request that the planner has received
// can begin even after it is removed from the Cluster.
func (s scene) waiting(kind planner.OperationKind, asked wish) sighting {
	var now *wish
	if s.cluster.Spec.RKEConfig != nil {
		now = wishIn(s.cluster.Spec.RKEConfig, kind.Field)
	}
	passed := wishIn(s.controlPlane.Spec, kind.Field)
	isPassed := passed != nil && equality.Semantic.DeepEqual(*passed, asked)
	switch {
	case kind == planner.CertificatesOperation && s.controlPlane.Status.CertificateRotationGeneration == asked.Generation:
		// The next one has begun since.
		return sighting{line: "the " + kind.Title + " is done", begun: true, ended: true}
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

// unpassed returns why the Cluster's spec does not reach the planner, according to the Cluster's conditions. It skips a
// condition that repeats the control plane's message, as Updated can.
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

// message returns the message of a condition of the control plane.
func (s scene) message(condition string) string {
	for _, c := range s.controlPlane.Status.Conditions {
		if c.Type == condition {
			return c.Message
		}
	}
	return ""
}
