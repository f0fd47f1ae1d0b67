package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/restoredspec"
	"github.com/drover-io/drover/pkg/operate/operation"
)

const (
	// operationInterval is the polling interval of --wait.
	operationInterval = 2 * time.Second
	// refusedCredentials is how many times in a row a credential may be refused before --wait gives up. An expired
	// credential stays invalid, but a starting API server may refuse valid ones for a while.
	refusedCredentials = int(time.Minute / operationInterval)
)

// sighting is the result of one poll.
type sighting struct {
	line string
	// begun: the request is the last started operation. ended: there is nothing more to wait for. err is nil only if
	// the operation succeeded.
	begun, ended bool
	err          error
	// away is a temporary error that hides the state.
	away error
}

// vigil is the state of waiting for a request.
type vigil struct {
	order           order
	namespace, name string
	timeout         time.Duration
	// last is the last known sighting, nil before the first.
	last *sighting
	// refused counts consecutive refusals of the credential.
	refused int
	// say prints a line for the user.
	say  func(line string)
	told string
}

// await returns when a request has ended. It prints each change of what the request waits for.
func (o *operationOptions) await(cmd *cobra.Command, api operationAPI, name string, asked order) error {
	ctx := cmd.Context()
	if o.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		ctx = limited
	}
	v := &vigil{order: asked, namespace: o.inNamespace(), name: name, timeout: o.timeout,
		say: func(line string) { cmd.PrintErrln(line) }}
	var end error
	err := wait.PollUntilContextCancel(ctx, operationInterval, true, func(ctx context.Context) (ended bool, err error) {
		seen, err := meanwhile(ctx, func() (sighting, error) { return api.follow(v.namespace, v.name, asked), nil })
		if err == nil {
			ended, end = v.take(seen)
		}
		return ended, err
	})
	if err != nil {
		return v.unended(err)
	}
	return end
}

// take prints a sighting and reports whether the wait is over.
func (v *vigil) take(seen sighting) (ended bool, err error) {
	line := seen.line
	if seen.away != nil {
		line = "cannot look, and tries again: " + seen.away.Error()
	} else {
		v.last = &seen
	}
	if !apierrors.IsUnauthorized(seen.away) {
		v.refused = 0
	} else if v.refused++; v.refused >= refusedCredentials {
		return true, v.unended(seen.away)
	}
	if line = printable(line); line != "" && line != v.told {
		v.say(line)
		v.told = line
	}
	return seen.ended, seen.err
}

// follow polls the progress of a request. A temporary outage of the API server does not end the wait.
func (a operationAPI) follow(namespace, name string, o order) sighting {
	s, isRefusal, err := a.read(namespace, name)
	switch {
	case isRefusal:
		return sighting{ended: true, err: err}
	case err != nil:
		return sighting{away: err}
	}
	return followed(s, o)
}

// unended returns the error for an operation that has not ended when the wait is over.
func (v *vigil) unended(why error) error {
	begun := v.last == nil || v.last.begun // unknown without a sighting: do not claim that nothing has begun
	was, then := "is not waited for any more", " and goes on"
	switch {
	case apierrors.IsUnauthorized(why):
		was = "is not waited for any more, as the management cluster refuses the credential"
	case errors.Is(why, context.DeadlineExceeded) && begun:
		was = fmt.Sprintf("has not ended within %s", v.timeout)
	case errors.Is(why, context.DeadlineExceeded):
		was = fmt.Sprintf("has not begun within %s", v.timeout)
	}
	if !begun {
		then = ": its request still waits for its turn; to take it back, remove " + operation.FieldPath(v.order.Kind)
		if v.order.KubernetesVersion != "" {
			then += " and set spec.kubernetesVersion back"
		}
	}
	return fmt.Errorf("the %s %s%s; drover explain %s -n %s shows how it gets on: %w", v.order.Kind.Title, was, then,
		v.name, v.namespace, why)
}

// failurePages are the pages of docs/reasons about failed operations.
var failurePages = map[planner.OperationKind]string{
	planner.SnapshotOperation: "SnapshotFailed", planner.RestoreOperation: "RestoreFailed",
	planner.CertificatesOperation: "CertificateRotationFailed", planner.KeysOperation: "EncryptionKeyRotationFailed",
}

// followed reports the progress of a request and whether it has ended. It ends with an error unless the operation
// succeeded. If spec.kubernetesVersion has changed again, the request did not succeed.
func followed(s scene, o order) sighting {
	seen := progress(s, o.Kind, o.Wish)
	if o.Restored != nil {
		return keepsRestored(s, o, seen)
	}
	is := s.Cluster.Spec.KubernetesVersion
	if o.KubernetesVersion == "" || is == o.KubernetesVersion {
		return seen
	}
	changed := printable(
		fmt.Sprintf("another user or program has set spec.kubernetesVersion to %q, and the %[3]s asked for %[2]s",
			is, o.KubernetesVersion, o.Kind.Title))
	switch {
	case !seen.ended:
		seen.line += "; " + changed
	case seen.err == nil:
		seen.err = errors.New("the " + o.Kind.Title + " is done, but " + changed)
	}
	return seen
}

// keepsRestored adds to the end of a restore that restored configuration has changed again. Before the end, the fields
// may still have to go back.
func keepsRestored(s scene, o order, seen sighting) sighting {
	if !seen.ended || seen.err != nil {
		return seen
	}
	if result, _ := restoredspec.Restore(s.Cluster, o.Restored); len(result.Changes) > 0 {
		seen.err = errors.New(printable("the " + o.Kind.Title + " is done, but another user or program has changed " +
			restoredspec.Listed(result.Changes)))
	}
	return seen
}

// progress reports the progress of a request without regard to the version.
func progress(s scene, kind planner.OperationKind, asked wish) sighting {
	switch {
	case s.Cluster.DeletionTimestamp != nil:
		return failed("cluster %s is being deleted, and the %s with it", s.Name(), kind.Title)
	case s.ControlPlane == nil:
		return failed("the control plane of cluster %s is gone, and the %s with it", s.Name(), kind.Title)
	}
	record := s.Record(kind)
	if !equality.Semantic.DeepEqual(operation.Requested(record), &asked) {
		return notBegun(s, kind, asked)
	}
	switch record.State {
	case rkev1.OperationStateSucceeded:
		done := cmp.Or(planeMessage(s, kind.Condition), "the "+kind.Title+" is done")
		return sighting{line: done, begun: true, ended: true}
	case rkev1.OperationStateFailed:
		return failed("the %s failed: %s; docs/reasons/%s.md says what to do", kind.Title, printable(record.Message),
			failurePages[kind])
	case rkev1.OperationStateCancelled:
		return failed(
			"the %s was cancelled: its request was taken back while it ran; docs/reasons/Cancelled.md says what stays",
			kind.Title)
	case rkev1.OperationStateRunning:
	}
	line := cmp.Or(planeMessage(s, rkev1.ConditionReady), record.Step, kind.Title+": it runs")
	return sighting{line: line, begun: true}
}

// failed is the end of a request that did not succeed.
func failed(format string, args ...any) sighting {
	return sighting{ended: true, err: fmt.Errorf(format, args...)}
}

// notBegun reports the progress of a request that is not the last started one. A request that the planner has received
// can begin even after it is removed from the Cluster.
func notBegun(s scene, kind planner.OperationKind, asked wish) sighting {
	now := operation.WishIn(s.Cluster.Spec.RKEConfig, kind.Field)
	passed := operation.WishIn(s.ControlPlane.Spec, kind.Field)
	switch {
	case kind == planner.CertificatesOperation &&
		s.ControlPlane.Status.CertificateRotationGeneration == asked.Generation:
		// The next one has begun since.
		return sighting{line: "the " + kind.Title + " is done", begun: true, ended: true}
	case equality.Semantic.DeepEqual(passed, &asked):
	case now == nil:
		return failed("the request for the %s was taken back before it began", kind.Title)
	case !equality.Semantic.DeepEqual(now, &asked):
		return failed("another request took the place of this one, or came after it: %s has generation %d, and not %d",
			operation.FieldPath(kind), now.Generation, asked.Generation)
	}
	line := kind.Title + ": it has not begun"
	// Updated has the problem of a spec that is not passed on, and the message of the control plane otherwise.
	said := cmp.Or(message(s.Cluster.Status.Conditions, provv1.ConditionUpdated), planeMessage(s, rkev1.ConditionReady))
	if said != "" {
		line += "; the cluster says: " + said
	}
	return sighting{line: line}
}

// planeMessage returns the message of a condition of the control plane.
func planeMessage(s scene, condition string) string {
	return message(s.ControlPlane.Status.Conditions, condition)
}

func message(list []rkev1.GenericCondition, condition string) string {
	if found := conditions.Get(list, condition); found != nil {
		return found.Message
	}
	return ""
}
