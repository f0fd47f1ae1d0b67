package edit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/hostremoval"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// What happens to the host of a machine when its cluster is deleted.
const (
	// HostRemoved means that the driver or another provider removes the host.
	HostRemoved = "Removed"
	// HostCleaned means that the agent removes the distribution, its data and itself from an existing host.
	HostCleaned = "Cleaned"
	// HostStays means that an existing host keeps everything, and that its processes continue to run.
	HostStays = "Stays"
)

// Removal is what the deletion of a cluster does.
type Removal struct {
	// Cluster is the cluster's namespace and name, as NAMESPACE/NAME.
	Cluster string `json:"cluster"`
	// Machines by pool and name.
	Machines []Leaving `json:"machines,omitempty"`
	// Goes lists what else is deleted. Stays lists what remains, and needs a user to remove it.
	Goes  []string `json:"goes,omitempty"`
	Stays []string `json:"stays,omitempty"`
	// Blocks lists what will hold the deletion until a user or another program acts.
	Blocks []string `json:"blocks,omitempty"`
	// Refused says why the cluster cannot be deleted. It is empty if it can.
	Refused string `json:"refused,omitempty"`
	// Deleting is true if the deletion has begun.
	Deleting bool `json:"deleting,omitempty"`
	// Notes say what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Leaving is a machine of a cluster that is deleted.
type Leaving struct {
	Name  string `json:"name"`
	Pool  string `json:"pool,omitempty"`
	Roles string `json:"roles,omitempty"`
	// Host is Removed, Cleaned or Stays.
	Host string `json:"host"`
}

// Belongings are the objects of a cluster that its deletion concerns.
type Belongings struct {
	Cluster  *provv1.Cluster
	Machines []*clusterv1.Machine
	// Local and Remote are the numbers of snapshots on machines, and in S3.
	Local, Remote int
	// Notes say what could not be read.
	Notes []string
}

// RemovalOf describes the deletion of a cluster.
func RemovalOf(b Belongings) Removal {
	c := b.Cluster
	r := Removal{Cluster: nameOf(c), Notes: b.Notes, Deleting: c.DeletionTimestamp != nil}
	if c.Annotations[rkev1.ProtectAnnotation] == "true" {
		r.Refused = fmt.Sprintf("cluster %s is protected: remove its annotation %s first", r.Cluster,
			rkev1.ProtectAnnotation)
	}
	for _, m := range b.Machines {
		r.Machines = append(r.Machines, Leaving{Name: m.Name, Pool: m.Labels[rkev1.MachinePoolNameLabel],
			Roles: planner.RolesText(m.Labels), Host: hostOf(c, m)})
		r.Blocks = append(r.Blocks, hooks(m)...)
	}
	slices.SortFunc(r.Machines, func(a, b Leaving) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Name, b.Name))
	})
	r.others(b)
	if c.Annotations[rkev1.InstanceAnnotation] == "" && len(c.Finalizers) > 0 {
		r.Blocks = append(r.Blocks,
			"no Drover manages the cluster: drover adopt "+c.Name+" shows what adoption changes")
	}
	r.Blocks = append(foreign("Cluster "+r.Cluster, c), r.Blocks...)
	return r
}

// others describes what is not a machine.
func (r *Removal) others(b Belongings) {
	c := b.Cluster
	if c.Status.ClusterName != "" {
		r.Goes = append(r.Goes, "the management Cluster "+c.Status.ClusterName+", with its tokens and its kubeconfig")
	}
	keeps := slices.ContainsFunc(r.Machines, func(m Leaving) bool { return m.Host == HostStays })
	if keeps {
		r.Stays = append(r.Stays, "the existing hosts with their data: RKE2 or K3s continues to run there; annotation "+
			rkev1.CleanHostAnnotation+"=true on the Cluster cleans them")
	}
	switch {
	case b.Local == 0:
	case keeps:
		r.Goes = append(r.Goes, fmt.Sprintf("the objects of %d snapshots on machines; their files stay on hosts "+
			"that stay",
			b.Local))
	default:
		r.Goes = append(r.Goes, fmt.Sprintf("%d snapshots on the machines", b.Local))
	}
	if b.Remote > 0 {
		r.Goes = append(r.Goes, fmt.Sprintf("the objects of %d snapshots in S3", b.Remote))
		r.Stays = append(r.Stays, fmt.Sprintf("the files of %d snapshots in S3", b.Remote))
	}
	if secret := c.Spec.CloudCredentialSecretName; secret != "" {
		r.Stays = append(r.Stays, "the credential "+secret)
	}
}

// hostOf says what happens to the host of a machine.
func hostOf(c *provv1.Cluster, m *clusterv1.Machine) string {
	if m.Spec.InfrastructureRef.Kind != "CustomMachine" {
		return HostRemoved
	}
	cleaning := hostremoval.Cleaning{Machine: m.Annotations[rkev1.CleanHostAnnotation],
		Cluster: c.Annotations[rkev1.CleanHostAnnotation], ClusterGoing: true}
	if cleaning.IsWanted() {
		return HostCleaned
	}
	return HostStays
}

// hooks lists the hooks of other programs that hold the deletion of a machine.
func hooks(m *clusterv1.Machine) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m.Annotations)) {
		isHook := strings.HasPrefix(key, clusterv1.PreDrainDeleteHookAnnotationPrefix) ||
			strings.HasPrefix(key, clusterv1.PreTerminateDeleteHookAnnotationPrefix)
		if isHook && key != rkev1.PreTerminateAnnotation {
			out = append(out, "Machine "+m.Name+" has the hook "+key+" of another program")
		}
	}
	return append(out, foreign("Machine "+m.Name, m)...)
}

// foreign lists the finalizers that neither Drover nor a program that Drover works with removes.
func foreign(name string, object metav1.Object) []string {
	var out []string
	for _, finalizer := range object.GetFinalizers() {
		if remover, known := topology.FinalizerRemover(finalizer); !known {
			out = append(out, name+" has the finalizer "+finalizer+": "+remover)
		}
	}
	return out
}

// Preconditions returns the options of a deletion of exactly the version of the Cluster that the user has seen.
func Preconditions(seen *provv1.Cluster) ([]byte, error) {
	data, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the deletion: %w", err)
	}
	return data, nil
}
