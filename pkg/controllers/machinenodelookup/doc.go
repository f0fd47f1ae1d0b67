// Package machinenodelookup finds the node that a machine has become, and tells Cluster API: the node's provider ID and
// addresses are copied to the infrastructure machine, from where Cluster API takes them.
//
// A node says which machine it is by a label with the Machine's UID, which its configuration sets. Nodes are looked up in
// their own cluster, through Downstream, only for machines that were made and whose node is not known yet: when something
// about the machine changes, and every few seconds otherwise, because nothing here hears of a new node.
//
// Clusters are slow, down, or not there yet. One look is for all machines of a cluster that wait, a failure is kept for a
// growing moment, and only one worker at a time waits for a cluster (nodes.go): machines of other clusters never do. A
// cluster that does not answer is a reason to look again, never an error.
//
// Clusters of others and clusters that are paused are left alone.
package machinenodelookup
