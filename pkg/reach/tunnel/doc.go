// Package tunnel is the server's end of the reverse tunnel. Agents in clusters without an incoming connection open a
// session to every replica. Requests to their API servers go back through it. The package runs on every replica, writes
// nothing, and needs no leader.
//
//	server.go        Server, Options: accepts and ends sessions
//	registration.go  identifies an agent by the headers it sends
//	session.go       session: one agent's WebSocket, and the connections through it
//	stream.go        stream: one of these connections
//	table.go         the sessions of each cluster, and the one to use
//	subscribe.go     notifies subscribers when a cluster's sessions change
//	transport.go     Transport: requests to a cluster's API server
//	upgrade.go       requests that switch protocols: exec, attach, port-forward
//
// # Two kinds of agents
//
// Drover's own agent (package clusteragent) handles requests itself. It adds its own credential, which never leaves its
// cluster, and forwards the request to its API server. The server dials a single symbolic address. Requests use HTTP/2
// over one connection per session. A request that switches protocols is a stream of that connection, like all others.
// Each stream has its own flow control in both directions, so a slow reader blocks only itself. The session ends with
// that connection.
//
// A stock agent announces the address of its API server, its CA certificates, and a credential. The credential stays in
// memory with the session. Only the announced address is dialed.
//
// # Sessions
//
// A session of Drover's agent is used from its first sign of life on, because the agent sends none through a session
// that it does not keep. The newest session that shows signs of life is used. Requests in a session that ends fail
// immediately. Callers never wait for a session: they subscribe to changes.
package tunnel
