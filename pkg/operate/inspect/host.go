package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// Host is how to log in to the host of a Machine by SSH.
type Host struct {
	machinejob.Login
	// Keys are the public keys of the host's SSH server that its node agent has reported. They are empty for an agent
	// that reports none.
	Keys []byte
	// Unread is why the keys could not be read.
	Unread error
}

// Host reads how to log in to the host of a Machine. target is NAME, machine/NAME, or CLUSTER/NODE.
func (r *Reader) Host(ctx context.Context, target string) (*Host, error) {
	machine, err := r.machineOf(target)
	if err != nil {
		return nil, err
	}
	ref := machine.Spec.InfrastructureRef
	if _, ok := driverschema.DriverOf(ref.Kind); !ok || ref.APIGroup != driverschema.MachineGroup {
		return nil, fmt.Errorf("no SSH key of the Machine %s/%s is known: its host is a %s, which no driver created; "+
			"log in with a key of your own", machine.Namespace, machine.Name, ref.Kind)
	}
	live, err := r.streaming()
	if err != nil {
		return nil, err
	}
	secrets, name := live.CoreV1().Secrets(machine.Namespace), naming.MachineState(ref.Name)
	state, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s, which has the SSH key of the host: %w", machine.Namespace, name, err)
	}
	login, err := machinejob.DecodeLogin(state.Data[rkev1.MachineStateKey])
	if err != nil {
		return nil, fmt.Errorf("read the machine state in Secret %s/%s: %w", machine.Namespace, name, err)
	}
	for _, kind := range []clusterv1.MachineAddressType{clusterv1.MachineExternalIP, clusterv1.MachineInternalIP} {
		for _, known := range machine.Status.Addresses {
			if known.Type == kind && !slices.Contains(login.Addresses, known.Address) {
				login.Addresses = append(login.Addresses, known.Address)
			}
		}
	}
	host := &Host{Login: login}
	name = naming.PlanSecret(machine.Spec.Bootstrap.ConfigRef.Name)
	plan, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		host.Unread = fmt.Errorf("read Secret %s/%s, which has the SSH keys that the host's node agent reported: %w",
			machine.Namespace, name, err)
		return host, nil
	}
	host.Keys = plan.Data[nodeplan.KeySSHHostKeys]
	return host, nil
}

// machineOf returns the Machine with a name, or of a node of a cluster.
func (r *Reader) machineOf(target string) (*clusterv1.Machine, error) {
	cluster, node, isNode := strings.Cut(strings.TrimPrefix(target, MachinePrefix), "/")
	if !isNode {
		return r.Machine(cluster)
	}
	machines, err := r.clients.CAPI.Machine().List(r.namespace,
		metav1.ListOptions{LabelSelector: clusterv1.ClusterNameLabel + "=" + cluster})
	if err != nil {
		return nil, fmt.Errorf("list the Machines of cluster %s/%s: %w", r.namespace, cluster, err)
	}
	for i := range machines.Items {
		if machine := &machines.Items[i]; machine.Status.NodeRef.Name == node || machine.Name == node {
			return machine, nil
		}
	}
	return nil, fmt.Errorf("no Machine of cluster %s in namespace %s has the node %s; -n names another namespace",
		cluster, r.namespace, node)
}

// MachineNames lists the Machines of the namespace.
func (r *Reader) MachineNames() ([]string, error) {
	machines, err := r.clients.CAPI.Machine().List(r.namespace, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Machines of %s: %w", r.namespace, err)
	}
	names := make([]string, 0, len(machines.Items))
	for i := range machines.Items {
		names = append(names, machines.Items[i].Name)
	}
	return names, nil
}
