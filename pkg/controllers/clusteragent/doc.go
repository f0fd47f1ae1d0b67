// Package clusteragent puts the agents of clusters that Drover makes into the plans of their servers.
//
// Package clustermanifest decides; here its facts are read from caches, and the Secret is written from which the planner takes the manifest. The
// Secret is never changed afterwards, so that no server's plan is, and deleting it in a cluster that has an agent makes it anew, from what is set now.
//
// Where a cluster has an authorized endpoint (spec.localClusterAuthEndpoint) its keys are made here, and what verifies tokens by them is installed in the cluster
// and taken out of it again, through the tunnel.
//
// # Wake-ups
//
// Object: Cluster. Woken by: management Cluster, RKEControlPlane, Secret (manifest, registration token, keys of
// the endpoint). An agent that connects or disconnects wakes it too.
package clusteragent
