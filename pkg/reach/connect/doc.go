// Package connect is what machines see of the server: install script, downloads, the exchange of a token for a connection,
// and a very narrow way to the Kubernetes API. It runs on every replica, reads caches, and needs no leader.
//
//	GET /ping, /healthz, /readyz            anybody       is the server there
//	GET /cacerts, /v3/settings/cacerts      anybody       the authority of the server
//	GET /system-agent-install.sh            anybody       install.go, install.sh
//	GET /assets/<file>                      anybody       assets.go: the agent (this very program), its uninstall script
//	GET /v3/import/<token>_<cluster>.yaml   registration  import.go: the manifest of the agent inside that cluster
//	GET /v3/connect/agent                   bootstrap     agent.go: connection of the machine the token was made for
//	/version, /api, /apis, own plan secret  plan token    passthrough.go
//
// Two credentials open something, and each one thing. The bootstrap token, a digest of the token of a machine's bootstrap
// account, is exchanged for the connection of that machine: by the identity that presents it first, and from then on by that
// one alone, until the machine is a node, or a while after its agent has reported for the first time. The plan token, that of a machine's plan account, lets the agent read, watch and update the one
// secret that holds the plan of that machine. Every other request is refused here, before the API server sees it, and what
// passes reaches it with the agent's own credential and never with ours, so that its own authorization decides again. Of an
// update only the data keys in which agents report are taken over (report.go).
//
// Registration tokens let agents of clusters in (registrations.go). The one in the path of a manifest is where the wire has it: nothing here
// writes paths down, and who puts a proxy in front of the server should keep it from doing so.
//
// A machine whose objects were moved or restored to this management cluster presents the plan token of the former one. It opens the same
// plan secret, by a digest that came along on it (former.go), and the request goes on with the token of the machine's present account.
//
// Tokens are found by digest of a digest in an index and compared in constant time. They appear in no log and no answer
// but the one they are for.
package connect
