// Package conditions sets and reads the conditions of an object's status.
//
// Two kinds of condition exist. Drover's kinds have rkev1.GenericCondition, whose times are text. Cluster API's kinds
// have metav1.Condition. Set and SetMeta are the only writers. Both follow the same rules:
//
//   - A condition keeps its place in the list, and a new one goes to the end.
//   - lastTransitionTime changes only with the status, and lastUpdateTime only when anything changes. Writing the same
//     condition twice changes no byte and causes no write.
//   - The caller takes the time once per reconcile.
//
// Drover does not use wrangler's condition package. It sets fields by reflection and panics on a metav1.Condition,
// which has no lastUpdateTime.
package conditions
