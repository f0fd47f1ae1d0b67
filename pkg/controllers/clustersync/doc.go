// Package clustersync copies Secrets and ConfigMaps of a Cluster's namespace into the cluster, through Drover's own
// connection. An object is copied if its annotations request that and authorize the cluster
// (docs/wire/secrets.md#copies-in-clusters).
//
// The work happens in visits in the background (proxy.Visits), because a cluster may answer slowly or never. A visit
// lists the copies in the cluster by their label, and compares them with the wanted ones. It therefore finds what
// happened while Drover or the cluster was away. Drover changes and deletes only objects with its label. It writes
// nothing in the management cluster except Events about objects that it cannot copy.
//
// A Cluster whose objects have not changed since the last visit is visited again only after resyncInterval, which
// repairs copies that users of the cluster changed.
//
// # Wake-ups
//
// Object: Cluster. Woken by: Secret (authorized for the cluster), ConfigMap (authorized for the cluster), management
// Cluster. An agent that connects wakes it too.
package clustersync
