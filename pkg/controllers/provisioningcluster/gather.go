package provisioningcluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// facts holds the cached facts about one cluster. Absent objects are nil.
type facts struct {
	input        topology.Input
	capiCluster  *clusterv1.Cluster
	controlPlane *rkev1.RKEControlPlane
	// unserved lists kinds of machine configs and templates that have a schema, but whose objects cannot be read yet.
	unserved []string
	// denied lists the references to Secrets of other namespaces that the cluster may not use. unknown means that the
	// answer is missing.
	denied  field.ErrorList
	unknown bool
	// told lists the problems for which safe values are used.
	told field.ErrorList
	// rival is another manager that may claim an unclaimed cluster.
	rival string
	// unanswered says why the answer about Secrets is missing, if that lasts.
	unanswered string
	// machines holds the machines of a deleted cluster, sorted by name.
	machines []*clusterv1.Machine
	now      time.Time
	// deployments holds the MachineDeployments of a live cluster.
	deployments []*clusterv1.MachineDeployment
}

// hasChildren reports whether objects exist for the cluster.
func (f *facts) hasChildren() bool { return f.capiCluster != nil || f.controlPlane != nil }

// judge returns the problems of the cluster. It moves those of an existing cluster with safe values to told.
func (f *facts) judge() field.ErrorList {
	var problems field.ErrorList
	problems, f.told = Problems(f.input, f.controlPlane != nil)
	return append(slices.Clone(f.denied), problems...)
}

func (h *handler) gather(cluster *provv1.Cluster) (*facts, error) {
	seen := &facts{input: topology.Input{Cluster: cluster}, now: h.Now()}
	var err error
	if seen.capiCluster, err = clients.Optional(h.capiClusters.Get(cluster.Namespace, cluster.Name)); err != nil {
		return nil, fmt.Errorf("read Cluster API cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if seen.controlPlane, err = clients.Optional(h.controlPlanes.Get(cluster.Namespace, cluster.Name)); err != nil {
		return nil, fmt.Errorf("read control plane %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return seen, h.gatherMachines(seen)
	}
	if err := h.gatherLive(seen); err != nil {
		return nil, err
	}
	if err := h.gatherSchemas(&seen.input); err != nil {
		return nil, err
	}
	h.gatherServed(seen)
	if seen.deployments, err = h.gatherReplicas(&seen.input); err != nil {
		return nil, err
	}
	for _, gather := range []func(*topology.Input) error{
		h.gatherConfigs, h.gatherCredentials, h.gatherRegistered, h.gatherRestore,
	} {
		if err := gather(&seen.input); err != nil {
			return nil, err
		}
	}
	return seen, h.gatherAccess(seen)
}

// gatherServed finds kinds of drivers that cannot be read yet. It runs before their objects are read, because a cache
// that fills in between must not make them appear absent.
func (h *handler) gatherServed(seen *facts) {
	for _, ref := range topology.ConfigRefs(seen.input.Cluster) {
		if seen.input.Schemas[ref.SchemaName()] == nil {
			continue
		}
		for _, gvk := range []schema.GroupVersionKind{ref.GVK(), ref.TemplateGVK()} {
			if !h.DynamicKinds.Synced(gvk) {
				seen.unserved = append(seen.unserved, gvk.Kind)
			}
		}
	}
}

// gatherAccess finds out which Secrets of other namespaces the cluster may use. For a denied Secret it reveals nothing
// else, not even whether it exists.
func (h *handler) gatherAccess(seen *facts) error {
	cluster := seen.input.Cluster
	for _, ref := range tenancy.References(cluster) {
		secret, err := clients.Optional(h.secrets.Get(ref.Namespace, ref.Name))
		if err != nil {
			return fmt.Errorf("read Secret %s: %w", ref, err)
		}
		var annotations map[string]string
		if secret != nil {
			annotations = secret.Annotations
		}
		switch verdict, because := h.Access.Check(cluster, ref.NamespacedName, annotations); verdict {
		case access.Unknown:
			seen.unknown, seen.unanswered = true, cmp.Or(seen.unanswered, because)
		case access.Allowed:
		case access.Denied:
			seen.denied = append(seen.denied, &field.Error{Type: field.ErrorTypeForbidden, Field: ref.Field, Detail: because})
			for reference := range seen.input.Credentials {
				if namespace, name := topology.CredentialSecret(cluster.Namespace, reference); namespace == ref.Namespace && name == ref.Name {
					seen.input.Credentials[reference] = true
				}
			}
		}
	}
	return nil
}

// gatherLive asks the API server whether an unclaimed cluster has children, and whether another manager is about to
// create them. No later event corrects this decision: Drover would claim another manager's cluster because the caches
// lack its children.
func (h *handler) gatherLive(seen *facts) error {
	cluster := seen.input.Cluster
	if topology.Owner(cluster, h.InstanceID, seen.hasChildren()) != topology.Unclaimed {
		return nil
	}
	if err := h.readLive(seen); err != nil || seen.hasChildren() || h.Rival == nil {
		return err
	}
	var err error
	if seen.rival, err = h.Rival(h.ctx); err != nil {
		return fmt.Errorf("claim cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return nil
}

// gatherLeft asks the API server whether a deleted cluster still has objects that the caches lack, because a recent
// object would otherwise remain forever. It asks only if no object is known to be in deletion.
func (h *handler) gatherLeft(seen *facts) error {
	if seen.capiCluster != nil || len(seen.machines) > 0 || seen.controlPlane != nil && !seen.controlPlane.DeletionTimestamp.IsZero() {
		return nil
	}
	return h.readLive(seen)
}

func (h *handler) readLive(seen *facts) error {
	cluster := seen.input.Cluster
	var err error
	if seen.capiCluster, err = clients.Optional(h.CAPIClusters.Get(cluster.Namespace, cluster.Name, metav1.GetOptions{})); err != nil {
		return fmt.Errorf("get Cluster API cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if seen.controlPlane, err = clients.Optional(h.ControlPlanes.Get(cluster.Namespace, cluster.Name, metav1.GetOptions{})); err != nil {
		return fmt.Errorf("get control plane %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return nil
}

func (h *handler) gatherConfigs(in *topology.Input) error {
	in.MachineConfigs = map[topology.ConfigRef]*unstructured.Unstructured{}
	for _, ref := range topology.ConfigRefs(in.Cluster) {
		config, err := clients.Optional(h.DynamicKinds.Get(ref.GVK(), in.Cluster.Namespace, ref.Name))
		if err != nil {
			return fmt.Errorf("read %s %s/%s: %w", ref.Kind, in.Cluster.Namespace, ref.Name, err)
		}
		if config != nil {
			in.MachineConfigs[ref] = config
		}
	}
	return nil
}

func (h *handler) gatherSchemas(in *topology.Input) error {
	in.Schemas = map[string]*mgmtv3.DynamicSchemaSpec{}
	for _, ref := range topology.ConfigRefs(in.Cluster) {
		found, err := clients.Optional(h.dynamicSchemas.Get(ref.SchemaName()))
		if err != nil {
			return fmt.Errorf("read dynamic schema %s: %w", ref.SchemaName(), err)
		}
		if found != nil {
			in.Schemas[ref.SchemaName()] = &found.Spec
		}
	}
	return nil
}

func (h *handler) gatherCredentials(in *topology.Input) error {
	in.Credentials = map[string]bool{}
	for _, reference := range topology.Credentials(in.Cluster) {
		namespace, name := topology.CredentialSecret(in.Cluster.Namespace, reference)
		found, err := clients.Optional(h.secrets.Get(namespace, name))
		if err != nil {
			return fmt.Errorf("read credential %s/%s: %w", namespace, name, err)
		}
		in.Credentials[reference] = found != nil
	}
	return nil
}

func (h *handler) gatherReplicas(in *topology.Input) ([]*clusterv1.MachineDeployment, error) {
	selector := labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: in.Cluster.Name})
	found, err := h.deployments.List(in.Cluster.Namespace, selector)
	if err != nil {
		return nil, fmt.Errorf("list machine deployments of %s/%s: %w", in.Cluster.Namespace, in.Cluster.Name, err)
	}
	in.Replicas, in.Roles = map[string]int32{}, map[string]topology.Servers{}
	for _, deployment := range found {
		if deployment.Spec.Replicas != nil {
			in.Replicas[deployment.Name] = *deployment.Spec.Replicas
		}
		if max(in.Replicas[deployment.Name], ptr.Deref(deployment.Status.Replicas, 0)) > 0 {
			in.Roles[deployment.Name] = topology.RolesOf(deployment.Spec.Template.Labels)
		}
	}
	return found, nil
}

// gatherRegistered reads the roles of machines without a pool, if the cluster depends on them. The roles of pools are
// known.
func (h *handler) gatherRegistered(in *topology.Input) error {
	if !topology.CountsRegistered(in.Cluster) && !topology.CountsRegistered(topology.KeepRoles(*in).Cluster) {
		return nil
	}
	selector := labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: in.Cluster.Name})
	found, err := h.machines.List(in.Cluster.Namespace, selector)
	if err != nil {
		return fmt.Errorf("list machines of %s/%s: %w", in.Cluster.Namespace, in.Cluster.Name, err)
	}
	for _, machine := range found {
		if registered(machine) {
			if machine.Labels[rkev1.EtcdRoleLabel] == rkev1.RoleLabelValue {
				in.Registered.Etcd = true
				in.RegisteredMembers++
			}
			in.Registered.ControlPlane = in.Registered.ControlPlane || machine.Labels[rkev1.ControlPlaneRoleLabel] == rkev1.RoleLabelValue
		}
	}
	return nil
}

// gatherRestore finds out whether nodes may be down because of a restore.
func (h *handler) gatherRestore(in *topology.Input) error {
	controlPlane, err := clients.Optional(h.controlPlanes.Get(in.Cluster.Namespace, in.Cluster.Name))
	if err != nil {
		return fmt.Errorf("read control plane %s/%s: %w", in.Cluster.Namespace, in.Cluster.Name, err)
	}
	in.Restoring = controlPlane != nil && planner.Restoring(controlPlane)
	return nil
}

// registered reports that a machine belongs to no pool and is not being deleted.
func registered(machine *clusterv1.Machine) bool {
	return machine.DeletionTimestamp.IsZero() && machine.Labels[rkev1.MachinePoolNameLabel] == ""
}

func (h *handler) gatherMachines(seen *facts) error {
	cluster := seen.input.Cluster
	selector := labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: cluster.Name})
	found, err := h.machines.List(cluster.Namespace, selector)
	if err != nil {
		return fmt.Errorf("list machines of %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	seen.machines = slices.Clone(found)
	slices.SortFunc(seen.machines, func(a, b *clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}
