// Package metrics reports the state of clusters to operators, as Prometheus metrics.
//
// The package writes nothing, and controllers keep no extra state for it:
//
//   - Gauges of a fleet are computed from caches during a scrape (Fleet). A restart does not change them. The cost
//     grows only with the number of objects.
//   - Histograms of stages and counters of failures need the moment of a change. A cache reports it as an old and a new
//     object (Changes). Durations are differences of times in the objects. Objects of the initial list are no changes,
//     so a restart observes nothing twice.
//   - The code itself counts only what happens in the process: disruptions and runs of handlers.
//
// Labels have few values, all known in advance: no names of clusters, machines or namespaces. Every metric is in
// Definitions, and docs/metrics.md has a row for each.
package metrics
