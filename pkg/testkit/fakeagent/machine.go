package fakeagent

import (
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// machine is a host that exists. Its fields are guarded by the World's mutex.
type machine struct {
	// owner is the Cluster API Machine.
	owner types.NamespacedName
	// address is the host's own, on loopback.
	address string
	// hostname is the host's own; a plan may choose another name for the node.
	hostname string
	// boots is when the agent runs. Zero until the Job that makes the machine is about to end.
	boots time.Time
	// silent machines exist and do nothing, as after a power failure.
	silent bool

	// memory is what the agent on the host remembers.
	memory memory
	// node is the name under which the host registered, "" before.
	node string
	// stopAPI ends the cluster's API on this host, nil while it does not serve.
	stopAPI func()
}

// Machine is a host as tests see it.
type Machine struct {
	// Name of the Cluster API Machine.
	Name string
	// Address of the host.
	Address string
	// Node is the name under which the host registered, "" before.
	Node string
	// Applied is how often a plan was applied successfully.
	Applied int
	// Installs is how often the distribution was installed or restarted: each new restart stamp counts.
	Installs int
}

// Machines returns the hosts that exist in a namespace, by the names of their Cluster API Machines.
func (w *World) Machines(namespace string) map[string]Machine {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	out := map[string]Machine{}
	for key, m := range w.machines {
		if key.Namespace == namespace {
			out[key.Name] = Machine{Name: key.Name, Address: m.address, Node: m.node, Applied: m.memory.applied, Installs: m.memory.installs}
		}
	}
	return out
}

// Silence stops a host's agent and the API on it, as a power failure does; Wake starts them again.
func (w *World) Silence(namespace, name string) { w.setSilent(namespace, name, true) }

// Wake undoes Silence.
func (w *World) Wake(namespace, name string) { w.setSilent(namespace, name, false) }

func (w *World) setSilent(namespace, name string, silent bool) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	w.mutex.Lock()
	m := w.machines[key]
	var stop func()
	if m != nil {
		m.silent = silent
		if silent {
			stop, m.stopAPI = m.stopAPI, nil
		}
	}
	w.mutex.Unlock()
	if stop != nil {
		stop()
	}
	if secret, found := w.planSecretOf(key); found && !silent {
		w.plans.Add(secret)
	}
}

// machineFor returns the host of a Cluster API Machine, and makes it when there is none: a Job that is looked at twice must
// not make two.
func (w *World) machineFor(owner types.NamespacedName, args jobArguments) (*machine, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if m := w.machines[owner]; m != nil {
		return m, nil
	}
	address, err := w.freeAddress()
	if err != nil {
		return nil, err
	}
	m := &machine{owner: owner, address: address, hostname: args.hostname}
	w.machines[owner] = m
	return m, nil
}

// hosts is how many addresses a World may hand out, and port is where the APIs are served.
const (
	hosts = 250 * 250
	port  = "6443"
)

// freeAddress returns an address of the loopback network on which nothing serves yet. Worlds of several processes start at
// different ones. The caller holds the mutex.
func (w *World) freeAddress() (string, error) {
	for range hosts {
		w.nextHost++
		n := (w.nextHost + os.Getpid()*251) % hosts
		address := fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()%128, n/250, 2+n%250)
		listener, err := net.Listen("tcp", net.JoinHostPort(address, port)) //nolint:noctx // a probe that is closed at once
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return "", fmt.Errorf("probe address: %w", err)
		}
		return address, nil
	}
	return "", fmt.Errorf("no loopback address with a free port %s", port)
}

func (w *World) dropMachine(owner types.NamespacedName) {
	w.mutex.Lock()
	var stop func()
	if m := w.machines[owner]; m != nil {
		stop, m.stopAPI = m.stopAPI, nil
	}
	delete(w.machines, owner)
	w.mutex.Unlock()
	if stop != nil {
		stop()
	}
}
