package server

import (
	"net/http"
	"time"
)

// Limits of a listener. Requests that may take longer set their own deadlines: requests to clusters, watches of nodes,
// downloads, and the tunnels of agents. (docs/security.md#limits.)
const (
	// headerTimeout limits the TLS handshake and the head of a request over HTTP/1.
	headerTimeout = 10 * time.Second
	// readTimeout limits a whole request, for example the report of a node over a slow line.
	readTimeout = time.Minute
	// writeTimeout limits an answer, from the head of its request on. A machine waits 45 seconds for its connection
	// (connect.DefaultWait).
	writeTimeout = 90 * time.Second
	idleTimeout  = 2 * time.Minute
	// maxHeader limits the head of a request, in bytes. The longest is that of a stock agent, with its authorities.
	maxHeader = 64 << 10

	// maxStreams limits concurrent requests of one connection over HTTP/2. Clients open another one.
	maxStreams = 100
	// streamBuffer limits what one request over HTTP/2 sends before a handler reads it, in bytes. connectionBuffer
	// limits all requests of a connection. It is larger, so that one body that nothing reads does not stop the others.
	streamBuffer     = 64 << 10
	connectionBuffer = 1 << 20
	// pingAfter and pingTimeout end silent connections over HTTP/2, and writeStall those that accept no byte.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
	writeStall  = 30 * time.Second
)

// Harden protects a server with Handler or AdmissionHandler from slow clients, and returns it. It sets the time limits,
// MaxHeaderBytes and HTTP2 of the server. Middleware in front of a Handler must have Unwrap, as http.ResponseController
// requires, because requests that may take longer set their own deadlines.
func Harden(s *http.Server) *http.Server {
	s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout = headerTimeout, readTimeout, writeTimeout
	s.IdleTimeout, s.MaxHeaderBytes = idleTimeout, maxHeader
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReceiveBufferPerConnection: connectionBuffer, MaxReceiveBufferPerStream: streamBuffer,
		SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: writeStall,
	}
	return s
}
