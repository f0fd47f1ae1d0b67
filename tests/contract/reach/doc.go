// Package reach tests the use of a cluster without incoming connections through its agent. A second management plane is
// that cluster. Its kubelet runs the agent from the manifest that the import command downloads. Its API server shows
// the user of each request. Many users of two such clusters must each get their own data while the agents' sessions are
// cut repeatedly.
package reach
