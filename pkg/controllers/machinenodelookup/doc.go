// Package machinenodelookup finds the node that a machine has become, and tells Cluster API: the node's provider ID and
// addresses are copied to the infrastructure machine, from where Cluster API takes them.
//
// A node says which machine it is by a label with the Machine's UID, which its configuration sets. Nodes are looked up in
// their own cluster, through Downstream, only for machines that were made and whose node is not known yet: when something
// about the machine changes, and every few seconds otherwise, because nothing here hears of a new node.
//
// # What a node can pretend
//
// The label is the kubelet's own to write, and so are the addresses and whether the node is ready. A node with root on it can
// therefore say that it is a machine whose UID it knows. It is not believed
//
//   - before the agent of that machine has reported in the machine's own plan Secret that it carried its plan out;
//   - when Cluster API knows it as the node of another machine, or it has another machine's provider ID;
//   - when it has the name that the node of another machine gets: a kubelet cannot rename its node, nor write to another;
//   - as a machine with etcd or the control plane, when its distribution did not label it as a server, which a kubelet cannot;
//   - while another ready node, or a younger one, says the same. Then nobody is believed.
//
// What remains: a node whose name tells nothing can take the place of another worker that has carried its plan out, while that
// one's own node has not registered; so can a node that was registered later with the join token, until the machine's own is
// ready. It is then drained and deleted in the machine's place, and gets nothing: plans go to machines and never to nodes. A
// server can take the place of another server in the same way, and nodes that join there hand it their token, which it has
// already. A node can also keep a machine from its own by saying that it is the same; both names are in the cluster to see.
// Addresses prove nothing: the infrastructure machine has none but those copied from its node, drivers record ones that no node
// has where addresses are translated, and a kubelet reports what it likes.
//
// # Clusters that do not answer
//
// Clusters are slow, down, or not there yet. One look is for all machines of a cluster that wait, a failure is kept for a
// growing moment, and only one worker at a time waits for a cluster (nodes.go): machines of other clusters never do. A
// cluster that does not answer is a reason to look again, never an error.
//
// Clusters of others and clusters that are paused are left alone.
//
// # Wake-ups
//
// Object: RKEBootstrap. Woken by: Machine, CustomMachine, Secret (plan, kubeconfig), Cluster, CAPI Cluster. Each
// <Driver>Machine wakes it too.
package machinenodelookup
