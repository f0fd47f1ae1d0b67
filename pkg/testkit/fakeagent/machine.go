package fakeagent

import (
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// machine is a host. The World's mutex guards its fields.
type machine struct {
	// owner is the Cluster API Machine.
	owner types.NamespacedName
	// address is the host's own loopback address.
	address string
	// hostname is the host's own name. A plan may give the node another name.
	hostname string
	// providerID is the ID that another provider gave the host, or "" on a host of Drover's drivers.
	providerID string
	// boots is the time from which the agent runs. It is zero until the Job that creates the machine is about to end,
	// or until Boot.
	boots time.Time
	// silent machines exist but do nothing, as after a power failure.
	silent bool

	// memory is the state of the agent on the host. known is what its last plan said.
	memory memory
	known  known
	// node is the name under which the host registered, or "" before registration. version is that of its kubelet.
	node, version string
	// stopAPI stops the cluster's API on this host. It is nil while the host serves no API.
	stopAPI func()
}

// Machine is a host as tests see it.
type Machine struct {
	// Name of the Cluster API Machine.
	Name string
	// Address of the host.
	Address string
	// Node is the name under which the host registered, or "" before registration.
	Node string
	// Applied is the number of successful plan applications.
	Applied int
	// Installs is the number of installations and restarts of the distribution. Each new restart stamp counts.
	Installs int
}

// Machines returns the hosts of a namespace by the names of their Cluster API Machines.
func (w *World) Machines(namespace string) map[string]Machine {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	out := map[string]Machine{}
	for key, m := range w.machines {
		if key.Namespace == namespace {
			out[key.Name] = Machine{Name: key.Name, Address: m.address, Node: m.node, Applied: m.memory.applied,
				Installs: m.memory.installs}
		}
	}
	return out
}

// Remove removes a host as a cloud does, without a Job.
func (w *World) Remove(namespace, name string) {
	w.dropMachine(types.NamespacedName{Namespace: namespace, Name: name})
}

// Boot creates the host of a Cluster API Machine that another provider made, once, and starts its agent. Its Node gets
// the provider ID if its plan leaves that to the provider's cloud controller manager. Such a host has no Job.
func (w *World) Boot(owner types.NamespacedName, providerID string) error {
	m, err := w.machineFor(owner, owner.Name)
	if err != nil {
		return err
	}
	w.mutex.Lock()
	booted := !m.boots.IsZero()
	m.providerID = providerID
	w.mutex.Unlock()
	if !booted {
		w.start(m)
	}
	return nil
}

// start starts the agent of a host.
func (w *World) start(m *machine) {
	w.mutex.Lock()
	m.boots = time.Now().Add(w.opts.Boot)
	w.mutex.Unlock()
	w.opts.Log("fakeagent: machine %s exists at %s", m.hostname, m.address)
	if secret, found := w.planSecretOf(m.owner); found {
		w.plans.AddAfter(secret, w.opts.Boot)
	}
}

// Silence stops a host's agent and its API, as a power failure does. Wake starts them again.
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

// machineFor returns the host of a Cluster API Machine, and creates it at first use. Handling a Job twice must not
// create two hosts.
func (w *World) machineFor(owner types.NamespacedName, hostname string) (*machine, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if m := w.machines[owner]; m != nil {
		return m, nil
	}
	address, err := w.freeAddress()
	if err != nil {
		return nil, err
	}
	m := &machine{owner: owner, address: address, hostname: hostname}
	w.machines[owner] = m
	return m, nil
}

// hosts is the number of addresses that a World may use. port is the port of the APIs.
const (
	hosts = 250 * 250
	port  = "6443"
)

// freeAddress returns a loopback address on which nothing listens yet. Worlds in different processes start at different
// addresses. The caller holds the mutex.
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
