package clusteragent

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/clients"
	"github.com/drover-io/drover/pkg/clustermanifest"
)

const (
	// updaters work on clusters at the same time; each waits for one cluster at most as long as Downstream's clients do.
	updaters = 4
	// againFirst and againLast are how soon an update that failed is tried again.
	againFirst, againLast = 2 * time.Second, 5 * time.Minute
	// fieldManager owns what Drover applies in clusters.
	fieldManager = "drover"
)

// updates keep the agents up to date that are connected. What is installed is read in the cluster itself, once per session and whenever what
// should be has changed, so that nothing is written here about it. An agent that carries no digest is somebody else's, and is left alone.
type updates struct {
	*handler
	//nolint:containedctx // the queue's workers end with it
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu sync.Mutex
	// seen is from which objects it was found out last that a cluster's agent is up to date.
	seen map[types.NamespacedName]string
}

// newUpdates starts the workers, if there is a tunnel. They end with ctx.
func newUpdates(ctx context.Context, h *handler) *updates {
	u := &updates{handler: h, ctx: ctx, seen: map[types.NamespacedName]string{}}
	if h.Tunnel == nil || h.Downstream == nil {
		return u
	}
	u.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](againFirst, againLast))
	context.AfterFunc(ctx, u.queue.ShutDown)
	for range updaters {
		go u.work()
	}
	h.Tunnel.Subscribe(ctx, u.session)
	return u
}

// session is told of a cluster whose agent has come or gone.
func (u *updates) session(id string) {
	for _, key := range u.of(id) {
		name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
		u.mu.Lock()
		delete(u.seen, name)
		u.mu.Unlock()
		u.queue.Add(name)
	}
}

// changed is told of a cluster of which something that its agent depends on may have changed.
func (u *updates) changed(cluster *provv1.Cluster) {
	if u.queue == nil || !u.Tunnel.Connected(cluster.Status.ClusterName) {
		return
	}
	name := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	if facts, err := u.complete(&clustermanifest.Facts{Cluster: cluster}); err == nil && facts != nil && !u.isSeen(name, version(facts)) {
		u.queue.Add(name)
	}
}

// version changes with everything in the management cluster that an agent's manifest is made from.
func version(facts *clustermanifest.Facts) string {
	return fmt.Sprint(facts.Management.UID, "/", facts.Management.Generation, "/", facts.Token)
}

func (u *updates) isSeen(name types.NamespacedName, version string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen[name] == version
}

func (u *updates) work() {
	for {
		name, done := u.queue.Get()
		if done {
			return
		}
		err := u.update(name)
		if err == nil {
			u.queue.Forget(name)
		} else if u.ctx.Err() == nil {
			u.Log.WithError(err).WithField("namespace", name.Namespace).WithField("cluster", name.Name).Warn("The agent of a cluster could not be brought up to date; that is tried again")
			u.queue.AddRateLimited(name)
		}
		u.queue.Done(name)
	}
}

// update brings the agent of a cluster up to date, if one is connected.
func (u *updates) update(name types.NamespacedName) error {
	cluster, err := clients.Optional(u.clusters.Get(name.Namespace, name.Name))
	if err != nil || !u.ours(cluster) || !u.Tunnel.Connected(cluster.Status.ClusterName) {
		return err
	}
	facts, err := u.complete(&clustermanifest.Facts{Cluster: cluster})
	if err != nil || facts == nil || u.isSeen(name, version(facts)) {
		return err
	}
	if facts.PullSecrets, err = u.pullSecrets(facts.Management); err != nil {
		return err
	}
	objects, err := clustermanifest.Desired(u.Source, *facts)
	if err != nil {
		return err
	}
	client, err := u.Downstream.Client(u.ctx, name)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	if err := u.apply(client, name, objects); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen[name] = version(facts)
	return nil
}

// apply applies a manifest, unless it is there already. The Deployment is last: its pods find what they need.
func (u *updates) apply(client kubernetes.Interface, name types.NamespacedName, objects []runtime.Object) error {
	found, err := client.AppsV1().Deployments(clustermanifest.Namespace).Get(u.ctx, clustermanifest.Deployment, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the agent is deployed in another way
	}
	if err != nil {
		return fmt.Errorf("read what the agent is installed with: %w", err)
	}
	if has := found.Annotations[clustermanifest.DigestAnnotation]; has == "" || has == clustermanifest.Digest(objects) {
		return nil
	}
	for _, object := range objects {
		if err := applyTo(u.ctx, client.CoreV1().RESTClient(), object); err != nil {
			return err
		}
	}
	u.Log.WithField("namespace", name.Namespace).WithField("cluster", name.Name).Info("The agent of a cluster is brought up to date")
	return nil
}

// applyTo applies one object. Errors name it, and hold nothing of it.
func applyTo(ctx context.Context, client rest.Interface, object runtime.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("encode what the agent is installed with: %w", err)
	}
	unstructured.RemoveNestedField(content, "status")
	body, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode what the agent is installed with: %w", err)
	}
	applied := unstructured.Unstructured{Object: content}
	resource, _ := meta.UnsafeGuessKindToResource(applied.GroupVersionKind())
	path := []string{"/api", resource.Version}
	if resource.Group != "" {
		path = []string{"/apis", resource.Group, resource.Version}
	}
	if applied.GetNamespace() != "" {
		path = append(path, "namespaces", applied.GetNamespace())
	}
	err = client.Patch(types.ApplyPatchType).AbsPath(append(path, resource.Resource, applied.GetName())...).
		Param("fieldManager", fieldManager).Param("force", "true").Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", applied.GetKind(), applied.GetName(), err)
	}
	return nil
}
