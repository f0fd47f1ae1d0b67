// Package inspect reads what the controllers read, with the rights of whoever runs the program, and explains or previews what they would do.
// It writes nothing: every request but a GET is refused before it is sent. It watches nothing either: each object is read
// when it is asked for, once, so a cluster can be looked at by a user who may read no more than its namespace, its management cluster and
// the schemas of node drivers.
package inspect
