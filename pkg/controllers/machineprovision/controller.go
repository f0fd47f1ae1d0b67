package machineprovision

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/batch/v1"
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	rbaccontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/rbac/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/topology"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/observe/metrics"
)

// handlerName is the id of the apply sets. It is persisted, do not change: another id would orphan every existing
// object.
const handlerName = "machine-provision"

const (
	indexJobsByMachine = "machine-provision-jobs-by-machine"
	indexPodsByJob     = "machine-provision-pods-by-job"
)

// Dynamic reads, writes and wakes objects of kinds that are added at run time; clients.Dynamic implements it.
type Dynamic interface {
	OnChange(name string, matches func(schema.GroupVersionKind) bool, handler clients.DynamicHandler)
	Update(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	UpdateStatus(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	EnqueueAfter(gvk schema.GroupVersionKind, namespace, name string, after time.Duration)
	Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
}

// Applier applies the set of a machine's account and rights; applyset.Set implements it.
type Applier interface {
	Watch(kinds ...schema.GroupVersionKind) error
	Apply(ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs,
		kinds []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error)
	Purge(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
		kinds []schema.GroupVersionKind) (applyset.Result, error)
}

// SecretApplier applies the set of a machine's Secrets; applyset.Secrets implements it.
type SecretApplier interface {
	Apply(ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs,
		desired []*corev1.Secret) (applyset.Result, error)
}

// Access decides which Secrets of other namespaces a cluster may use; access.Checker implements it.
type Access interface {
	Check(cluster *provv1.Cluster, secret types.NamespacedName, annotations map[string]string) (access.Verdict, string)
	OnChange(f func(cluster types.NamespacedName))
}

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Dynamic      Dynamic
	Machines     capicontrollers.MachineController
	CAPIClusters capicontrollers.ClusterController
	Clusters     provcontrollers.ClusterController
	Bootstraps   rkecontrollers.RKEBootstrapController
	NodeDrivers  mgmtcontrollers.NodeDriverController
	Jobs         batchcontrollers.JobController
	Pods         corecontrollers.PodController
	Secrets      corecontrollers.SecretController
	Apply        Applier
	ApplySecrets SecretApplier
	// Roles and RoleBindings show whether the namespace of a machine has the Role that operators may create. If one of
	// them is nil, the Role is bound in any case. With ServiceAccounts, they restore deleted rights of a running
	// removal. What is nil is not restored.
	Roles           rbaccontrollers.RoleController
	RoleBindings    rbaccontrollers.RoleBindingController
	ServiceAccounts corecontrollers.ServiceAccountController
	// Access decides which Secrets of other namespaces a cluster may use. Required.
	Access Access
	// Output returns the log of an ended pod. Nil means that only its termination message is kept.
	Output func(ctx context.Context, namespace, pod string) ([]byte, error)
	// Settings is called at every reconcile.
	Settings func() machinejob.Settings
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Disruptions counts machines that failed and are replaced; nil counts nothing.
	Disruptions *metrics.Disruptions
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx          context.Context
	machines     capicontrollers.MachineCache
	capiClusters capicontrollers.ClusterCache
	clusters     provcontrollers.ClusterCache
	bootstraps   rkecontrollers.RKEBootstrapCache
	nodeDrivers  mgmtcontrollers.NodeDriverCache
	jobs         batchcontrollers.JobCache
	pods         corecontrollers.PodCache
	secrets      corecontrollers.SecretCache
	roles        rbaccontrollers.RoleCache           // may be nil
	bindings     rbaccontrollers.RoleBindingCache    // may be nil
	accounts     corecontrollers.ServiceAccountCache // may be nil
	written      *ownwrites.Log
	counted      counted
	backoff      backoff
}

// setKinds returns the kinds of objects in the set. It excludes the Job, which is created once and never changed.
func setKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		rbacv1.SchemeGroupVersion.WithKind("Role"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	}
}

// Register adds the handler, its indexes and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Access == nil {
		return fmt.Errorf("register %s: Deps.Access is required", handlerName)
	}
	h := newHandler(ctx, d)
	if err := d.Apply.Watch(setKinds()...); err != nil {
		return fmt.Errorf("register %s: %w", handlerName, err)
	}
	d.Dynamic.OnChange(handlerName, isMachine, h.onChange)
	d.Access.OnChange(func(cluster types.NamespacedName) {
		for _, key := range h.ofCluster(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace,
			Name: cluster.Name}}) {
			target{d.Dynamic}.EnqueueAfter(key.Namespace, key.Name, 0)
		}
	})
	return h.wake(ctx)
}

func newHandler(ctx context.Context, d Deps) *handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	h := &handler{
		Deps: d, ctx: ctx, machines: d.Machines.Cache(), capiClusters: d.CAPIClusters.Cache(),
		clusters:   d.Clusters.Cache(),
		bootstraps: d.Bootstraps.Cache(), nodeDrivers: d.NodeDrivers.Cache(), jobs: d.Jobs.Cache(),
		pods: d.Pods.Cache(), secrets: d.Secrets.Cache(),
		written: ownwrites.New(),
	}
	if d.Roles != nil && d.RoleBindings != nil {
		h.roles, h.bindings = d.Roles.Cache(), d.RoleBindings.Cache()
	}
	if d.ServiceAccounts != nil {
		h.accounts = d.ServiceAccounts.Cache()
	}
	h.backoff.clusterUID = h.clusterUID
	h.machines.AddIndexer(planstore.ByCluster, planstore.IndexByCluster)
	h.jobs.AddIndexer(indexJobsByMachine, func(job *batchv1.Job) ([]string, error) { return jobKeys(job), nil })
	h.pods.AddIndexer(indexPodsByJob, func(pod *corev1.Pod) ([]string, error) {
		if name := pod.Labels[batchv1.JobNameLabel]; name != "" &&
			pod.Annotations[machinejob.InfraMachineAnnotation] != "" {
			return []string{pod.Namespace + "/" + name}, nil
		}
		return nil, nil
	})
	return h
}

// clusterUID returns the UID of a CAPI Cluster, "" if it does not exist.
func (h *handler) clusterUID(namespace, name string) types.UID {
	cluster, err := h.capiClusters.Get(namespace, name)
	if err != nil {
		return "" // it does not exist, which is a cache's only error
	}
	return cluster.UID
}

func isMachine(gvk schema.GroupVersionKind) bool {
	_, ok := driverschema.DriverOf(gvk.Kind)
	return ok && gvk.Group == driverschema.MachineGroup
}

// jobKeys returns the key of the machine that a Job belongs to, if any.
func jobKeys(job *batchv1.Job) []string {
	name := job.Annotations[machinejob.InfraMachineAnnotation]
	if name == "" {
		return nil
	}
	return []string{machineKey(job.Labels[rkev1.InfraMachineKindLabel], job.Namespace, name)}
}

func machineKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// target wakes machines. A key's name is KIND/NAME, because machines have many kinds.
type target struct{ Dynamic }

// EnqueueAfter requeues a machine.
func (t target) EnqueueAfter(namespace, name string, after time.Duration) {
	kind, name, ok := strings.Cut(name, "/")
	if ok {
		t.Dynamic.EnqueueAfter(gvkOf(kind), namespace, name, after)
	}
}

func gvkOf(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: driverschema.MachineGroup, Version: driverschema.Version, Kind: kind}
}

func keyOf(namespace, kind, name string) []wakeup.Key {
	if !isMachine(gvkOf(kind)) || name == "" {
		return nil
	}
	return []wakeup.Key{{Namespace: namespace, Name: kind + "/" + name}}
}

func (h *handler) wake(ctx context.Context) error {
	to := target{h.Dynamic}
	return errors.Join(
		wakeup.On(ctx, to, ofMachine, h.Machines),
		wakeup.On(ctx, to, h.ofBootstrap, h.Bootstraps),
		wakeup.On(ctx, to, h.ofCluster, h.CAPIClusters),
		wakeup.On(ctx, to, h.ofMark, h.Clusters),
		wakeup.On(ctx, to, func(job *batchv1.Job) []wakeup.Key {
			return keyOf(job.Namespace, job.Labels[rkev1.InfraMachineKindLabel],
				job.Annotations[machinejob.InfraMachineAnnotation])
		}, h.Jobs),
		wakeup.On(ctx, to, func(pod *corev1.Pod) []wakeup.Key {
			return keyOf(pod.Namespace, pod.Labels[rkev1.InfraMachineKindLabel],
				pod.Annotations[machinejob.InfraMachineAnnotation])
		}, h.Pods),
		wakeup.On(ctx, to, ofSecret, h.Secrets),
		h.wakeWithRights(ctx),
	)
}

// wakeWithRights adds wake-ups that restore the rights of a running removal.
func (h *handler) wakeWithRights(ctx context.Context) error {
	to, errs := target{h.Dynamic}, []error(nil)
	if h.roles != nil {
		errs = append(errs, wakeup.On(ctx, to, ofDeleted[*rbacv1.Role], h.Roles),
			wakeup.On(ctx, to, ofDeleted[*rbacv1.RoleBinding], h.RoleBindings))
	}
	if h.accounts != nil {
		errs = append(errs, wakeup.On(ctx, to, ofDeleted[*corev1.ServiceAccount], h.ServiceAccounts))
	}
	return errors.Join(errs...)
}

func ofMachine(machine *clusterv1.Machine) []wakeup.Key {
	ref := machine.Spec.InfrastructureRef
	if ref.APIGroup != driverschema.MachineGroup {
		return nil
	}
	return keyOf(machine.Namespace, ref.Kind, ref.Name)
}

// ofBootstrap wakes the machine that waits for bootstrap data. The Machine may show their name before the cache shows
// the data.
func (h *handler) ofBootstrap(bootstrap *rkev1.RKEBootstrap) []wakeup.Key {
	if bootstrap.Status.DataSecretName == nil {
		return nil
	}
	machine, err := h.machines.Get(bootstrap.Namespace, topology.CAPIOwner(bootstrap.OwnerReferences, "Machine"))
	if err != nil {
		return nil // the event of the Machine wakes it
	}
	return ofMachine(machine)
}

func (h *handler) ofCluster(cluster *clusterv1.Cluster) []wakeup.Key {
	return h.ofMachines(cluster, func(*clusterv1.Machine) bool { return true })
}

// ofMark wakes machines that are being created, which may wait for the mark of their cluster. It also wakes those that
// are being deleted, whose hosts the protection of their cluster may hold. For some of these the Machine stays.
func (h *handler) ofMark(cluster *provv1.Cluster) []wakeup.Key {
	return h.ofMachines(cluster, func(machine *clusterv1.Machine) bool {
		provisioned := machine.Status.Initialization.InfrastructureProvisioned
		if machine.DeletionTimestamp != nil || provisioned == nil || !*provisioned {
			return true
		}
		ref := machine.Spec.InfrastructureRef
		host, err := h.Dynamic.Get(gvkOf(ref.Kind), machine.Namespace, ref.Name)
		return err == nil && host.GetDeletionTimestamp() != nil
	})
}

// ofMachines returns the hosts of the wanted machines of a cluster.
func (h *handler) ofMachines(cluster metav1.Object, wanted func(*clusterv1.Machine) bool) []wakeup.Key {
	machines, err := planstore.MachinesOf(h.machines, cluster.GetNamespace(), cluster.GetName())
	if err != nil {
		return nil // the index is registered above
	}
	var keys []wakeup.Key
	for _, machine := range machines {
		if wanted(machine) {
			keys = append(keys, ofMachine(machine)...)
		}
	}
	return keys
}

// ofSecret wakes a machine when the driver has written its state, and when the output of its Jobs is kept.
func ofSecret(secret *corev1.Secret) []wakeup.Key {
	if secret.Type == rkev1.SecretTypeMachineState || secret.Type == rkev1.SecretTypeMachineOutput {
		return ofOwned(secret)
	}
	return ofDeleted(secret)
}

// ofDeleted wakes a machine when another of its objects is deleted, which the pods of a running removal may need.
func ofDeleted[T wakeup.Object](object T) []wakeup.Key {
	if object.GetDeletionTimestamp() == nil {
		return nil
	}
	return ofOwned(object)
}

func ofOwned(object metav1.Object) []wakeup.Key {
	for _, owner := range object.GetOwnerReferences() {
		if schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group == driverschema.MachineGroup {
			return keyOf(object.GetNamespace(), owner.Kind, owner.Name)
		}
	}
	return nil
}

func (h *handler) onChange(gvk schema.GroupVersionKind, _ string, obj *unstructured.Unstructured) error {
	if obj == nil || h.written.Behind(obj, h.Now()) {
		return nil
	}
	obj = obj.DeepCopy()
	obj.SetGroupVersionKind(gvk)
	snapshot, ours, err := h.gather(obj)
	if err != nil || !ours {
		return err
	}
	if err := h.keepOutput(obj, snapshot); err != nil {
		return err
	}
	decision := machinejob.Decide(snapshot)
	done, err := h.act(obj, decision)
	if err != nil {
		return err
	}
	if !done {
		h.Dynamic.EnqueueAfter(gvk, obj.GetNamespace(), obj.GetName(), staleRetry)
		return nil
	}
	if decision.After > 0 {
		h.Dynamic.EnqueueAfter(gvk, obj.GetNamespace(), obj.GetName(), decision.After)
	}
	if err := h.report(obj, snapshot, decision); err != nil {
		return err
	}
	h.backoff.note(obj, snapshot, decision)
	return nil
}
