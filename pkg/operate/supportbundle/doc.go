// Package supportbundle makes the files of a support bundle from what somebody has gathered, without secrets.
//
// What may be told of an object is decided by what it is, not by what it looks like: of Secrets and ConfigMaps the keys and the sizes, of
// what users write freely (chart values, manifests, user data, variables) the names alone, of the configuration of nodes the values of keys
// that are known to hold no secrets. What is hidden is remembered, and then taken out of everything else: events, conditions, outputs, logs. What is
// encoded cannot be looked through by that, and is hidden as a whole.
package supportbundle
