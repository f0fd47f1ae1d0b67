package agent

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// replacedPatience is how long a plan may continue after another plan replaced it. Most plans end before that, and an
// aborted plan leaves the node half changed. But an instruction that never ends would block the plan that repairs it.
const replacedPatience = 10 * time.Minute

// applyUnlessReplaced is applyPlan, but aborts when the Secret has contained another plan for too long. Then ok is
// false, because the result of a replaced plan is not reported. Versions of the Secret that arrive meanwhile are held.
func (r *remoteSource) applyUnlessReplaced(ctx context.Context, raw []byte, in applyInput) (res result, ok bool) {
	if !in.apply {
		return r.applyPlan(ctx, raw, in)
	}
	working, stopPlan := context.WithCancel(ctx)
	defer stopPlan()
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, ok = r.applyPlan(working, raw, in)
	}()
	var overdue <-chan time.Time // set while the plan is replaced
	for {
		select {
		case <-done:
			if working.Err() != nil && ctx.Err() == nil {
				r.applied = "" // the machine's state is neither this plan nor the previous one
				return result{}, false
			}
			return res, ok
		case secret := <-r.updates:
			r.held = append(r.held, secret)
			switch replaced := hasOtherPlan(secret, in.checksum); {
			case !replaced:
				overdue = nil
			case overdue == nil:
				overdue = time.After(r.patience)
			}
		case <-overdue:
			r.log.WithField("checksum", in.checksum).Warn("The plan was replaced and does not end; stopping it")
			stopPlan()
		}
	}
}

// hasOtherPlan reports whether a Secret contains a plan with another checksum. A deleted or empty Secret contains none.
func hasOtherPlan(secret *corev1.Secret, checksum string) bool {
	return secret != nil && len(secret.Data[nodeplan.KeyPlan]) > 0 &&
		nodeplan.Checksum(secret.Data[nodeplan.KeyPlan]) != checksum
}

// acceptHeld accepts the versions that arrived during an apply, and reports whether any of them requires a pass.
func (r *remoteSource) acceptHeld(ctx context.Context) bool {
	held, asks := r.held, false
	r.held = nil
	for _, secret := range held {
		asks = r.accept(ctx, secret) || asks
	}
	return asks && r.current != nil
}
