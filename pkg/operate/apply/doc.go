// Package apply writes what a user has previewed, with the permissions of the user. It sends every write once. A write
// names the version of the object that the user has seen, so a change of another user or program in between refuses it.
// If the answer to a write is lost, the error says that the write may have taken effect.
package apply
