package clusteragent

import (
	"context"
	"errors"
	"fmt"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Hosts persist handlerName in metrics, do not change.
const handlerName = "cluster-agent"

// indexKeys finds Clusters by the Secret with their endpoint's keys, whether it exists or not.
const indexKeys = "cluster-agent-endpoint-keys"

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Clusters           provcontrollers.ClusterController
	ManagementClusters mgmtcontrollers.ClusterController
	ControlPlanes      rkecontrollers.RKEControlPlaneController
	Secrets            corecontrollers.SecretController
	// Tunnel reports when agents dial in, and Downstream then reaches their clusters. If one is nil, agents are not
	// updated.
	Tunnel     Tunnel
	Downstream proxy.ClientGetter
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Source is what manifests are made from.
	Source clustermanifest.Source
	// Metrics counts the agents that are being replaced; nil counts nothing.
	Metrics *metrics.AgentUpdates
	// Log records changes of manifests, never their content; nil means the standard logger.
	Log logrus.FieldLogger
}

// Tunnel knows the clusters whose agent has dialed in; tunnel.Server implements it.
type Tunnel interface {
	// Connected reports whether an agent of the management cluster with that name is connected here.
	Connected(id string) bool
	// Subscribe calls listener, until ctx ends, with the name of each management cluster whose connection changes.
	Subscribe(ctx context.Context, listener func(id string))
}

type handler struct {
	Deps
	updates       *updates
	clusters      provcontrollers.ClusterCache
	management    mgmtcontrollers.ClusterCache
	controlPlanes rkecontrollers.RKEControlPlaneCache
	secrets       corecontrollers.SecretCache
	// manifests remembers which stored manifests are current.
	manifests clustermanifest.Memo
}

// Register adds the handler, its index and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	h := newHandler(ctx, d)
	d.Clusters.OnChange(ctx, handlerName, h.onChange)
	byManagement := wakeup.ByIndex[*mgmtv3.Cluster](h.clusters, provv1.IndexByCluster, func(c *mgmtv3.Cluster) string {
		return c.Name
	})
	if err := errors.Join(
		wakeup.On(ctx, d.Clusters, byManagement, d.ManagementClusters),
		wakeup.On(ctx, d.Clusters, wakeup.BySameName[*rkev1.RKEControlPlane](), d.ControlPlanes),
		wakeup.On(ctx, d.Clusters, h.ofSecret, d.Secrets),
	); err != nil {
		return fmt.Errorf("watch for agents of clusters: %w", err)
	}
	return nil
}

func newHandler(ctx context.Context, d Deps) *handler {
	if d.Log == nil {
		d.Log = logrus.StandardLogger()
	}
	h := &handler{
		Deps: d, clusters: d.Clusters.Cache(), management: d.ManagementClusters.Cache(),
		controlPlanes: d.ControlPlanes.Cache(), secrets: d.Secrets.Cache(),
	}
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	h.clusters.AddIndexer(indexKeys, byKeys)
	h.updates = newUpdates(ctx, h)
	return h
}

// ofSecret wakes the cluster of a manifest, of an endpoint's keys, or of an agent's token.
func (h *handler) ofSecret(secret *corev1.Secret) []wakeup.Key {
	if keys := h.withKeys(secret); len(keys) > 0 {
		return keys
	}
	if secret.Type == rkev1.SecretTypeClusterAgent {
		return []wakeup.Key{{Namespace: secret.Namespace, Name: secret.Labels[rkev1.ClusterNameLabel]}}
	}
	if name, ok := registration.IsSecretName(secret.Name); !ok || name != naming.SystemRegistrationToken &&
		name != naming.DefaultRegistrationToken {
		return nil
	}
	return h.of(secret.Namespace)
}

// withKeys returns the Clusters whose endpoint has its keys in that Secret. It matches the name, so that deleting a
// Secret that was restored without its label still invalidates the tokens.
func (h *handler) withKeys(secret *corev1.Secret) []wakeup.Key {
	return wakeup.Found(h.clusters, indexKeys, secret.Namespace+"/"+secret.Name)
}

// byKeys returns the keys of indexKeys.
func byKeys(cluster *provv1.Cluster) ([]string, error) {
	return []string{cluster.Namespace + "/" + naming.EndpointKeys(cluster.Name)}, nil
}

// of returns the Clusters of a management cluster.
func (h *handler) of(id string) []wakeup.Key {
	return wakeup.Found(h.clusters, provv1.IndexByCluster, id)
}

func (h *handler) onChange(_ string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if !h.ours(cluster) {
		return cluster, nil
	}
	h.updates.changed(cluster)
	if cluster.Spec.RKEConfig == nil {
		return cluster, nil
	}
	return cluster, errors.Join(h.createKeys(cluster), h.install(cluster))
}

// install writes the manifest of a cluster's agent if it is due.
func (h *handler) install(cluster *provv1.Cluster) error {
	facts, err := h.gather(cluster)
	if err != nil || facts == nil {
		return err // an event of the missing object requeues the Cluster
	}
	if facts.PullSecrets, err = h.pullSecrets(facts.Management); err != nil {
		return err
	}
	secret, err := h.manifests.Install(h.Source, *facts)
	if err != nil {
		return fmt.Errorf("cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if secret == nil {
		return nil
	}
	return h.write(secret, facts.Stored != nil)
}

// write creates or updates a Secret. If the cache is behind, its event requeues the Cluster.
func (h *handler) write(secret *corev1.Secret, exists bool) error {
	write := h.Secrets.Create
	if exists {
		write = h.Secrets.Update
	}
	_, err := write(secret)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause),
		exists && (apierrors.IsConflict(err) || apierrors.IsNotFound(err)):
		return nil
	}
	return fmt.Errorf("write secret %s/%s: %w", secret.Namespace, secret.Name, err)
}

func (h *handler) ours(cluster *provv1.Cluster) bool {
	return cluster != nil && cluster.DeletionTimestamp == nil && cluster.Status.ClusterName != "" &&
		topology.IsOurs(cluster, h.InstanceID)
}

// gather reads the facts for the first manifest. It returns nil while an object is missing, or if there is nothing to
// decide.
func (h *handler) gather(cluster *provv1.Cluster) (*clustermanifest.Facts, error) {
	facts := &clustermanifest.Facts{Cluster: cluster}
	var err error
	if facts.Stored, err = clients.Optional(h.secrets.Get(cluster.Namespace,
		naming.ClusterAgent(cluster.Name))); err != nil {
		return nil, err
	}
	if facts.Stored != nil && !topology.Belongs(facts.Stored, cluster) {
		return nil, nil // it is deleted with the earlier cluster of that name
	}
	kubeconfig, err := clients.Optional(h.secrets.Get(cluster.Namespace, naming.Kubeconfig(cluster.Name)))
	if err != nil {
		return nil, err
	}
	facts.Kubeconfig = kubeconfig != nil
	controlPlane, err := clients.Optional(h.controlPlanes.Get(cluster.Namespace, cluster.Name))
	if err != nil || controlPlane == nil {
		return nil, err
	}
	facts.Initialized = controlPlane.Status.Initialized
	return h.complete(facts)
}

// complete adds what every manifest of a cluster needs, except pull secrets. It returns nil while an object is missing.
func (h *handler) complete(facts *clustermanifest.Facts) (*clustermanifest.Facts, error) {
	var err error
	if facts.Management, err = clients.Optional(h.management.Get(facts.Cluster.Status.ClusterName)); err != nil ||
		facts.Management == nil {
		return nil, err
	}
	token, err := clients.Optional(h.secrets.Get(facts.Management.Name,
		naming.RegistrationTokenSecret(clustermanifest.RegistrationToken(facts.Cluster))))
	if err != nil || token == nil {
		return nil, err
	}
	facts.Token = string(token.Data[registration.KeyToken])
	facts.EndpointKeys, err = clients.Optional(h.secrets.Get(facts.Cluster.Namespace,
		naming.EndpointKeys(facts.Cluster.Name)))
	return facts, err
}

// pullSecrets returns the pull secrets of the installation's registry, for clusters that use it.
func (h *handler) pullSecrets(cluster *mgmtv3.Cluster) ([]clustermanifest.PullSecret, error) {
	return h.Source.ReadPullSecrets(cluster, h.secrets.Get, func(secret types.NamespacedName, problem string) {
		h.Log.WithField("secret", secret.String()).Warn(problem)
	})
}
