package inspect

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// partsOfHost is the subject of the controller of hosts.
const partsOfHost = "parts of the host"

// notes describe what the list of changes lacks, one line for all machines with the same reason.
func (p *play) notes() []string {
	lines := map[string][]string{}
	for of, why := range p.unread {
		line := of.what + "%s are not compared: " + strings.ReplaceAll(why, "%", "%%")
		lines[line] = append(lines[line], of.machine)
	}
	for of, why := range p.failed {
		line := of.what + "%s cannot be created or updated: " + strings.ReplaceAll(why, "%", "%%")
		lines[line] = append(lines[line], of.machine)
	}
	var out []string
	for line, machines := range lines {
		out = append(out, fmt.Sprintf(line, ofMachines(machines)))
	}
	slices.Sort(out)
	return out
}

// ofMachines names the first machines of a list. It returns an empty string if the subject is the cluster.
func ofMachines(names []string) string {
	const most = 3
	slices.Sort(names)
	switch {
	case names[0] == "":
		return ""
	case len(names) == 1:
		return " of machine " + names[0]
	case len(names) > most:
		return fmt.Sprintf(" of machines %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return " of machines " + strings.Join(names, ", ")
}

// others reads the Clusters of other namespaces and returns why they are unknown. One of them can claim the same
// management Cluster.
func (p *play) others() string {
	err := p.stage.ReadEverywhere(provv1.SchemeGroupVersion.WithKind("Cluster"))
	switch {
	case err == nil:
		return ""
	case apierrors.IsForbidden(err):
		return "Clusters of other namespaces with the same management cluster are not compared: you may not list " +
			"clusters.provisioning.cattle.io in all namespaces"
	}
	return "Clusters of other namespaces with the same management cluster are not compared: " + err.Error()
}

// host returns the infrastructure object of a machine.
func (p *play) host(machine *clusterv1.Machine) (*unstructured.Unstructured, error) {
	ref := machine.Spec.InfrastructureRef
	return p.stage.Dynamic().Get(hostKind(ref), machine.Namespace, ref.Name)
}

// doubts marks machines as replaced if the rehearsal of their controller failed and their objects do not confirm that
// the host was created. It is unknown whether these machines remain, so the adopting user must accept their
// replacement.
func (p *play) doubts(out *Adoption) error {
	unknown := map[string]bool{}
	for _, of := range slices.Concat(slices.Collect(maps.Keys(p.unread)), slices.Collect(maps.Keys(p.failed))) {
		if of.what == partsOfHost {
			unknown[of.machine] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		machine, err := p.plan.Machines.Cache().Get(p.namespace, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read machine %s: %w", name, err)
		}
		why, err := p.doubt(machine)
		if err != nil {
			return err
		}
		if why != "" && out.replace(name) {
			out.Notes = append(out.Notes, fmt.Sprintf("machine %s counts as replaced: %s, and its future is unknown",
				name, why))
		}
	}
	return nil
}

// doubt says why the host of a machine may be missing. It is empty if the host exists.
func (p *play) doubt(machine *clusterv1.Machine) (string, error) {
	ref := machine.Spec.InfrastructureRef
	host, err := p.host(machine)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil && machine.Status.Initialization.InfrastructureProvisioned != nil &&
		*machine.Status.Initialization.InfrastructureProvisioned:
		return "", nil
	case err != nil:
		//nolint:nilerr // it is the answer
		return fmt.Sprintf("its %s %s cannot be read, and its own status does not show that its host was created",
			ref.Kind, ref.Name), nil
	}
	var status rkev1.RKEMachineStatus
	text, err := json.Marshal(host.Object["status"])
	if err == nil {
		err = json.Unmarshal(text, &status)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("read the status of %s %s: %w", ref.Kind, ref.Name, err)
	case !machinejob.InDoubt(status):
		return "", nil
	case status.FailureReason != "":
		return fmt.Sprintf("its %s %s reports %s", ref.Kind, ref.Name, status.FailureReason), nil
	}
	return fmt.Sprintf("its %s %s does not show that its host was created", ref.Kind, ref.Name), nil
}

// replace marks a machine as replaced. It returns false for machines that are removed anyway or belong to another
// cluster.
func (a *Adoption) replace(name string) bool {
	at := slices.IndexFunc(a.Machines, func(m AdoptedMachine) bool { return m.Name == name })
	if at < 0 || a.Machines[at].Class == planner.ClassRemove {
		return false
	}
	a.Machines[at].Class = planner.ClassReplace
	if planner.ClassReplace.Stronger(a.Result) {
		a.Result = planner.ClassReplace
	}
	return true
}
