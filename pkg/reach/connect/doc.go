// Package connect is the machines' interface to the server: the install script, downloads, the exchange of a token for
// a connection, and very limited access to the Kubernetes API. It runs on every replica, reads caches, and needs no
// leader.
//
//	GET /ping, /healthz, /readyz            public        health of the server
//	GET /cacerts, /v3/settings/cacerts      public        the server's authorities
//	GET /system-agent-install.sh            public        install.go, install.sh
//	GET /assets/<file>                      public        assets.go: the agent (this program), its uninstall script
//	GET /v3/import/<token>_<cluster>.yaml   registration  import.go: the manifest of that cluster's agent
//	GET /v3/connect/agent                   bootstrap     agent.go: the connection of the token's machine
//	/version, /api, /apis, own plan Secret  plan token    passthrough.go
//
// Two machine credentials exist, each for a single purpose. The bootstrap token is a digest of the token of a machine's
// bootstrap account. It is exchanged for the connection of that machine. Only the identity that presents it first may
// use it. It becomes invalid when the machine is a node, or a while after its agent's first report.
//
// The plan token is the token of a machine's plan account. With it the agent reads, watches and updates the one Secret
// with the machine's plan. All other requests are refused before they reach the API server. Permitted requests use the
// agent's own credential, never Drover's, so that the API server authorizes them again. Updates change only the data
// keys in which agents report (report.go).
//
// Registration tokens admit cluster agents and hosts (registrations.go). The wire requires the token in the path of a
// manifest. Drover logs no paths, and a proxy in front of the server should not log them either.
//
// A machine whose objects were moved or restored to this management cluster presents the plan token of the previous
// one. A digest that moved with the RKEBootstrap accepts it for the same plan Secret (former.go). Its requests continue
// with the token of the machine's current account.
//
// A request for a connection may wait for objects, and a host's request writes a Secret. crowd.go therefore counts
// requests by machine, cluster and replica, after the token is verified and before anything is written. Beyond a limit
// the answer is 429, and install scripts retry.
//
// Tokens are looked up by the digest of a digest and compared in constant time. They appear in no log, and in no answer
// except the one that delivers them.
package connect
