package agent

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// replacedPatience is for how long a plan is carried on with after another has taken its place. Most ends by itself before, and what is broken off leaves a
// node half changed; but an instruction that never ends would keep away the very plan that mends it.
const replacedPatience = 10 * time.Minute

// applyUnlessReplaced is applyPlan, broken off when the secret has held another plan for too long. ok is false then: of a plan
// that was replaced nothing is reported. The states of the secret that came meanwhile are held.
func (r *remoteSource) applyUnlessReplaced(ctx context.Context, raw []byte, in applyInput) (res result, ok bool) {
	if !in.apply {
		return r.applyPlan(ctx, raw, in)
	}
	working, breakOff := context.WithCancel(ctx)
	defer breakOff()
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, ok = r.applyPlan(working, raw, in)
	}()
	var overdue <-chan time.Time // while the plan is replaced
	for {
		select {
		case <-done:
			if working.Err() != nil && ctx.Err() == nil {
				r.applied = "" // what this machine has now is neither this plan nor the one before
				return result{}, false
			}
			return res, ok
		case secret := <-r.updates:
			r.held = append(r.held, secret)
			switch replaced := holdsAnother(secret, in.checksum); {
			case !replaced:
				overdue = nil
			case overdue == nil:
				overdue = time.After(r.patience)
			}
		case <-overdue:
			r.log.WithField("checksum", in.checksum).Warn("This plan was replaced and does not end: it is broken off")
			breakOff()
		}
	}
}

// holdsAnother reports that a secret holds another plan than the one with that checksum. One that is gone or empty holds none.
func holdsAnother(secret *corev1.Secret, checksum string) bool {
	return secret != nil && len(secret.Data[nodeplan.KeyPlan]) > 0 && nodeplan.Checksum(secret.Data[nodeplan.KeyPlan]) != checksum
}

// acceptHeld takes over what came while a plan was at work, and tells whether any of it asks for a pass.
func (r *remoteSource) acceptHeld(ctx context.Context) bool {
	held, asks := r.held, false
	r.held = nil
	for _, secret := range held {
		asks = r.accept(ctx, secret) || asks
	}
	return asks && r.current != nil
}
