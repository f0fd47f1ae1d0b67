// Package tunnel is the server's end of the reverse tunnel: agents in clusters that nobody reaches from outside open a session to every
// replica, and requests to their API servers go back through it. It runs on every replica, writes nothing, and needs no leader.
//
//	server.go        Server, Options: takes sessions, and ends them
//	registration.go  who an agent is: the headers it presents
//	session.go       session: one agent's WebSocket, and the connections through it
//	stream.go        stream: one of these connections
//	table.go         which sessions a cluster has, and which of them is used
//	subscribe.go     who is told when a cluster's sessions change
//	transport.go     Transport: requests to a cluster's API server
//	upgrade.go       those of them that change to another protocol: exec, attach, port-forward
//
// # Two kinds of agents
//
// Our own agent (package clusteragent) answers requests itself: it adds its own credential, which never leaves its cluster, and passes the
// request on to its API server. The one address that is dialed is a symbolic one. Requests go as HTTP/2 over one connection per session, and a request
// that changes to another protocol is a stream of it like all others, in both directions: each has its own flow control, so that whoever does not
// read stops only itself. The session ends with that connection.
//
// A stock agent announces the address of its API server, whom that trusts, and a credential, which is kept in memory with the session and
// nowhere else. Only the announced address is dialed.
//
// # Sessions
//
// A session of our agent is used from its first sign of life on: an agent gives none through a session that it does not keep. The newest session that gives signs of life is used; what waits for an answer through a session that ends gets an error at once.
// Nothing waits for a session: who wants to know when there is one subscribes.
package tunnel
