// Package supportbundle creates the files of a support bundle, without secrets, from data that its caller has gathered.
//
// The type of an object decides what a bundle shows, and not the look of a value. A bundle shows:
//
//   - the keys and sizes of Secrets and ConfigMaps
//   - only the names of fields that users fill freely: chart values, manifests, user data, variables
//   - the configuration of nodes, with values only for keys that are known to hold no secrets
//
// The package remembers hidden values and removes them from everything else: Events, conditions, outputs, logs. It
// cannot search encoded text for them, so it hides encoded text completely.
package supportbundle
