// Package wire is shared by both ends of the tunnel: names of headers and paths, the announcement of a cluster, and the
// network connections below and inside a session.
//
//	names.go    headers, paths, the single address that can be dialed, intervals of signs of life
//	request.go  requests to Drover's agent: headers, and windows of HTTP/2
//	params.go   X-API-Tunnel-Params: how a stock agent announces its cluster
//	link.go     Link: the connection below a session; detects silence
//	tend.go     Tend: pings and pongs that never block a session's reader
//	inspect.go  Inspector: inspects incoming messages
//	pipe.go     Pipe: an in-process connection with a buffer and deadlines
//	flow.go     Flow: reads so that neither side stays paused
//
// The protocol inside the WebSocket is that of github.com/rancher/remotedialer. Each end uses its Session. This package
// and package tunnel work around six problems of that library:
//
//   - It detects a dead link after 60 seconds. Link ends a session after the agreed silence.
//   - Its reader answers pings itself, and waits for writers meanwhile. Two ends that both send much can deadlock.
//     Tend answers from its own goroutine.
//   - Once a minute a client sends a list of its connections. The list ends connections that the server has opened
//     since the list was written. Inspector turns such a message into one of unknown type.
//   - The receiver's buffers are unbounded. Inspector counts received bytes, and the receiver counts read bytes, so
//     that a session with too much unread data can be ended.
//   - Its reader also sends pause messages, and waits until they are sent. Two ends whose network is blocked can
//     deadlock. Link.Write never waits. Code that sends much calls Room first.
//   - The reader writes fields of connections that writers read without a lock. Inspector reports the end of a
//     connection to package tunnel before the reader acts on it, and package tunnel stops writing. Towards Drover's
//     agent, a connection only ends with its session.
package wire
