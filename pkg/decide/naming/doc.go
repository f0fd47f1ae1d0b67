// Package naming holds every rule by which the name of one object follows from
// the name of another.
//
// Names are wire facts: backups, support tooling, node agents and clusters that
// exist already look objects up by them, so a rule here never changes. All
// functions are pure and length-safe: what they return fits the place it is
// used in, whatever the length of the input. Long names are cut and end in a
// few digits of a hash of the whole, so two long names that differ only at
// their end stay different.
//
// shorten.go has the three ways of shortening, hash.go the content hashes that
// become part of a name, and objects.go one function per kind of object.
package naming
