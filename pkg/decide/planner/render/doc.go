// Package render turns the facts about one machine into the plan that its node agent executes.
//
// It answers one question: which files, instructions and probes should the node have? The input is the cluster's
// configuration, this machine's roles and addresses, the join tokens, and all objects that the configuration refers to.
// The answer is a value. Package planner decides which machine gets it, and when.
//
// # How to read it
//
//   - input.go has the input, as plain values ([Input]).
//   - versions.go has [Plan], and how several versions coexist.
//   - render.go has the ordered lists of steps of each version.
//   - config.go has the layers of 50-rancher.yaml, the configuration file of RKE2 and K3s. Later layers win.
//   - install.go has the `install` instruction with its restart stamp and drain hash.
//   - idempotent.go has a wrapper that runs a command at most once. Operations such as restore and rotation use it.
//
// # Rules
//
// The package is pure, without client, clock, environment or randomness. The same input gives the same bytes, whatever
// the order of maps. Agents compare checksums of the bytes, and restart services when a stamp over them changes. A
// secret value may appear only in a file's content, and never in arguments, warnings or errors. The wire format has one
// exception, spec.agentEnvVars, which is configuration and not a secret.
//
// User input is never dropped silently. A key that the release is not known to understand is passed through and
// reported as a [Warning].
//
// # Versions
//
// New rendering must not restart a fleet. Each machine keeps the version with which it was last rendered, and [Plan]
// renders exactly the requested version. Once a release contains the newest version, a change of output for existing
// inputs needs a new version: copy the step list in render.go, replace the changed steps, keep the old ones, and add
// the version in versions.go. testdata/corpus contains the plans of every version for every example of the
// documentation, byte for byte.
package render
