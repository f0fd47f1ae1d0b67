// Package outcome defines the three ways in which a reconcile ends without success, and their consequences.
//
//   - Waiting is not an error. Something else has to happen first, and its event wakes the object. A wait must name
//     what wakes it. A timer may back up the event.
//   - Stalled needs the user: Drover retries only after the object changes.
//   - Any other error is retried with a growing delay.
//
// All three are ordinary error values and survive wrapping. Conclude turns one into the condition that users read and
// the result that lasso gets.
//
// The package corrects two properties of wrangler's status handlers. First, they discard the returned status when the
// handler fails. With Conclude, the condition is written first and the error is returned afterwards. Second, they write
// an error to the status even when its text changes at every run (a resource version, a time, a counter). The write is
// an event, which runs the handler again at once, without back-off. Therefore messages contain only stable data, and
// CheckStable finds unstable ones. Stable repairs messages from other programs, and Record writes a repeated failure at
// most once a minute.
package outcome
