// Package registration decides on registration tokens: the secrets by which hosts and the agent inside a cluster introduce themselves.
//
//	ClusterRegistrationToken ── Decide ──► Secret crt-token-<name>: token, previousToken, and until when they are good
//	                                  └──► status: commands, in which {token} stands for the token, and times
//
// A token is replaced when its time is over. The one before stays good for a grace period, so that whoever has it still gets the new one.
// Tokens of agents and of hosts are apart: a label on the ClusterRegistrationToken, which its Secret repeats, says whom a token lets in.
//
// What a host says when it registers is a value, too: host.go reads the headers of its request, machine.go makes the objects that it becomes, and
// request.go says where the answer is on the Secret by which a replica asks on behalf of a host (machine request).
//
// Everything here is a value: the time, and the random text that becomes a token. Who looks tokens up is package
// connect. (docs/wire/secrets.md#registration-tokens.)
package registration
