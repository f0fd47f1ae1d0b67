package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// view is a snapshot with the objects it was made from. act writes to these objects.
type view struct {
	snapshot planner.Snapshot
	cluster  *clusterv1.Cluster
	machines map[string]*clusterv1.Machine
	secrets  map[string]*corev1.Secret // plan Secrets by Machine name
	boots    map[string]*rkev1.RKEBootstrap
	// noted is the resource version of Machines up to which an adoption has written its notes, "" without an adoption.
	noted string
	// pausedPools holds paused machine pools by name.
	pausedPools map[string]bool
	// unknown means that Drover does not yet know whether the cluster may use an object it refers to. The handler then
	// decides nothing.
	unknown bool
}

// ours reports whether the cluster has this instance's mark. The controller ignores all others.
func (h *handler) ours(cp *rkev1.RKEControlPlane) (bool, error) {
	cluster, err := clients.Optional(h.ProvisioningClusters.Cache().Get(cp.Namespace, cp.Name))
	if err != nil {
		return false, fmt.Errorf("read the cluster: %w", err)
	}
	return topology.IsOurs(cluster, h.InstanceID), nil
}

// gather reads caches only.
func (h *handler) gather(cp *rkev1.RKEControlPlane) (*view, error) {
	v := &view{
		machines: map[string]*clusterv1.Machine{},
		secrets:  map[string]*corev1.Secret{},
		boots:    map[string]*rkev1.RKEBootstrap{},
		snapshot: planner.Snapshot{
			Now: h.Now(),
			ControlPlane: planner.ControlPlane{
				Namespace: cp.Namespace, Name: cp.Name, Generation: cp.Generation,
				Deleting: cp.DeletionTimestamp != nil,
				Labels:   cp.Labels, Annotations: cp.Annotations, Spec: cp.Spec, Status: planner.Recall(cp),
			},
			Settings: h.Settings(),
			Versions: h.Versions,
			Memo:     h.memoOf(cp),
			Release:  h.Release(cp.Spec.KubernetesVersion),
		},
	}
	// Check the caches before reading them. A cache that catches up in between is then at worst newer than assumed.
	v.snapshot.Behind = h.written.behind(cp.Namespace+"/"+cp.Name, v.snapshot.Now, h.cached(cp))
	for _, read := range []func(*rkev1.RKEControlPlane, *view) error{
		h.gatherCluster, h.gatherConnected, h.gatherPools, h.gatherMachines, h.gatherTokens, h.gatherAgent,
		h.gatherSnapshots, h.gatherObjects,
	} {
		if err := read(cp, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// memoOf returns the stored plans of a cluster. The work queue never processes one cluster twice at a time.
func (h *handler) memoOf(cp *rkev1.RKEControlPlane) *render.Memo {
	memo, _ := h.rendered.LoadOrStore(cp.Namespace+"/"+cp.Name, &render.Memo{})
	return memo.(*render.Memo)
}

// cached returns a function that finds an object the planner may have written.
func (h *handler) cached(cp *rkev1.RKEControlPlane) func(kind, namespace, name string) metav1.Object {
	return func(kind, namespace, name string) metav1.Object {
		switch kind {
		case kindControlPlane:
			return cp
		case kindMachine:
			return found(h.Machines.Cache().Get(namespace, name))
		case kindSecret:
			return found(h.Secrets.Cache().Get(namespace, name))
		case kindBootstrap:
			return found(h.Bootstraps.Cache().Get(namespace, name))
		case kindCluster:
			return found(h.Clusters.Cache().Get(namespace, name))
		}
		return nil
	}
}

// found returns a nil interface if the object is absent, whether by an error or a nil pointer.
func found[T interface {
	comparable
	metav1.Object
}](obj T, err error) metav1.Object {
	var none T
	if err != nil || obj == none {
		return nil
	}
	return obj
}

func (h *handler) gatherCluster(cp *rkev1.RKEControlPlane, v *view) error {
	name := topology.CAPIOwner(cp.OwnerReferences, "Cluster")
	if name == "" {
		return nil
	}
	cluster, err := h.Clusters.Cache().Get(cp.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the CAPI cluster: %w", err)
	}
	v.cluster = cluster
	provisioned := cluster.Status.Initialization.InfrastructureProvisioned
	v.snapshot.Cluster = &planner.Cluster{
		Deleting:                  cluster.DeletionTimestamp != nil,
		Paused:                    topology.IsPaused(cluster, cp),
		PausedBy:                  cluster.Annotations[rkev1.PausedByOperationAnnotation],
		InfrastructureProvisioned: provisioned != nil && *provisioned,
		Initialized: conditions.IsTrueMeta(cluster.Status.Conditions,
			clusterv1.ClusterControlPlaneInitializedCondition),
	}
	return nil
}

func (h *handler) gatherConnected(cp *rkev1.RKEControlPlane, v *view) error {
	cluster, err := h.ManagementClusters.Cache().Get(cp.Spec.ManagementClusterName)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the management cluster: %w", err)
	}
	v.snapshot.Connected = conditions.IsTrue(cluster.Status.Conditions, mgmtv3.ClusterConditionConnected)
	if h.AgentProblem != nil {
		v.snapshot.AgentProblem = h.AgentProblem(cluster)
	}
	v.snapshot.AgentDeployed = conditions.IsTrue(cluster.Status.Conditions, mgmtv3.ClusterConditionAgentDeployed)
	return nil
}

// gatherPools reads from the Cluster the paused machine pools, the requests to move machines and to upgrade agents, and
// the notes of an adoption.
func (h *handler) gatherPools(cp *rkev1.RKEControlPlane, v *view) error {
	v.pausedPools = map[string]bool{}
	cluster, err := h.ProvisioningClusters.Cache().Get(cp.Namespace, cp.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the cluster: %w", err)
	}
	v.snapshot.Roll = planner.ParseRoll(cluster.Annotations[rkev1.RollAnnotation])
	v.snapshot.Agents = planner.AgentRequests{Command: cluster.Annotations[rkev1.AgentUpgradeAnnotation],
		Redeploy: cluster.Spec.RedeploySystemAgentGeneration, Auto: h.AgentsFollow}
	if h.Agent != nil {
		v.snapshot.Agents.Offer = h.Agent()
	}
	v.noted = planstore.NotedVersion(cluster)
	if cluster.Spec.RKEConfig == nil {
		return nil
	}
	for _, pool := range cluster.Spec.RKEConfig.MachinePools {
		if pool.Paused {
			v.pausedPools[pool.Name] = true
		}
	}
	return nil
}

func (h *handler) gatherTokens(cp *rkev1.RKEControlPlane, v *view) error {
	secret, err := h.Secrets.Cache().Get(cp.Namespace, naming.ClusterState(cp.Name))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the cluster state secret: %w", err)
	}
	v.snapshot.Tokens = readTokens(secret)
	return nil
}

// gatherAgent reads the manifest of the agent inside the cluster. Without a manifest there is nothing to install. It
// ignores the manifest of an earlier cluster with the same name, because its agent would use a token of that cluster.
// That manifest is being deleted, and its deletion wakes the cluster.
func (h *handler) gatherAgent(cp *rkev1.RKEControlPlane, v *view) error {
	secret, err := clients.Optional(h.Secrets.Cache().Get(cp.Namespace, naming.ClusterAgent(cp.Name)))
	if err != nil {
		return fmt.Errorf("read the manifest of the cluster's agent: %w", err)
	}
	cluster, err := clients.Optional(h.ProvisioningClusters.Cache().Get(cp.Namespace, cp.Name))
	if err != nil {
		return fmt.Errorf("read the cluster: %w", err)
	}
	if secret == nil || cluster != nil && !topology.Belongs(secret, cluster) {
		v.snapshot.AwaitsAgent = h.ClusterAgents != nil && h.ClusterAgents()
		return nil
	}
	v.snapshot.ClusterAgent.Manifest = string(secret.Data[rkev1.ClusterAgentManifestKey])
	v.snapshot.ClusterAgent.OnlyWay = secret.Annotations[rkev1.ReachedByAgentAnnotation] == "true"
	return nil
}

func (h *handler) gatherMachines(cp *rkev1.RKEControlPlane, v *view) error {
	if v.cluster == nil {
		return nil
	}
	machines, err := h.Machines.Cache().GetByIndex(indexMachinesByCluster, cp.Namespace+"/"+v.cluster.Name)
	if err != nil {
		return fmt.Errorf("list the machines: %w", err)
	}
	for _, machine := range machines {
		ref := machine.Spec.Bootstrap.ConfigRef
		if ref.Kind != "RKEBootstrap" {
			continue
		}
		gathered, err := h.gatherMachine(machine, v)
		if err != nil {
			return err
		}
		v.machines[machine.Name] = machine
		v.snapshot.Machines = append(v.snapshot.Machines, gathered)
	}
	slices.SortFunc(v.snapshot.Machines, func(a, b planner.Machine) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (h *handler) gatherMachine(machine *clusterv1.Machine, v *view) (planner.Machine, error) {
	out := planner.Machine{
		Name:      machine.Name,
		UID:       planstore.UID(machine),
		Labels:    machine.Labels,
		Deleting:  machine.DeletionTimestamp != nil,
		CreatedAt: machine.CreationTimestamp.Time,
		Phase:     machine.Status.Phase,
		InfrastructureReady: conditions.IsTrueMeta(machine.Status.Conditions,
			clusterv1.MachineInfrastructureReadyCondition) || cameAlong(machine),
		NodeName:      machine.Status.NodeRef.Name,
		HasNode:       machine.Status.NodeRef.Name != "" && machine.Status.NodeInfo != nil,
		Provisioned:   machine.Spec.InfrastructureRef.APIGroup == "rke-machine.cattle.io",
		Health:        healthOf(machine),
		Reconciled:    planstore.ReadCondition(machine, rkev1.ConditionReconciled),
		Marks:         planstore.ReadMarks(machine),
		NodeLostSince: planstore.NodeMissedSince(machine, v.cluster),
		NodeUnknown:   planstore.NodeUnknown(machine, v.cluster),
		PoolPaused:    v.pausedPools[machine.Labels[rkev1.MachinePoolNameLabel]],
	}
	addReports(&out, machine)
	addRequests(&out, machine)
	out.NodeUnknownSince = planstore.NodeUnknownSince(machine, v.cluster)
	bootstrap, err := h.Bootstraps.Cache().Get(machine.Namespace, machine.Spec.Bootstrap.ConfigRef.Name)
	if apierrors.IsNotFound(err) {
		return out, nil // without it there is no plan Secret either
	}
	if err != nil {
		return out, fmt.Errorf("read the RKEBootstrap of machine %s: %w", machine.Name, err)
	}
	v.boots[machine.Name] = bootstrap
	out.Annotations = bootstrap.Annotations
	out.ForceRemove = strings.EqualFold(bootstrap.Annotations[rkev1.ForceRemoveEtcdAnnotation], "true")
	if len(bootstrap.Labels) > 0 {
		out.Labels = maps.Clone(bootstrap.Labels)
		maps.Copy(out.Labels, machine.Labels)
	}
	secret, plan, err := h.plans.Find(machine.Namespace, bootstrap.Name)
	if err != nil {
		return out, err
	}
	if plan != nil {
		out.Plan, v.secrets[machine.Name] = plan, secret
	}
	return out, h.gatherDriver(machine, &out)
}

// addReports adds what Cluster API reports about a machine.
func addReports(out *planner.Machine, machine *clusterv1.Machine) {
	out.NodeProblem = nodeProblem(machine)
	if c := conditions.GetMeta(machine.Status.Conditions, clusterv1.PausedCondition); c != nil {
		out.Paused = c.Status == metav1.ConditionTrue
		out.ResumedAt = c.LastTransitionTime.Time
	}
	if machine.Status.NodeInfo != nil {
		out.KubeletVersion = machine.Status.NodeInfo.KubeletVersion
	}
	for _, a := range machine.Status.Addresses {
		out.Addresses = append(out.Addresses, planner.Address{Type: string(a.Type), Address: a.Address})
	}
}

// addRequests adds what the annotations of a Machine request.
func addRequests(out *planner.Machine, machine *clusterv1.Machine) {
	isTrue := func(annotation string) bool { return strings.EqualFold(machine.Annotations[annotation], "true") }
	out.Skip = isTrue(rkev1.RollOutSkipAnnotation)
	out.SkipDrain = isTrue(rkev1.DrainSkipAnnotation)
	out.SkipProof = isTrue(rkev1.EtcdProofSkipAnnotation)
	out.Retry = isTrue(rkev1.RetryAnnotation)
	_, out.PausedByUser = machine.Annotations[clusterv1.PausedAnnotation]
	_, held := machine.Annotations[rkev1.PreTerminateAnnotation]
	out.Held = out.Deleting && held
}

// cameAlong reports whether a machine was moved here without its status. It has a provider ID, which Cluster API sets
// only after the host exists, but Cluster API has not yet seen the host here.
func cameAlong(machine *clusterv1.Machine) bool {
	return machine.Spec.ProviderID != "" && machine.Status.Initialization.InfrastructureProvisioned == nil
}

func (h *handler) gatherDriver(machine *clusterv1.Machine, out *planner.Machine) error {
	if !out.Provisioned {
		return nil
	}
	secret, err := h.Secrets.Cache().Get(machine.Namespace, naming.MachineState(machine.Spec.InfrastructureRef.Name))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the driver state of machine %s: %w", machine.Name, err)
	}
	out.Driver = h.drivers.Of(secret.Namespace+"/"+secret.Name, secret)
	return nil
}

// decodeDriver returns what the driver recorded, nil while that is unreadable. Rendering then waits for it.
func decodeDriver(secret *corev1.Secret) *render.Driver {
	driver, err := render.DecodeDriver(secret.Data[rkev1.MachineStateKey])
	if err != nil {
		return nil
	}
	return driver
}

// healthOf summarizes the conditions of a Machine. It skips the planner's own condition.
func healthOf(machine *clusterv1.Machine) planner.Health {
	health := planner.Health{}
	for _, c := range machine.Status.Conditions {
		switch {
		case c.Type == rkev1.ConditionReconciled:
		case c.Reason == rkev1.ReasonError && c.Status != metav1.ConditionTrue:
			return planner.Health{Failing: true, Message: firstLine(c.Message)}
		case c.Type == clusterv1.MachineReadyCondition && c.Status != metav1.ConditionTrue:
			health = planner.Health{NotReady: true, Message: firstLine(c.Message)}
		}
	}
	return health
}

// nodeProblem returns why Cluster API does not report the Node of a Machine as healthy. It is empty without a report.
func nodeProblem(machine *clusterv1.Machine) string {
	c := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineNodeHealthyCondition)
	if c == nil || c.Status == metav1.ConditionTrue {
		return ""
	}
	return cmp.Or(firstLine(c.Message), c.Reason)
}

// firstLine returns the first item of Cluster API's list. An item such as "NodeHealthy:" has a list of its own.
func firstLine(message string) string {
	line, rest, _ := strings.Cut(message, "\n")
	line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "* "))
	if !strings.HasSuffix(line, ":") {
		return line
	}
	if detail := firstLine(rest); detail != "" {
		return line + " " + detail
	}
	return strings.TrimSuffix(line, ":")
}
