package clusterproxy

import "github.com/drover-io/drover/pkg/reach/unread"

// What a stream holds in this process while nothing of it is read. TestUnread_Memory measures it.
var (
	// unreadAnswer is the window of an answer in the tunnel (wire.HTTP2), and buffers for copying.
	unreadAnswer = unread.Kind{Holds: 320 << 10}
	// unreadUpgrade is one frame to the cluster, and a buffer for copying. A program in the cluster may read its input
	// late. So only the budgets end such a stream.
	unreadUpgrade = unread.Kind{Holds: 96 << 10, Patient: true}
)

// holder is the body of an answer that may hold more than unreadAnswer while nothing of it is read.
type holder interface{ Holds() int64 }

// supervise ends the request when its client stops reading. Call done at the end of the request.
func (e *exchange) supervise() (done func()) {
	e.answer = e.proxy.options.Unread.Writer(e.w.ResponseWriter, e.tenant(), unreadAnswer)
	e.w.ResponseWriter = e.answer
	if !e.long {
		return func() {} // it has its own deadline
	}
	return e.answer.Done
}

// tenant is the namespace of the cluster, or its identifier if it has none.
func (e *exchange) tenant() string {
	if namespace, _, ok := e.proxy.options.Lookup(e.at.Cluster); ok {
		return namespace
	}
	return e.at.Cluster
}
