// Package reach shows that a cluster that nobody can connect to is used through its agent: a second management plane stands for it, whose kubelet runs
// the agent from the very manifest that the import command fetches.
package reach
