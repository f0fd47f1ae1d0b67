// Package fakeagent plays everything that a machine does, so that Drover can be tested with hundreds of machines and no
// virtual one: the Job that makes it, the agent on it, and the Kubernetes API that it brings up with others.
//
//	Jobs     A Job that makes or removes a machine is ended at once, leaving what rancher-machine in its pod would leave: the
//	         state Secret with the machine's addresses, and the Job's status. No pod runs, and no Job controller may run.
//	Agents   Once its Job is done, a machine follows its plan Secret by the agents' protocol: it applies a plan by noting its
//	         checksum, reports output and probes, and runs periodic instructions, capture-kubeconfig among them. Where the plan
//	         brings the agent inside the cluster along, that runs: it is Drover's own, and dials the server.
//	Clusters The first server with the control-plane role brings up the API of its cluster, a handler that the caller chooses,
//	         over TLS on the machine's own loopback address and port 6443. Machines register as Nodes there with the name,
//	         labels and taints that their plan gives them, and with a provider ID, as the distribution does.
//
// World is all of that for one management API. Its client calls itself Agent, so that an audit log tells its writes from
// Drover's. What goes wrong on machines is said in Options.Faults.
//
// jobs.go, agent.go and cluster.go are the three parts above; pass.go is the protocol as a function of values.
package fakeagent
