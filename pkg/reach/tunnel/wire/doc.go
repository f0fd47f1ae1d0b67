// Package wire is what both ends of the tunnel agree on: names of headers and paths, the form in which a cluster announces itself, and
// the network connections below and inside a session.
//
//	names.go    headers, paths, the one address that can be dialed, how often a session gives a sign of life
//	request.go  how requests are made of our agent: headers, and windows of HTTP/2
//	params.go   X-API-Tunnel-Params: how a stock agent announces its cluster
//	link.go     Link: the connection below a session; notices silence
//	tend.go     Tend: pings and pongs that never keep a session's reader
//	inspect.go  Inspector: reads along what comes in, message by message
//	pipe.go     Pipe: a connection within the process, with a buffer and deadlines
//
// The protocol within the WebSocket is that of github.com/rancher/remotedialer, of which each end uses the Session. Six edges of it are
// blunted here and in package tunnel:
//
//   - A dead link is noticed after 60 seconds. Link ends a session whose other side was silent for longer than was agreed.
//   - Its reader answers pings itself, and waits meanwhile until a writer is done. Two ends that both send much can wait for each other
//     for ever. Tend answers from a goroutine of its own.
//   - The list of connections that a client sends once a minute ends those that the server has opened since it was written. Inspector
//     makes such a message one without meaning.
//   - The receiver's buffers have no end. Inspector counts what came, and the receiver what it took, so that a session can be ended.
//   - Its reader also tells the other side to pause, and waits meanwhile until that is sent. Two ends whose network takes no more can wait for each
//     other for ever. Link keeps no writer waiting, and who has much to send asks it for room before.
//   - Fields of its connections are written by the reader and read by writers without a lock. Package tunnel learns of the end of a
//     connection from the Inspector, before the reader does, and stops writing. To our agent it never ends a connection but with its session.
package wire
