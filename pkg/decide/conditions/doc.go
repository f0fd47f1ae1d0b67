// Package conditions sets and reads the conditions of an object's status.
//
// Two kinds of condition exist: our own kinds carry rkev1.GenericCondition, whose times are text, and Cluster API's kinds
// carry metav1.Condition. Set and SetMeta are the only writers of either. Both follow the same rules:
//
//   - a condition keeps its place in the list, a new one goes to the end;
//   - lastTransitionTime moves only when the status changes, lastUpdateTime only when anything changes, so that writing the
//     same condition twice changes no byte and causes no write;
//   - the time is the caller's, taken once per reconcile.
//
// wrangler's condition package sets fields by reflection and ends the process on a metav1.Condition, which has no
// lastUpdateTime; nothing in Drover writes conditions with it.
package conditions
