// Package registration decides about registration tokens. Hosts and the agent inside a cluster register with them.
//
//	ClusterRegistrationToken ── Decide ──► Secret crt-token-<name>: token, previousToken, and until when they are good;
//	                                  │    complete commands
//	                                  └──► status: commands, in which {token} stands for the token, and times
//
// An expired token is replaced. The previous one stays valid for a grace period, so that agents and hosts that have it
// can still get the new one. Agents and hosts have different tokens. A label on the ClusterRegistrationToken, copied to
// its Secret, is the purpose of a token.
//
// The package also handles what a host sends when it registers. host.go reads the headers of its request, and
// machine.go renders the objects for the host. A replica asks on behalf of a host with a Secret (machine request);
// request.go reads and writes the answer on it. limits.go says which hosts a token admits.
//
// All functions are pure: the time and the random text of a token are values. Package connect looks up tokens.
// (docs/wire/secrets.md#registration-tokens.)
package registration
