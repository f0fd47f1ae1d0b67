package provisioningcluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/drover-io/drover/pkg/decide/restoredspec"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// Facts holds the cached facts about one cluster. Absent objects are nil.
type Facts struct {
	input        topology.Input
	capiCluster  *clusterv1.Cluster
	controlPlane *rkev1.RKEControlPlane
	// unserved lists kinds of machine configs and templates that have a schema, but whose objects cannot be read yet.
	// starting means that this process may still fill the caches of existing kinds.
	unserved []string
	starting bool
	// stored is the Cluster as it is stored. The cluster of input also has the configuration that a restore puts back.
	stored   *provv1.Cluster
	restored restoredspec.Result
	// unrestorable says why that configuration cannot be put back.
	unrestorable field.ErrorList
	// denied lists the references to Secrets of other namespaces that the cluster may not use. unknown means that the
	// answer is missing, and unanswered says why, if that lasts.
	denied     field.ErrorList
	unknown    bool
	unanswered string
	// rival is another manager that may claim an unclaimed cluster.
	rival string
	// podSecurity is the Secret with the Pod Security configuration.
	podSecurity *corev1.Secret
	// machines holds the machines of a deleted cluster, sorted by name.
	machines []*clusterv1.Machine
	// deployments holds the MachineDeployments of a live cluster.
	deployments []*clusterv1.MachineDeployment
	now         time.Time
}

// hasChildren reports whether objects exist for the cluster.
func (f *Facts) hasChildren() bool { return f.capiCluster != nil || f.controlPlane != nil }

func (h *handler) gather(cluster *provv1.Cluster) (*Facts, error) {
	facts := &Facts{input: topology.Input{Cluster: cluster}, stored: cluster, now: h.Now()}
	facts.starting = facts.now.Sub(h.registered) < cachesFill
	var err error
	if facts.capiCluster, err = clients.Optional(h.capiClusters.Get(cluster.Namespace, cluster.Name)); err != nil {
		return nil, fmt.Errorf("read Cluster API cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if facts.controlPlane, err = clients.Optional(h.controlPlanes.Get(cluster.Namespace, cluster.Name)); err != nil {
		return nil, fmt.Errorf("read control plane %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return facts, h.gatherMachines(facts)
	}
	if err := h.gatherLive(facts); err != nil {
		return nil, err
	}
	if err := h.gatherRestored(facts); err != nil {
		return nil, err
	}
	if err := h.gatherSchemas(&facts.input); err != nil {
		return nil, err
	}
	h.gatherServed(facts)
	if facts.deployments, err = h.gatherReplicas(&facts.input); err != nil {
		return nil, err
	}
	for _, gather := range []func(*topology.Input) error{
		h.gatherConfigs, h.gatherCredentials, h.gatherProviders, h.gatherRegistered, h.gatherRestore,
		h.gatherPodSecurity,
	} {
		if err := gather(&facts.input); err != nil {
			return nil, err
		}
	}
	if facts.podSecurity, err = h.podSecurity(cluster); err != nil {
		return nil, err
	}
	return facts, h.gatherAccess(facts)
}

// gatherServed finds kinds of drivers that cannot be read yet. It runs before their objects are read, because a cache
// that fills in between must not make them appear absent.
func (h *handler) gatherServed(facts *Facts) {
	for _, ref := range topology.ConfigRefs(facts.input.Cluster) {
		if facts.input.Schemas[ref.SchemaName()] == nil {
			continue
		}
		for _, gvk := range []schema.GroupVersionKind{ref.GVK(), ref.TemplateGVK()} {
			if !h.DynamicKinds.Synced(gvk) {
				facts.unserved = append(facts.unserved, gvk.Kind)
			}
		}
	}
}

// gatherAccess finds out which Secrets of other namespaces the cluster may use. For a denied Secret it reveals nothing
// else, not even whether it exists.
func (h *handler) gatherAccess(facts *Facts) error {
	cluster := facts.input.Cluster
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
			facts.unknown, facts.unanswered = true, cmp.Or(facts.unanswered, because)
		case access.Allowed:
		case access.Denied:
			facts.denied = append(facts.denied,
				&field.Error{Type: field.ErrorTypeForbidden, Field: ref.Field, Detail: because})
			for reference := range facts.input.Credentials {
				if namespace, name := topology.CredentialSecret(cluster.Namespace,
					reference); namespace == ref.Namespace && name == ref.Name {
					facts.input.Credentials[reference] = true
				}
			}
		}
	}
	return nil
}

// gatherLive asks the API server whether an unclaimed cluster has children, and whether another manager is about to
// create them. No later event corrects this decision: Drover would claim another manager's cluster because the caches
// lack its children.
func (h *handler) gatherLive(facts *Facts) error {
	cluster := facts.input.Cluster
	if topology.Owner(cluster, h.InstanceID, facts.hasChildren()) != topology.Unclaimed {
		return nil
	}
	if err := h.readLive(facts); err != nil || facts.hasChildren() {
		return err
	}
	var err error
	if facts.rival, err = h.Rival.Running(h.ctx); err != nil {
		return fmt.Errorf("claim cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return nil
}

// gatherLeft asks the API server whether a deleted cluster still has objects that the caches lack, because a recent
// object would otherwise remain forever. It asks only if no object is known to be in deletion.
func (h *handler) gatherLeft(facts *Facts) error {
	plane := facts.controlPlane
	if facts.capiCluster != nil || len(facts.machines) > 0 || plane != nil && !plane.DeletionTimestamp.IsZero() {
		return nil
	}
	return h.readLive(facts)
}

func (h *handler) readLive(facts *Facts) error {
	cluster := facts.input.Cluster
	var err error
	var live metav1.GetOptions
	facts.capiCluster, err = clients.Optional(h.CAPIClusters.Get(cluster.Namespace, cluster.Name, live))
	if err != nil {
		return fmt.Errorf("get Cluster API cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	facts.controlPlane, err = clients.Optional(h.ControlPlanes.Get(cluster.Namespace, cluster.Name, live))
	if err != nil {
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
			in.Registered.ControlPlane = in.Registered.ControlPlane ||
				machine.Labels[rkev1.ControlPlaneRoleLabel] == rkev1.RoleLabelValue
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

func (h *handler) gatherMachines(facts *Facts) error {
	cluster := facts.input.Cluster
	selector := labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: cluster.Name})
	found, err := h.machines.List(cluster.Namespace, selector)
	if err != nil {
		return fmt.Errorf("list machines of %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	facts.machines = slices.Clone(found)
	slices.SortFunc(facts.machines, func(a, b *clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}
