package fakecapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// Agent is the user agent of the fake core.
const Agent = "fakecapi"

const (
	// period is how often the core checks for writes.
	period = 100 * time.Millisecond
	// nodesPeriod is how often the core runs without a write while a machine has no node. Nodes are in another API.
	nodesPeriod = time.Second
)

// Options shape a Core. API is required.
type Options struct {
	// API is the management API.
	API *memkube.Server
	// Downstream returns a client of a cluster's own API, or nil while the cluster is unreachable. Without Downstream,
	// no machine finds its node.
	Downstream func(namespace, cluster string) kubernetes.Interface
	// Log, if not nil, receives write errors except conflicts.
	Log func(format string, args ...any)
}

// Core simulates Cluster API's core. New makes it.
type Core struct {
	opts   Options
	client dynamic.Interface
	// seeking is true when the last pass did not find some machine's node.
	seeking bool
}

// New returns a Core that does nothing until Run or Pass is called.
func New(opts Options) (*Core, error) {
	client, err := dynamic.NewForConfig(opts.API.Config(Agent))
	if err != nil {
		return nil, fmt.Errorf("fakecapi: %w", err)
	}
	if opts.Downstream == nil {
		opts.Downstream = func(string, string) kubernetes.Interface { return nil }
	}
	if opts.Log == nil {
		opts.Log = func(string, ...any) {}
	}
	return &Core{opts: opts, client: client}, nil
}

// Run runs the core until the context ends.
func (c *Core) Run(ctx context.Context) {
	seen, last := int64(-1), time.Time{}
	_ = wait.PollUntilContextCancel(ctx, period, false, func(ctx context.Context) (bool, error) {
		if now := c.opts.API.Changes(); now != seen || c.seeking && time.Since(last) >= nodesPeriod {
			seen, last = now, time.Now()
			c.Pass(ctx)
		}
		return false, nil
	})
}

var (
	clusterKind    = clusterv1.GroupVersion.WithKind("Cluster")
	deploymentKind = clusterv1.GroupVersion.WithKind("MachineDeployment")
	setKind        = clusterv1.GroupVersion.WithKind("MachineSet")
	machineKind    = clusterv1.GroupVersion.WithKind("Machine")
)

// Pass handles all objects once.
func (c *Core) Pass(ctx context.Context) {
	c.seeking = false
	for _, u := range c.opts.API.Objects(clusterKind) {
		c.report(u, c.cluster(ctx, as[clusterv1.Cluster](u)))
	}
	for _, u := range c.opts.API.Objects(deploymentKind) {
		c.report(u, c.deployment(ctx, as[clusterv1.MachineDeployment](u)))
	}
	for _, u := range c.opts.API.Objects(setKind) {
		c.report(u, c.set(ctx, as[clusterv1.MachineSet](u)))
	}
	for _, u := range c.opts.API.Objects(machineKind) {
		c.report(u, c.machine(ctx, as[clusterv1.Machine](u)))
	}
}

func (c *Core) report(u *unstructured.Unstructured, err error) {
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		c.opts.Log("fakecapi: %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// paused reports whether a cluster or the object itself is paused. The core then leaves the object alone.
func (c *Core) paused(cluster *clusterv1.Cluster, obj metav1.Object) bool {
	_, annotated := obj.GetAnnotations()[clusterv1.PausedAnnotation]
	return annotated || cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused
}

// clusterOf returns the cluster an object belongs to, or nil.
func (c *Core) clusterOf(namespace, name string) *clusterv1.Cluster {
	u := c.get(clusterKind, namespace, name)
	if u == nil {
		return nil
	}
	return as[clusterv1.Cluster](u)
}

// as converts a stored object into a type.
func as[T any](u *unstructured.Unstructured) *T {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		panic(fmt.Sprintf("fakecapi: read %s %s: %v", u.GetKind(), u.GetName(), err))
	}
	return out
}

// from converts a typed object into a stored one.
func from(obj runtime.Object, gvk schema.GroupVersionKind) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(fmt.Sprintf("fakecapi: encode %s: %v", gvk.Kind, err))
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u
}

// get returns the stored object, or nil.
func (c *Core) get(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	if found, err := c.opts.API.Get(u); err != nil || !found {
		return nil
	}
	return u
}

// kindOf is the kind of a reference, in the version that our CRDs serve.
func kindOf(ref clusterv1.ContractVersionedObjectReference) schema.GroupVersionKind {
	version := "v1"
	return schema.GroupVersionKind{Group: ref.APIGroup, Version: version, Kind: ref.Kind}
}

func (c *Core) resource(u *unstructured.Unstructured) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	return c.client.Resource(plural).Namespace(u.GetNamespace())
}

// update applies change to an object and stores the result if it differs.
func (c *Core) update(ctx context.Context, u *unstructured.Unstructured,
	change func(*unstructured.Unstructured)) error {
	next := u.DeepCopy()
	change(next)
	if equality.Semantic.DeepEqual(u.Object, next.Object) {
		return nil
	}
	_, err := c.resource(next).Update(ctx, next, metav1.UpdateOptions{})
	return err
}

// updateStatus stores the status of a typed object if it differs.
func (c *Core) updateStatus(ctx context.Context, obj runtime.Object, gvk schema.GroupVersionKind) error {
	next := from(obj, gvk)
	now := c.get(gvk, next.GetNamespace(), next.GetName())
	if now == nil || equality.Semantic.DeepEqual(now.Object["status"], next.Object["status"]) {
		return nil
	}
	_, err := c.resource(next).UpdateStatus(ctx, next, metav1.UpdateOptions{})
	return err
}

func (c *Core) delete(ctx context.Context, u *unstructured.Unstructured) error {
	if u.GetDeletionTimestamp() != nil {
		return nil
	}
	return c.resource(u).Delete(ctx, u.GetName(), metav1.DeleteOptions{})
}

// own adds an owner reference and the label of the cluster.
func own(u *unstructured.Unstructured, owner metav1.OwnerReference, cluster string) {
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.ClusterNameLabel] = cluster
	u.SetLabels(labels)
	references := slices.DeleteFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		// The owner reference of a machine replaces that of the set that made its halves.
		return r.UID == owner.UID || owner.Kind == "Machine" && r.Kind == "MachineSet"
	})
	u.SetOwnerReferences(append(references, owner))
}

func reference(obj metav1.Object, kind string, controller bool) metav1.OwnerReference {
	r := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: obj.GetName(),
		UID: obj.GetUID()}
	if controller {
		yes := true
		r.Controller, r.BlockOwnerDeletion = &yes, &yes
	}
	return r
}

func withFinalizer(u *unstructured.Unstructured, name string) {
	if !slices.Contains(u.GetFinalizers(), name) {
		u.SetFinalizers(append(u.GetFinalizers(), name))
	}
}

// hasHook reports whether a hook annotation of a machine still blocks its deletion.
func hasHook(annotations map[string]string, prefix string) bool {
	for key := range annotations {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

func nestedBool(u *unstructured.Unstructured, path ...string) bool {
	value, _, _ := unstructured.NestedBool(u.Object, path...)
	return value
}

func nestedString(u *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(u.Object, path...)
	return value
}
