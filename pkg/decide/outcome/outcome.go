package outcome

import (
	"cmp"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// Waiting means that something else has to happen first.
type Waiting struct {
	// Reason is one constant word, rkev1.ReasonWaiting by default.
	Reason string
	// Message says what the object waits for. It stays the same during the wait.
	Message string
	// WakeUp names what ends the wait: a kind whose events wake the object, such as "Machine" or "plan Secret", or
	// "timer".
	WakeUp string
	// After is the time until the next check without an event. Zero means never.
	After time.Duration
}

// Error returns the message.
func (w *Waiting) Error() string { return w.Message }

// Wait returns a *Waiting. It panics without a wake-up, because a wait that nothing ends is a bug.
func Wait(reason, message, wakeUp string) *Waiting {
	if wakeUp == "" {
		panic("outcome: wait without a wake-up: " + message)
	}
	return &Waiting{Reason: reason, Message: message, WakeUp: wakeUp}
}

// WaitFor is Wait with a timer in addition to the event. With wakeUp "timer" there is no event.
func WaitFor(reason, message, wakeUp string, after time.Duration) *Waiting {
	w := Wait(reason, message, wakeUp)
	w.After = after
	return w
}

// Stalled means that nothing changes until the user changes the object.
type Stalled struct {
	// Reason is one constant word, rkev1.ReasonError by default.
	Reason string
	// Message names the path of the field and what would be right.
	Message string
}

// Error returns the message.
func (s *Stalled) Error() string { return s.Message }

// Stall returns a *Stalled.
func Stall(reason, message string) *Stalled { return &Stalled{Reason: reason, Message: message} }

// AsWaiting returns the *Waiting in err, or nil.
func AsWaiting(err error) *Waiting {
	w, _ := errors.AsType[*Waiting](err)
	return w
}

// AsStalled returns the *Stalled in err, or nil.
func AsStalled(err error) *Stalled {
	s, _ := errors.AsType[*Stalled](err)
	return s
}

// Retry is the instruction for the work queue.
type Retry struct {
	// After requests another run after that time. Zero means that only events cause one.
	After time.Duration
	// Err is returned to lasso, which retries with a growing delay. Nil means success to lasso.
	Err error
}

// Conclude turns the end of a reconcile into a condition of the given type and the instruction for the queue. A nil
// error is status True. After a conflict the condition stays True, and the queue retries
// (docs/wire/names.md#conditions: tools that watch the condition would otherwise see it flap). The condition gets a
// stable form of any other error's text. The queue, and so the log, gets the original text. Record writes the condition
// into a status.
func Conclude(conditionType string, err error) (conditions.Condition, Retry) {
	c := conditions.Condition{Type: conditionType, Status: rkev1.ConditionTrue}
	if err == nil {
		return c, Retry{}
	}
	if w := AsWaiting(err); w != nil {
		c.Status, c.Reason, c.Message = rkev1.ConditionUnknown, cmp.Or(w.Reason, rkev1.ReasonWaiting), w.Message
		return c, Retry{After: w.After}
	}
	if s := AsStalled(err); s != nil {
		c.Status, c.Reason, c.Message = rkev1.ConditionFalse, cmp.Or(s.Reason, rkev1.ReasonError), s.Message
		return c, Retry{}
	}
	if apierrors.IsConflict(err) {
		return c, Retry{Err: err}
	}
	c.Status, c.Reason, c.Message = rkev1.ConditionFalse, rkev1.ReasonError, Stable(err.Error())
	return c, Retry{Err: err}
}
