// Package clusteragent installs the agents of clusters that Drover creates, through the plans of their servers.
//
// Package clustermanifest decides. This package reads the facts from caches and writes the Secret from which the
// planner takes the manifest. The Secret never changes afterwards, so that no server's plan changes. If a cluster has
// an agent, deleting the Secret recreates it from the current settings.
//
// For a cluster with an authorized endpoint (spec.localClusterAuthEndpoint), this package creates the keys. It installs
// the token authenticator (drover cluster-auth) in the cluster, and removes it again, through the tunnel.
//
// # Wake-ups
//
// Object: Cluster. Woken by: management Cluster, RKEControlPlane, Secret (manifest, registration token, keys of the
// endpoint). An agent that connects or disconnects wakes it too.
package clusteragent
