// Package preview says what an edit of a Cluster would do to its machines, with the code that then does it: topology.Desired makes of
// the edited Cluster what the server would, and the planner renders every machine's plan from it. It is pure: everything it looks
// at comes in as values.
//
// # How causes are found
//
// The Cluster before and after, with the machine configs that its pools use, are compared field by field. Each field that differs is then
// changed alone in the Cluster as it was. What becomes of a machine by that is what the field causes. Fields that do something only
// together are all named.
//
// # What is not looked at
//
// What Cluster API does by itself, such as replacing machines that are not healthy, is no consequence of an edit.
package preview
