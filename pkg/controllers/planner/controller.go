package planner

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/observe/metrics"
)

// handlerName is persisted, do not change.
const handlerName = "planner"

// Deps holds the controller's dependencies and settings.
type Deps struct {
	// InstanceID marks the clusters of this instance. The controller ignores all others.
	InstanceID string

	ProvisioningClusters provcontrollers.ClusterController
	ControlPlanes        rkecontrollers.RKEControlPlaneController
	Bootstraps           rkecontrollers.RKEBootstrapController
	Clusters             capicontrollers.ClusterController
	Machines             capicontrollers.MachineController
	ManagementClusters   mgmtcontrollers.ClusterController
	Secrets              corecontrollers.SecretController
	ConfigMaps           corecontrollers.ConfigMapController
	// Snapshots are read-only: other programs write them.
	Snapshots rkecontrollers.ETCDSnapshotController

	// Access decides which Secrets of other namespaces a cluster may use. Register requires it. A Reader without it
	// allows all.
	Access Access

	// Release describes a Kubernetes version. It never fails: it describes an unknown version by its neighbors.
	Release func(kubernetesVersion string) distro.Release
	// Settings returns the server-wide settings that plans depend on.
	Settings func() render.Settings
	// ClusterAgents reports whether clusters get an agent with their first plan. That plan then waits for the agent's
	// manifest. Nil means they get none.
	ClusterAgents func() bool
	// AgentProblem returns why the manifest of a cluster's agent cannot be made; nil means that there is no problem.
	AgentProblem func(*mgmtv3.Cluster) string
	// Agent returns the node agent that this server offers to machines, nil without one. AgentsFollow upgrades all
	// agents to it without a request.
	Agent        func() *render.Agent
	AgentsFollow bool
	// MachineStore writes to Machines. Sharing it with package plansecret avoids conflicts. Nil makes a new one.
	MachineStore *planstore.Machines
	// Disruptions counts restarts and drains that have started; nil counts nothing.
	Disruptions *metrics.Disruptions
	// Reasons records what each cluster waits for; nil records nothing.
	Reasons *metrics.Reasons
	// Versions holds the available render versions; the zero value means those of the program.
	Versions render.Versions
	// Log receives messages; nil means the standard logger.
	Log logrus.FieldLogger
	// Now and Random default to the clock and to crypto/rand.
	Now    func() time.Time
	Random io.Reader
}

// Access decides which Secrets of other namespaces a cluster may use; access.Checker implements it.
type Access interface {
	Check(cluster *provv1.Cluster, secret types.NamespacedName, annotations map[string]string) (access.Verdict, string)
	OnChange(f func(cluster types.NamespacedName))
}

// handler is the controller.
type handler struct {
	Deps
	plans   *planstore.Plans
	written *written
	// statuses paces the writes of texts.
	statuses *ownwrites.Statuses
	drivers  *planstore.Memo[corev1.Secret, *render.Driver]
	decoded  *planstore.Memo[rkev1.ETCDSnapshot, planner.ETCDSnapshot]
	// rendered holds the plans of each cluster, by namespace/name of its control plane.
	rendered sync.Map
}

// Register starts planning all clusters of this instance, until ctx ends.
func Register(ctx context.Context, d Deps) error {
	if d.Access == nil {
		return errors.New("Deps.Access is required")
	}
	h := newHandler(d)
	h.addIndexers()
	d.Access.OnChange(func(cluster types.NamespacedName) {
		d.ControlPlanes.EnqueueAfter(cluster.Namespace, cluster.Name, 0)
	})
	if err := h.addWakeUps(ctx); err != nil {
		return err
	}
	d.ControlPlanes.OnChange(ctx, handlerName, h.onChange)
	return nil
}

func newHandler(d Deps) *handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Log == nil {
		d.Log = logrus.StandardLogger()
	}
	if d.MachineStore == nil {
		d.MachineStore = planstore.NewMachines(d.Machines)
	}
	if d.Random == nil {
		d.Random = rand.Reader
	}
	return &handler{
		Deps:    d,
		plans:   planstore.NewPlans(d.Secrets.Cache(), d.Secrets),
		written: newWritten(), statuses: ownwrites.NewStatuses(),
		drivers: planstore.NewMemo(decodeDriver),
		decoded: planstore.NewMemo(decodeSnapshot),
	}
}

// Indexes of caches.
const (
	indexMachinesByCluster      = "planner-machines-by-cluster"
	indexMachinesByState        = "planner-machines-by-state-secret"
	indexControlPlanesByObject  = "planner-control-planes-by-object"
	indexControlPlanesByCluster = "planner-control-planes-by-management-cluster"
	// indexControlPlanesBySnapshot and indexSnapshotsByObject lead from an ETCDSnapshot, and from its credential, to
	// the control planes that restore it.
	indexControlPlanesBySnapshot = "planner-control-planes-by-snapshot"
	indexSnapshotsByObject       = "planner-snapshots-by-object"
)

func (h *handler) addIndexers() {
	h.Machines.Cache().AddIndexer(indexMachinesByCluster, func(m *clusterv1.Machine) ([]string, error) {
		return nonEmpty(m.Namespace, clusterOf(m)), nil
	})
	h.Machines.Cache().AddIndexer(indexMachinesByState, func(m *clusterv1.Machine) ([]string, error) {
		if m.Spec.InfrastructureRef.Name == "" {
			return nil, nil
		}
		return []string{m.Namespace + "/" + naming.MachineState(m.Spec.InfrastructureRef.Name)}, nil
	})
	h.ControlPlanes.Cache().AddIndexer(indexControlPlanesByCluster, func(cp *rkev1.RKEControlPlane) ([]string, error) {
		return nonEmpty("", cp.Spec.ManagementClusterName), nil
	})
	h.ControlPlanes.Cache().AddIndexer(indexControlPlanesByObject, func(cp *rkev1.RKEControlPlane) ([]string, error) {
		return keysOf(render.References(cp.Namespace, &cp.Spec, h.Settings())), nil
	})
	h.ControlPlanes.Cache().AddIndexer(indexControlPlanesBySnapshot, func(cp *rkev1.RKEControlPlane) ([]string, error) {
		var keys []string
		for _, name := range restoreNames(cp) {
			keys = append(keys, cp.Namespace+"/"+name)
		}
		return keys, nil
	})
	h.Snapshots.Cache().AddIndexer(indexSnapshotsByObject, func(s *rkev1.ETCDSnapshot) ([]string, error) {
		return keysOf(render.StorageReferences(s.Namespace, s.SnapshotFile.S3)), nil
	})
}

// keyOf returns the key of a referenced object in indexes.
func keyOf(kind render.ObjectKind, namespace, name string) string {
	return string(kind) + "/" + namespace + "/" + name
}

func keysOf(refs []render.Reference) []string {
	var keys []string
	for _, ref := range refs {
		keys = append(keys, keyOf(ref.Kind, ref.Namespace, ref.Name))
	}
	return keys
}

func nonEmpty(namespace, name string) []string {
	switch {
	case name == "":
		return nil
	case namespace == "":
		return []string{name}
	}
	return []string{namespace + "/" + name}
}

// clusterOf returns the name of a Machine's cluster.
func clusterOf(m *clusterv1.Machine) string {
	if name := m.Labels[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	return m.Spec.ClusterName
}

// addWakeUps covers every cache that gather reads.
func (h *handler) addWakeUps(ctx context.Context) error {
	target := h.ControlPlanes
	controlPlanes := target.Cache()
	return errors.Join(
		wakeup.On(ctx, target, wakeup.BySameName[*provv1.Cluster](), h.ProvisioningClusters),
		wakeup.On(ctx, target, wakeup.BySameName[*clusterv1.Cluster](), h.Clusters),
		wakeup.On(ctx, target, func(m *clusterv1.Machine) []wakeup.Key {
			return []wakeup.Key{{Namespace: m.Namespace, Name: clusterOf(m)}}
		}, h.Machines),
		wakeup.On(ctx, target, func(b *rkev1.RKEBootstrap) []wakeup.Key {
			return []wakeup.Key{{Namespace: b.Namespace, Name: b.Spec.ClusterName}}
		}, h.Bootstraps),
		wakeup.On(ctx, target, wakeup.ByIndex[*mgmtv3.Cluster](controlPlanes, indexControlPlanesByCluster,
			func(c *mgmtv3.Cluster) string { return c.Name }), h.ManagementClusters),
		wakeup.On(ctx, target, wakeup.Any(
			wakeup.ByLabel[*corev1.Secret](rkev1.ClusterNameLabel),
			authorized[*corev1.Secret],
			h.byState,
			wakeup.ByIndex[*corev1.Secret](controlPlanes, indexControlPlanesByObject,
				func(s *corev1.Secret) string { return keyOf(render.KindSecret, s.Namespace, s.Name) }),
			h.bySnapshotCredential,
		), h.Secrets),
		wakeup.On(ctx, target, wakeup.Any(
			authorized[*corev1.ConfigMap],
			wakeup.ByIndex[*corev1.ConfigMap](controlPlanes, indexControlPlanesByObject,
				func(c *corev1.ConfigMap) string { return keyOf(render.KindConfigMap, c.Namespace, c.Name) }),
		), h.ConfigMaps),
		wakeup.On(ctx, target, h.bySnapshot, h.Snapshots),
	)
}

// authorized wakes the clusters that an object's annotation allows to use it.
func authorized[T wakeup.Object](obj T) []wakeup.Key {
	list := obj.GetAnnotations()[rkev1.AuthorizedObjectAnnotation]
	if list == "" {
		return nil
	}
	var keys []wakeup.Key
	for name := range strings.SplitSeq(list, ",") {
		if !strings.Contains(name, "/") { // clusters of other namespaces are found by their references
			keys = append(keys, wakeup.Key{Namespace: obj.GetNamespace(), Name: strings.TrimSpace(name)})
		}
	}
	return keys
}

// byState wakes the cluster of the machine whose driver state the Secret holds.
func (h *handler) byState(secret *corev1.Secret) []wakeup.Key {
	if secret.Type != rkev1.SecretTypeMachineState {
		return nil
	}
	machines, err := h.Machines.Cache().GetByIndex(indexMachinesByState, secret.Namespace+"/"+secret.Name)
	if err != nil {
		return nil
	}
	keys := make([]wakeup.Key, 0, len(machines))
	for _, m := range machines {
		keys = append(keys, wakeup.Key{Namespace: m.Namespace, Name: clusterOf(m)})
	}
	return keys
}
