// Package render turns what is known about one machine into the plan its node agent executes.
//
// It answers one question: given the cluster's configuration, this machine's roles and addresses, the join tokens and
// everything the configuration refers to, which files, instructions and probes should the node have? The answer is a
// value; who may receive it, and when, is decided by package planner.
//
// # How to read it
//
//   - input.go     what goes in, as plain values ([Input])
//   - versions.go  [Plan], and how versions stand side by side
//   - render.go    the ordered lists of steps of each version
//   - config.go    the layers of 50-rancher.yaml, the configuration file of RKE2 and K3s; later layers win
//   - install.go   the `install` instruction with its restart stamp and drain hash
//   - idempotent.go a wrapper that runs a command at most once, used by operations such as restore and rotation
//
// # Rules
//
// The package is pure: no client, clock, environment or randomness. The same input gives the same bytes, whatever the
// order of maps, because agents compare checksums of the bytes and restart services when a stamp over them changes. A
// secret value may appear in a file's content and nowhere else: not in arguments, warnings or errors (the one
// exception the wire format knows, spec.agentEnvVars, is configuration and not a secret).
//
// Nothing the user wrote is dropped in silence. A key this release of the distribution is not known to understand is
// passed through and reported as a [Warning].
//
// # Versions
//
// New rendering must not restart a fleet. Each machine keeps the version it was last rendered with, and [Plan]
// renders exactly the version asked for. A change of output for existing inputs is therefore a new version once a
// release contains the newest one: copy the step list in render.go, replace the steps that differ, keep the old ones,
// and add it to the list in versions.go. testdata/corpus holds the plans of every version for every example of the
// documentation, byte for byte.
package render
