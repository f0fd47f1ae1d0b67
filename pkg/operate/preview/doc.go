// Package preview shows what an edit of a Cluster would do to its machines. It uses the code that later performs the
// edit: topology.Desired derives the objects, and the planner renders every machine's plan. The package is pure: all
// its input comes as values.
//
// # How causes are found
//
// Preview compares the Cluster and its pools' machine configs before and after the edit, field by field. It then
// applies each differing field alone to the Cluster before the edit. The effect on a machine is the effect of that
// field. If fields have an effect only together, preview names all of them.
//
// # What is not covered
//
// Preview ignores what Cluster API does on its own, for example the replacement of unhealthy machines. An edit does not
// cause it.
package preview
