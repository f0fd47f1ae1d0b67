package credentialcheck

import (
	"context"
	"errors"
	"time"

	batchcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/batch/v1"
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/credentialjob"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/topology"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/observe/events"
)

// handlerName is in metrics, do not change.
const handlerName = "credential-check"

// servedSoon is the retry delay until a kind is served, because filling a cache causes no event.
const servedSoon = 5 * time.Second

const (
	// indexByCredential finds Clusters by NAMESPACE/NAME of the credentials of their pools.
	indexByCredential = "drover-by-credential" //nolint:gosec // the name of an index
	// indexBySchema finds Clusters by the names of the DynamicSchemas of their pools' credentials.
	indexBySchema = "drover-by-credential-schema"
	// indexRecords finds records by the credential that they are about.
	indexRecords = "drover-credential-records"
	// indexOwned finds records by the Cluster that created them.
	indexOwned = "drover-credential-records-of-cluster"
	// indexPods finds the pods of a Job.
	indexPods = "drover-credential-pods"
)

// Kinds reads the kinds of node drivers; clients.Dynamic implements it.
type Kinds interface {
	Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	Synced(gvk schema.GroupVersionKind) bool
	OnInformer(f func(schema.GroupVersionKind, cache.SharedIndexInformer))
}

// Access decides which Secrets of other namespaces a cluster may use; access.Checker implements it.
type Access interface {
	Check(cluster *provv1.Cluster, secret types.NamespacedName, annotations map[string]string) (access.Verdict, string)
	OnChange(f func(cluster types.NamespacedName))
}

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Clusters       provcontrollers.ClusterController
	Secrets        corecontrollers.SecretController
	Jobs           batchcontrollers.JobController
	Pods           corecontrollers.PodController
	DynamicSchemas mgmtcontrollers.DynamicSchemaController
	// Machines show failed Jobs, and hosts that became ready.
	Machines capicontrollers.MachineController
	Kinds    Kinds
	// Access decides which Secrets of other namespaces a cluster may use. Required.
	Access Access
	// Settings is called at every reconcile.
	Settings func() credentialjob.Settings
	// Announce records an Event; nil records none.
	Announce func(events.Event)
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Statuses remembers status writes of Clusters. The controllers of Clusters share it. Nil makes a new one.
	Statuses *ownwrites.Statuses
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	clusters provcontrollers.ClusterCache
	secrets  corecontrollers.SecretCache
	jobs     batchcontrollers.JobCache
	pods     corecontrollers.PodCache
	schemas  mgmtcontrollers.DynamicSchemaCache
	machines capicontrollers.MachineCache
}

// Register adds the handler, its indexes and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Statuses == nil {
		d.Statuses = ownwrites.NewStatuses()
	}
	if d.Announce == nil {
		d.Announce = func(events.Event) {}
	}
	h := &handler{Deps: d, clusters: d.Clusters.Cache(), secrets: d.Secrets.Cache(), jobs: d.Jobs.Cache(),
		pods: d.Pods.Cache(), schemas: d.DynamicSchemas.Cache(), machines: d.Machines.Cache()}
	h.index()
	d.Access.OnChange(func(cluster types.NamespacedName) {
		d.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, 0)
	})
	d.Clusters.OnChange(ctx, handlerName, h.onChange)
	return h.wake(ctx)
}

func (h *handler) index() {
	h.clusters.AddIndexer(indexByCredential, func(c *provv1.Cluster) ([]string, error) {
		var keys []string
		for _, reference := range topology.Credentials(c) {
			namespace, name := topology.CredentialSecret(c.Namespace, reference)
			keys = append(keys, namespace+"/"+name)
		}
		return keys, nil
	})
	h.clusters.AddIndexer(provv1.IndexByNodeInfra, func(c *provv1.Cluster) ([]string, error) {
		return topology.InfraKeys(c), nil
	})
	h.clusters.AddIndexer(indexBySchema, func(c *provv1.Cluster) ([]string, error) {
		var names []string
		for _, ref := range topology.ConfigRefs(c) {
			names = append(names, driverschema.CredentialSchema(driverschema.Stem(ref.Kind)))
		}
		return names, nil
	})
	h.secrets.AddIndexer(indexRecords, func(secret *corev1.Secret) ([]string, error) {
		if secret.Type != credentialjob.SecretType {
			return nil, nil
		}
		return []string{secret.Namespace + "/" + secret.Annotations[credentialjob.CredentialAnnotation]}, nil
	})
	h.secrets.AddIndexer(indexOwned, func(secret *corev1.Secret) (keys []string, err error) {
		for _, key := range ownersOf(secret) {
			keys = append(keys, key.Namespace+"/"+key.Name)
		}
		return keys, nil
	})
	h.pods.AddIndexer(indexPods, func(pod *corev1.Pod) ([]string, error) {
		owner := metav1.GetControllerOf(pod)
		if owner == nil || pod.Annotations[credentialjob.CredentialAnnotation] == "" {
			return nil, nil
		}
		return []string{pod.Namespace + "/" + owner.Name}, nil
	})
}

func (h *handler) wake(ctx context.Context) error {
	byConfig := wakeup.ByIndex[*unstructured.Unstructured](h.clusters, provv1.IndexByNodeInfra,
		func(config *unstructured.Unstructured) string {
			ref := topology.ConfigRef{APIVersion: config.GetAPIVersion(), Kind: config.GetKind(),
				Name: config.GetName()}
			return ref.IndexKey(config.GetNamespace())
		})
	h.Kinds.OnInformer(func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
		if gvk.GroupVersion().String() == topology.MachineConfigVersion {
			// It fails only for a stopped informer, whose kind no longer exists.
			_ = wakeup.OnInformer(ctx, h.Clusters, byConfig, informer)
		}
	})
	bySchema := wakeup.ByIndex[*mgmtv3.DynamicSchema](h.clusters, indexBySchema, (*mgmtv3.DynamicSchema).GetName)
	return errors.Join(
		wakeup.On(ctx, h.Clusters, h.ofSecret, h.Secrets),
		wakeup.On(ctx, h.Clusters, func(job *batchv1.Job) []wakeup.Key { return h.ofCheck(job) }, h.Jobs),
		wakeup.On(ctx, h.Clusters, func(pod *corev1.Pod) []wakeup.Key { return h.ofCheck(pod) }, h.Pods),
		wakeup.On(ctx, h.Clusters, bySchema, h.DynamicSchemas),
		wakeup.On(ctx, h.Clusters, h.ofMachine, h.Machines),
	)
}

// ofMachine wakes the cluster of a machine that may contradict a result. Most machines are ready, and so are their
// credentials.
func (h *handler) ofMachine(machine *clusterv1.Machine) []wakeup.Key {
	if !credentialjob.HasCheck(driverschema.Stem(machine.Spec.InfrastructureRef.Kind)) {
		return nil
	}
	seen := evidenceOf(machine)
	if seen.Failed.IsZero() {
		cluster, err := h.clusters.Get(machine.Namespace, machine.Spec.ClusterName)
		if err != nil || seen.Made.IsZero() {
			return nil
		}
		valid := conditions.Get(cluster.Status.Conditions, provv1.ConditionCloudCredentialValid)
		if valid == nil || valid.Status == rkev1.ConditionTrue {
			return nil
		}
	}
	return []wakeup.Key{{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}}
}

// ownersOf returns the Clusters that created a record.
func ownersOf(secret *corev1.Secret) (keys []wakeup.Key) {
	if secret.Type != credentialjob.SecretType {
		return nil
	}
	for _, owner := range secret.OwnerReferences {
		if owner.APIVersion == provv1.SchemeGroupVersion.String() && owner.Kind == "Cluster" {
			keys = append(keys, wakeup.Key{Namespace: secret.Namespace, Name: owner.Name})
		}
	}
	return keys
}

// ofSecret wakes the clusters of a credential, and those of a record.
func (h *handler) ofSecret(secret *corev1.Secret) []wakeup.Key {
	if secret.Type == credentialjob.SecretType {
		return append(h.ofCheck(secret), ownersOf(secret)...)
	}
	return wakeup.Found(h.clusters, indexByCredential, secret.Namespace+"/"+secret.Name)
}

// ofCheck wakes the clusters in the namespace of a record, a Job or a pod that use its credential.
func (h *handler) ofCheck(object metav1.Object) []wakeup.Key {
	var keys []wakeup.Key
	for _, key := range wakeup.Found(h.clusters, indexByCredential,
		object.GetAnnotations()[credentialjob.CredentialAnnotation]) {
		if key.Namespace == object.GetNamespace() {
			keys = append(keys, key)
		}
	}
	return keys
}

func (h *handler) onChange(_ string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if cluster == nil || cluster.DeletionTimestamp != nil || !topology.IsOurs(cluster, h.InstanceID) ||
		h.Statuses.Behind(cluster, h.Now()) {
		return cluster, nil // the event of the newer version requeues it
	}
	facts, err := h.gather(cluster)
	if err != nil || facts.unknown {
		return cluster, err // the answer wakes the cluster
	}
	if facts.unserved {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, servedSoon)
		return cluster, nil
	}
	var errs []error
	for _, record := range facts.abandoned {
		errs = append(errs, h.remove(record))
	}
	for i := range facts.checks {
		after, err := h.act(facts, &facts.checks[i])
		errs = append(errs, err)
		if after > 0 {
			h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, after)
		}
	}
	if facts.again > 0 {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, facts.again)
	}
	updated, err := h.report(facts)
	return updated, errors.Join(append(errs, err)...)
}
