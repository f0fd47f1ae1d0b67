// Package machinenodelookup finds the node that a machine has become. It copies the node's provider ID and addresses to
// the infrastructure machine, from where Cluster API takes them.
//
// A node names its machine in a label with the Machine's UID, which its configuration sets. The controller finds nodes
// in their own cluster, through Downstream. It does so only for machines that exist and whose node is unknown. It
// checks after each event of the machine, and otherwise every few seconds, because new nodes cause no event here.
//
// # What a node can pretend
//
// The kubelet can write the label, the addresses and the ready condition. An attacker with root on a node can therefore
// impersonate a machine whose UID is known. The controller rejects such a node
//
//   - before the machine's own agent has reported, in the machine's plan Secret, that it carried out its plan;
//   - if Cluster API knows it as the node of another machine, or it has another machine's provider ID;
//   - if it has the name that the node of another machine gets: a kubelet cannot rename its node or write to another;
//   - if the machine has the etcd or control-plane role, and the distribution did not label the node as a server: a
//     kubelet cannot set that label;
//   - while another ready node, or a younger one, has the same label. Then no node is accepted.
//
// Some attacks remain. A node with a neutral name can take the place of another worker that has carried out its plan
// but whose node has not registered. A node that registered later with the join token can do the same until the
// machine's own node is ready. Such a node is drained and deleted in the machine's place. It gains nothing, because
// plans go to machines and never to nodes.
//
// A server can take the place of another server in the same way. Nodes that join there reveal their token, which the
// server already has. A node can also block a machine's own node by claiming the same machine; both names are visible
// in the cluster.
//
// Addresses prove nothing. The infrastructure machine has only the addresses copied from its node. Drivers record
// addresses that no node has if addresses are translated. A kubelet can report any address.
//
// # Clusters that do not answer
//
// Clusters may be slow, down, or not created yet. One request serves all waiting machines of a cluster, and a failure
// is cached for a growing time. Only one worker at a time waits for a cluster (nodes.go), so machines of other clusters
// never do. A cluster that does not answer causes a retry, never an error.
//
// The controller ignores paused clusters and clusters of other instances.
//
// # Wake-ups
//
// Object: RKEBootstrap. Woken by: Machine, CustomMachine, Secret (plan, kubeconfig), Cluster, CAPI Cluster. Each
// <Driver>Machine wakes it too.
package machinenodelookup
