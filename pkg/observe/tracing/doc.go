// Package tracing records the life of each machine, from its creation until it is ready, as one OpenTelemetry trace.
//
// A trace is created in one step when a machine is ready for the first time. It uses the times in the machine's
// objects, as the histograms of stages do. Until then the package keeps only the fact that the machine is awaited, and
// the time of its agent's first report, which no object contains. A process that takes over finds unready machines in
// its caches and creates the same trace: the identifiers of a trace and its spans follow from the UID of the Machine. A
// machine that is removed before it was ready leaves a failed trace.
//
// Spans, all below the span "machine":
//
//	bootstrap data   from the Machine until the data that its host starts with exist
//	infrastructure   from the Machine until its host was created
//	agent            from there until its agent has reported for the first time
//	plan             from the delivery of its plan until it was applied and all its probes passed
//	node             from its host until its node is known
//	ready            from there until it is ready
//
// A stage without known times has no span.
package tracing
