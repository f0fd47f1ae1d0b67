package summary

import "time"

// State is the state of a cluster or a machine.
type State string

// The states of clusters are Waiting, Ready, Failed, Paused and Deleting. The states of machines are Creating, Joining,
// Running, Unhealthy, Failed and Deleting.
const (
	// Waiting is a cluster that needs time.
	Waiting State = "Waiting"
	// Ready is a cluster that has what its spec requests.
	Ready State = "Ready"
	// Paused is a cluster that Drover leaves alone, because a user requested it.
	Paused State = "Paused"
	// Failed needs a user, or is retried after an error.
	Failed State = "Failed"
	// Deleting has a deletion timestamp.
	Deleting State = "Deleting"
	// Creating is a machine without a host.
	Creating State = "Creating"
	// Joining is a machine with a host and without a node.
	Joining State = "Joining"
	// Running is a machine with a node that works.
	Running State = "Running"
	// Unhealthy is a machine whose node does not work.
	Unhealthy State = "Unhealthy"
)

// Summary is the state of one object, and why it has that state.
type Summary struct {
	State State
	// Code is one word of a bounded set that says what the object waits for, for metrics. It is empty for an object
	// that is Ready or Running.
	Code string
	// Reason and Message are those of the deciding condition. The message is a sentence for users. Both are empty for
	// an object that is Ready or Running.
	Reason, Message string
	// ByReady reports whether the condition Ready decides, or its absence.
	ByReady bool
	// Since is the start of the state. Changed is the last change of what the object waits for: later, if the object
	// made progress.
	Since, Changed time.Time
}
