package outcome

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// Waiting says that something else has to happen first.
type Waiting struct {
	// Reason is one constant word; rkev1.ReasonWaiting when there is no better one.
	Reason string
	// Message says what is waited for, in words that stay the same while the wait lasts.
	Message string
	// WakeUp names what ends the wait: a kind whose events wake the object, such as "Machine" or "plan Secret", or "timer".
	WakeUp string
	// After is when to look again even without an event. Zero means never.
	After time.Duration
}

// Error returns the message.
func (w *Waiting) Error() string { return w.Message }

// Wait returns a *Waiting. It panics when no wake-up is named: a wait that nothing ends is a mistake in the program.
func Wait(reason, message, wakeUp string) *Waiting {
	if wakeUp == "" {
		panic("outcome: wait without a wake-up: " + message)
	}
	return &Waiting{Reason: reason, Message: message, WakeUp: wakeUp}
}

// WaitFor is Wait with a timer behind the event. With wakeUp "timer" there is no event.
func WaitFor(reason, message, wakeUp string, after time.Duration) *Waiting {
	w := Wait(reason, message, wakeUp)
	w.After = after
	return w
}

// Stalled says that nothing will change before somebody changes the object.
type Stalled struct {
	// Reason is one constant word; rkev1.ReasonError when there is no better one.
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
	if w, ok := errors.AsType[*Waiting](err); ok {
		return w
	}
	return nil
}

// AsStalled returns the *Stalled in err, or nil.
func AsStalled(err error) *Stalled {
	if s, ok := errors.AsType[*Stalled](err); ok {
		return s
	}
	return nil
}

// Retry is what the work queue is told.
type Retry struct {
	// After asks for another run after that time. Zero means that only events bring one.
	After time.Duration
	// Err is returned to lasso, which tries again with growing delay. Nil means that this run was a success to lasso.
	Err error
}

// Conclude turns the end of a reconcile into a condition of the given type and what the queue is told. A nil error is
// status True. A conflict is no news for anybody: the condition stays True, and the queue tries again
// (docs/wire/names.md#conditions: tools that watch the condition would otherwise see it flap). The text of any other
// error is made stable for the condition; the queue, and so the log, gets it as it is. Record writes the condition into
// a status.
func Conclude(conditionType string, err error) (conditions.Condition, Retry) {
	c := conditions.Condition{Type: conditionType, Status: rkev1.ConditionTrue}
	if err == nil {
		return c, Retry{}
	}
	if w := AsWaiting(err); w != nil {
		c.Status, c.Reason, c.Message = rkev1.ConditionUnknown, or(w.Reason, rkev1.ReasonWaiting), w.Message
		return c, Retry{After: w.After}
	}
	if s := AsStalled(err); s != nil {
		c.Status, c.Reason, c.Message = rkev1.ConditionFalse, or(s.Reason, rkev1.ReasonError), s.Message
		return c, Retry{}
	}
	if apierrors.IsConflict(err) {
		return c, Retry{Err: err}
	}
	c.Status, c.Reason, c.Message = rkev1.ConditionFalse, rkev1.ReasonError, Stable(err.Error())
	return c, Retry{Err: err}
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
