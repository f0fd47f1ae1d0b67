// Package reach shows that a cluster that nobody can connect to is used through its agent: a second management plane stands for it, whose kubelet runs
// the agent from the very manifest that the import command fetches. As whom requests are made is told by its API server. Many users of two such clusters get
// each what is theirs while the agents' sessions are cut again and again.
package reach
