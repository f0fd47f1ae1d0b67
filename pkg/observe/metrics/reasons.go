package metrics

import (
	"slices"
	"sync"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/summary"
)

// reasonOther stands for every unknown reason.
const reasonOther = "Other"

// Codes of failed operations.
const (
	codeSnapshot     = "SnapshotFailed"
	codeRestore      = "RestoreFailed"
	codeCertificates = "CertificateRotationFailed"
	codeKeys         = "EncryptionKeyRotationFailed"
)

// known contains the values of the label reason.
var known = func() map[string]bool {
	out := map[string]bool{}
	for _, reason := range slices.Concat(summary.FailureReasons(), []string{
		rkev1.ReasonWaiting, machinejob.ReasonCreating, machinejob.ReasonDeleting, machinejob.ReasonBackOff,
		machinejob.ReasonProtected,
		summary.ReasonDeleting, summary.ReasonInfrastructure, summary.ReasonNode, summary.ReasonUnhealthy,
		summary.ReasonPlan, reasonOther,
	}) {
		out[reason] = true
	}
	return out
}()

// bounded converts a reason to a label value: unknown ones become reasonOther.
func bounded(reason string) string {
	if known[reason] {
		return reason
	}
	return reasonOther
}

// Codes returns the label values of the counter of failures, sorted.
func Codes() []string {
	codes := slices.Concat(summary.FailureReasons(), []string{summary.ReasonUnhealthy, summary.ReasonPlan, reasonOther,
		codeSnapshot,
		codeRestore, codeCertificates, codeKeys})
	slices.Sort(codes)
	return slices.Compact(codes)
}

// Reasons remembers why each cluster is not ready, as the planner's reason. The condition itself contains only Waiting
// or Error, which tools expect. It is empty after a restart, and complete after the first pass over all clusters.
type Reasons struct {
	mu sync.Mutex
	of map[string]noted
}

type noted struct {
	reason string
	failed bool
}

// Note remembers what a cluster waits for, by namespace/name; nil is nothing. A nil Reasons remembers nothing.
func (r *Reasons) Note(key string, wait *planner.Wait) {
	if r == nil || wait != nil && wait.Quiet {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait == nil {
		delete(r.of, key)
		return
	}
	if r.of == nil {
		r.of = map[string]noted{}
	}
	r.of[key] = noted{string(wait.Reason), wait.Failed}
}

// Forget forgets a removed cluster.
func (r *Reasons) Forget(key string) { r.Note(key, nil) }

// reason returns the planner's reason, or else the given one.
func (r *Reasons) reason(key, otherwise string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.of[key]; n.reason != "" {
		return bounded(n.reason)
	}
	return bounded(otherwise)
}

// code returns the code of a failed cluster.
func (r *Reasons) code(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.of[key]; n.failed {
		return bounded(n.reason)
	}
	return rkev1.ReasonError
}
