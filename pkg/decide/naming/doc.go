// Package naming has every rule that derives the name of an object from the name of another.
//
// Names are part of the wire format. Backups, support tools, node agents and existing clusters find objects by name, so
// a rule never changes. All functions are pure and limit lengths: their results fit their place for inputs of any
// length. Long names are cut and end in a few digits of a hash of the whole name. Long names that differ only at their
// end stay different.
//
// shorten.go has the three ways of shortening, hash.go the content hashes in names, objects.go one function for each
// kind of object, and image.go the names of images and their registries.
package naming
