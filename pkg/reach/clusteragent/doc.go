// Package clusteragent runs in a cluster that Drover manages. It opens sessions of the reverse tunnel to Drover's server, and answers requests
// that come back through them, so that the cluster's API server need not be reached from outside.
//
//	options.go   Options: where the server is, and the cluster's own API server
//	run.go       Run: keeps a session to every replica of the server
//	connect.go   one session
//	replicas.go  which replicas there are sessions to, and when to try for more; decides on values
//	trust.go     whom the server's certificate is from: a file, a checksum, or the authorities of the system
//	proxy.go     answers requests: adds the credential, and passes them on to the API server
//	upgrade.go   those of them that change to another protocol: exec, attach, port-forward
//	token.go     credentials in files, read anew
//	health.go    /healthz and /readyz
//
// The agent's credential is added here, and never leaves the cluster; a credential that comes with a request is dropped. A request has to say
// for whom it is made (Impersonate-User), so that the API server decides by that user's rights, and nobody acts as the agent.
//
// Nothing listens for what comes through a session but this process itself: the one address that the server may dial has no meaning elsewhere,
// and all others are refused.
//
// Nothing here needs client-go: one HTTP client is all, and memory is for requests.
package clusteragent
