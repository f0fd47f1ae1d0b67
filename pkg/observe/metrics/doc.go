// Package metrics tells operators how clusters fare, in the words of Prometheus.
//
// Nothing here is remembered by the controllers that the API does not know, and nothing is written:
//
//   - Gauges of a fleet are made from caches while they are read (Fleet). A restart changes none of them, and reading costs time
//     that grows with the number of objects and nothing else.
//   - Histograms of stages and counters of failures need the moment of a change. A cache tells it as an old and a new object
//     (Changes); the durations are differences of times that objects carry. What a cache finds when it is filled is no change,
//     so that a restart observes nothing twice.
//   - Only what happens in the process itself is counted by the code that does it: disruptions and runs of handlers.
//
// Labels have few values, all known beforehand: no names of clusters, machines or namespaces. Every metric is in Definitions, and
// docs/metrics.md has a row for each.
package metrics
