// Package fakeagent simulates machines, so that tests can run Drover with hundreds of machines without a virtual
// machine. It simulates the Job that creates a machine, the agent on it, and the Kubernetes API of the cluster.
//
//	Jobs     The World completes each provisioning or removal Job at once. It leaves what rancher-machine in the pod
//	         would leave: the state Secret with the machine's addresses, and the Job's status. No pod runs, and no Job
//	         controller may run. Machines of other providers have no Job: Boot and PowerOff are their hosts.
//	Agents   Once its Job is done, a machine follows its plan Secret by the agents' protocol. It applies a plan by
//	         recording its checksum, reports output and probes, and runs periodic instructions such as
//	         capture-kubeconfig. If the plan installs the agent inside the cluster, that agent runs too. It is
//	         Drover's own code and dials the server.
//	Clusters The first server with the control-plane role starts the API of its cluster. The caller provides the
//	         handler. The API listens with TLS on the machine's loopback address, port 6443. Machines register as
//	         Nodes with the name, labels and taints of their plan, and with a provider ID, as the distribution does.
//
// A World does all of that for one management API. Its client has the user agent Agent, so an audit log separates its
// writes from Drover's. Options.Faults injects failures of machines.
//
// jobs.go, agent.go and cluster.go are the three parts above. pass.go is the protocol as a function of values.
package fakeagent
