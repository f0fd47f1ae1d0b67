// Package tracing tells the life of each machine, from its creation until it is ready, as one trace of OpenTelemetry.
//
// A trace is made at once when a machine is ready for the first time, from the times that its objects carry: those that the histograms of
// stages are made from. Until then nothing is kept of it but that it is awaited, and when its agent was heard of first, which no object
// tells. A process that takes over finds the machines that are not ready yet in its caches, and makes the same trace: the identifiers of a
// trace and of its spans follow from the UID of the Machine. A machine that goes before it was ready leaves a trace that has failed.
//
// Spans, all below the span "machine":
//
//	bootstrap data   from the Machine until the data that its host starts with are there
//	infrastructure   from the Machine until its host was made
//	agent            from there until its agent has reported for the first time
//	plan             from the delivery of its plan until it was applied and all its probes passed
//	node             from its host until its node is known
//	ready            from there until it is ready
//
// A stage whose times are not known has no span.
package tracing
