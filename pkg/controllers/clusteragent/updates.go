package clusteragent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
)

const (
	// updaters is the number of workers. Each waits for one cluster at most as long as Downstream's clients do.
	updaters = 4
	// againFirst and againLast limit the back-off of a failed update.
	againFirst, againLast = 2 * time.Second, 5 * time.Minute
	// checkInterval is how often an up-to-date agent is checked again. A server of RKE2 or K3s that starts reapplies
	// the manifest of its plan, which is the cluster's first one.
	checkInterval = 15 * time.Minute
)

// updates keeps connected agents up to date. It reads the installed version in the cluster itself, once per session and
// after each change of the target, so it stores nothing here. It ignores an agent without a digest, which other
// programs manage. Workers do not wait for a new agent. They apply and continue, and the queue brings the cluster back
// when its agent connects or a check is due.
type updates struct {
	*handler
	// the queue's workers end with it
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	turns *rollout

	mu sync.Mutex
	// seen records at which version a cluster's agent was last found up to date.
	seen map[types.NamespacedName]found
}

type found struct {
	version string
	at      time.Time
}

// newUpdates starts the workers, if there is a tunnel. They end with ctx.
func newUpdates(ctx context.Context, h *handler) *updates {
	u := &updates{handler: h, ctx: ctx, turns: newRollout(), seen: map[types.NamespacedName]found{}}
	if h.Tunnel == nil || h.Downstream == nil {
		return u
	}
	u.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](againFirst, againLast))
	context.AfterFunc(ctx, u.queue.ShutDown)
	for range updaters {
		go u.work()
	}
	h.Tunnel.Subscribe(ctx, u.session)
	return u
}

// session handles an agent that connected or disconnected.
func (u *updates) session(id string) {
	for _, key := range u.of(id) {
		name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
		u.mu.Lock()
		delete(u.seen, name)
		u.mu.Unlock()
		u.queue.Add(name)
	}
}

// changed handles a cluster whose agent may depend on a changed object.
func (u *updates) changed(cluster *provv1.Cluster) {
	if u.queue == nil || !u.Tunnel.Connected(cluster.Status.ClusterName) {
		return
	}
	name := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	if facts, err := u.complete(&clustermanifest.Facts{Cluster: cluster}); err == nil && facts != nil &&
		u.seenFor(name, version(facts)) <= 0 {
		u.queue.Add(name)
	}
}

// version changes with every fact in the management cluster that an agent's manifest is made from.
func version(facts *clustermanifest.Facts) string {
	return fmt.Sprint(facts.Management.UID, "/", facts.Management.Generation, "/", facts.Token, "/",
		endpointVersion(facts))
}

// seenFor returns how long a cluster need not be checked for that version. It returns 0 or less if a check is due.
func (u *updates) seenFor(name types.NamespacedName, version string) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	seen := u.seen[name]
	if seen.version != version {
		return 0
	}
	return checkInterval - time.Since(seen.at)
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
			u.warn(name, err)
			u.queue.AddRateLimited(name)
		}
		u.queue.Done(name)
	}
}

// endpointError is a problem of a cluster's authorized endpoint.
type endpointError struct{ error }

// Unwrap returns the wrapped error.
func (e endpointError) Unwrap() error { return e.error }

func (u *updates) warn(name types.NamespacedName, err error) {
	what := "The agent of a cluster"
	if errors.As(err, &endpointError{}) {
		what = "The authorized endpoint of a cluster"
	}
	u.Log.WithError(err).WithField("namespace", name.Namespace).WithField("cluster", name.Name).Warn(what +
		" cannot be updated; Drover retries")
}

// update brings a cluster's agent up to date, if one is connected.
func (u *updates) update(name types.NamespacedName) error {
	defer u.follow(name)
	cluster, err := clients.Optional(u.clusters.Get(name.Namespace, name.Name))
	if err != nil {
		return err
	}
	if !u.ours(cluster) {
		u.turns.forget(name)
		return nil
	}
	if !u.Tunnel.Connected(cluster.Status.ClusterName) {
		u.turns.disconnected(name, time.Now())
		return nil
	}
	facts, objects, err := u.wanted(cluster)
	if err != nil || facts == nil {
		return err
	}
	client, err := u.Downstream.Client(u.ctx, name)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	done, err := u.apply(client, name, version(facts), objects)
	if err := u.conclude(client, name, facts, done, err); err != nil || done == waits {
		return err
	}
	if done == connected {
		if err := removeLeftovers(u.ctx, client, objects); err != nil {
			return err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen[name] = found{version(facts), time.Now()}
	u.queue.AddAfter(name, checkInterval)
	return nil
}

// conclude handles the result of an attempt, and reconciles the endpoint. It does so even if the attempt failed,
// because the old agent also reaches the cluster. A problem of the endpoint delays no agent.
func (u *updates) conclude(client kubernetes.Interface, name types.NamespacedName, facts *clustermanifest.Facts,
	done outcome, err error) error {
	settled := err == nil && done != waits
	endpointErr := u.endpoint(client, facts, settled)
	if settled {
		u.turns.succeeded(name, time.Now())
	}
	if done == connected {
		err = errors.Join(err, u.recordToken(facts))
	}
	if endpointErr != nil {
		err = errors.Join(err, endpointError{endpointErr})
	}
	return err
}

// wanted returns the facts and the objects of a cluster's agent. It returns nil if an object is missing, or if the
// agent was recently found up to date.
func (u *updates) wanted(cluster *provv1.Cluster) (*clustermanifest.Facts, []runtime.Object, error) {
	facts, err := u.complete(&clustermanifest.Facts{Cluster: cluster})
	if err != nil || facts == nil {
		return nil, nil, err
	}
	name := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	if left := u.seenFor(name, version(facts)); left > 0 {
		u.queue.AddAfter(name, left) // a queue keeps the earliest time, which may have been this one
		return nil, nil, nil
	}
	if facts.PullSecrets, err = u.pullSecrets(facts.Management); err != nil {
		return nil, nil, err
	}
	objects, err := clustermanifest.Desired(u.Source, *facts)
	return facts, objects, err
}

// recordToken records that a cluster's agent has connected with its current token, so that the old one is no longer
// needed.
func (u *updates) recordToken(facts *clustermanifest.Facts) error {
	secret, err := clients.Optional(u.secrets.Get(facts.Management.Name,
		naming.RegistrationTokenSecret(clustermanifest.RegistrationToken(facts.Cluster))))
	if err != nil || secret == nil {
		return err
	}
	if noted := registration.Followed(secret, facts.Token); noted != nil {
		if _, err := u.Secrets.Update(noted); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("record the use of the token in secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
	}
	return u.keepToken(facts)
}

// keepToken copies the agent's current token to the Secret that moves with the Cluster, after the token was replaced or
// revoked. It keeps the manifest in that Secret, because it is part of plans.
func (u *updates) keepToken(facts *clustermanifest.Facts) error {
	stored, err := clients.Optional(u.secrets.Get(facts.Cluster.Namespace, naming.ClusterAgent(facts.Cluster.Name)))
	if err != nil || stored == nil || !topology.Belongs(stored, facts.Cluster) ||
		string(stored.Data[rkev1.ClusterAgentTokenKey]) == facts.Token {
		return err
	}
	kept := stored.DeepCopy()
	kept.Data[rkev1.ClusterAgentTokenKey] = []byte(facts.Token)
	if _, err := u.Secrets.Update(kept); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the agent's token to secret %s/%s: %w", stored.Namespace, stored.Name, err)
	}
	return nil
}

// outcome is the result of an attempt.
type outcome int

const (
	// waits means that the agent is not connected yet, or that it is not its turn.
	waits outcome = iota
	// foreign means that another program manages the agent.
	foreign
	// connected means that the agent is up to date.
	connected
)

// apply applies a manifest, unless it is already applied or it is not the cluster's turn. It returns whether an agent
// of that manifest is connected. The Deployment comes last, so that its pods find what they need.
func (u *updates) apply(client kubernetes.Interface, name types.NamespacedName, version string,
	objects []runtime.Object) (outcome, error) {
	found, err := client.AppsV1().Deployments(clustermanifest.Namespace).Get(u.ctx, clustermanifest.Deployment,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return foreign, nil // the agent is deployed in another way
	}
	if err != nil {
		return waits, fmt.Errorf("read the agent's objects: %w", err)
	}
	switch has := found.Annotations[clustermanifest.DigestAnnotation]; {
	case has == "":
		return foreign, nil
	// An observed generation of 0 means that no controller makes pods there.
	case has == clustermanifest.Digest(objects) && (isRolledOut(found) || found.Status.ObservedGeneration == 0):
		return connected, nil
	case has == clustermanifest.Digest(objects):
		u.turns.watch(name, version, time.Now())
		return waits, nil
	}
	if !u.turns.take(name, version, time.Now()) {
		return waits, nil
	}
	if err := applyAll(u.ctx, client, found, objects); err != nil {
		u.turns.forget(name)
		return waits, err
	}
	u.Log.WithField("namespace", name.Namespace).WithField("cluster", name.Name).Info("Updated the agent of a cluster")
	return waits, nil
}

// follow handles what comes after an attempt. It requeues the cluster while its agent is expected, and queues the
// clusters whose turn it is.
func (u *updates) follow(name types.NamespacedName) {
	now := time.Now()
	if again, pending := u.turns.pending(name, now); pending {
		u.queue.AddAfter(name, again)
	}
	for _, next := range u.turns.next(now) {
		u.queue.Add(next)
	}
	state, changed := u.turns.state(now)
	if u.Metrics != nil {
		u.Metrics.Set(state.under-len(state.lost), len(state.lost), state.waiting)
	}
	if !changed {
		return
	}
	log := u.Log.WithField("waiting", state.waiting)
	if state.stopped {
		log.WithField("clusters",
			state.lost).Warn(
			"The new agents of several clusters do not connect. Drover updates no other agents until they connect " +
				"or get another version. " +
				"Check that the clusters can pull the image and reach the server")
	} else {
		log.Info("The new agents connect again, and Drover updates other agents")
	}
}
