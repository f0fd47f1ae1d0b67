// Package clusteragent runs in a cluster that Drover manages. It opens sessions of the reverse tunnel to Drover's
// server and handles the requests that arrive through them. So the cluster's API server needs no incoming connection.
//
//	options.go   Options: the addresses of the server and of the cluster's own API server
//	run.go       Run: keeps a session to every replica of the server
//	connect.go   one session
//	replicas.go  connected replicas, and when to retry; decides on values
//	trust.go     trust in the server's certificate: by a file, a checksum, or the system's authorities
//	proxy.go     handles requests: adds the credential and forwards them to the API server
//	upgrade.go   requests that switch protocols: exec, attach, port-forward
//	token.go     credentials in files, reread regularly
//	health.go    /healthz and /readyz
//
// The agent adds its credential here, and the credential never leaves the cluster. It drops credentials in requests. A
// request must name its user (Impersonate-User). So the API server applies that user's permissions, never the agent's
// own.
//
// Only this process handles what arrives through a session. The single address that the server may dial has no meaning
// elsewhere. All other addresses are refused.
//
// The package avoids client-go: it needs only an HTTP client, and uses memory only for requests.
package clusteragent
