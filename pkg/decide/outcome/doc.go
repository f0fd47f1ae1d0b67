// Package outcome holds the three ways in which a reconcile can end without success, and what follows from each.
//
//   - Waiting is not an error. Something else has to happen first, and an event will wake the object when it has; a wait
//     that names nothing that wakes it cannot be made. A timer may back the event up.
//   - Stalled needs a person: nothing is tried again before the object changes.
//   - Any other error is tried again with growing delay.
//
// All three are ordinary error values, so they travel through layers and survive wrapping. Conclude turns one into the
// condition that users read and the answer that lasso gets.
//
// Two edges of wrangler's status handlers are blunted here. They throw away the returned status when the handler fails:
// with Conclude the condition is written first and the error returned afterwards. And an error whose text changes from run
// to run (a resource version, a time, a counter) is written to the status, which is an event, which runs the handler again
// at once, round and round past any back-off: messages are built from stable data, CheckStable finds those that are not,
// Stable mends those that others made, and Record writes a repeated failure at most once a minute.
package outcome
