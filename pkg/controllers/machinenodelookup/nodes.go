package machinenodelookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

const (
	// askTimeout limits one request to a cluster, because a worker that all clusters share waits for it.
	askTimeout = 3 * time.Second
	// busyAgain is the retry delay while another worker queries the same cluster.
	busyAgain = time.Second
	// stillLooking is how long a machine counts as waiting for its node after its last request.
	stillLooking = time.Minute
	// maxLooked limits the machines of one request, because their identifiers are in the URL.
	maxLooked = 100
)

// errAmbiguous means that two ready nodes claim a machine. Neither is accepted.
var errAmbiguous = errors.New("more than one ready node has the label of this machine")

// errYounger means that a node younger than the ready one claims the machine.
var errYounger = errors.New("a younger node that is not ready has the label of this machine too")

// lookout queries a cluster's nodes for all its machines at once. One worker at a time queries a cluster, for every
// machine that waits for its node. The answer, or the failure, is cached for a short time. A cluster that is down
// therefore costs one worker a few seconds now and then, however many machines wait.
type lookout struct {
	downstream proxy.ClientGetter
	now        func() time.Time
	log        logrus.FieldLogger

	// belongsToOther reports whether a node provably belongs to another machine. Nil means that no node does.
	belongsToOther func(cluster types.NamespacedName, machine types.UID, node *corev1.Node) bool

	mu       sync.Mutex
	clusters map[types.NamespacedName]*view
}

// view is the state of one cluster, guarded by the lookout's lock.
type view struct {
	// looking holds the waiting machines, with the time of each one's last request.
	looking map[types.UID]time.Time
	// answer holds the nodes of the machines in the last request.
	answer map[types.UID][]corev1.Node
	// err is the last failure, and failures counts consecutive ones.
	err      error
	failures int
	// until is when answer or err expires. busy means that a worker queries the cluster.
	until time.Time
	busy  bool
}

func newLookout(downstream proxy.ClientGetter, now func() time.Time, log logrus.FieldLogger) *lookout {
	return &lookout{downstream: downstream, now: now, log: log, clusters: map[types.NamespacedName]*view{}}
}

// find returns the node of a machine, nil until one is ready and has a provider ID. The duration is the earliest time
// for a retry; zero leaves it to the caller.
func (l *lookout) find(ctx context.Context, cluster types.NamespacedName, machine types.UID) (*corev1.Node,
	time.Duration, error) {
	uids, v, again := l.turn(cluster, machine)
	if again > 0 {
		return nil, again, nil
	}
	if uids != nil {
		nodes, err := l.ask(ctx, cluster, uids)
		l.take(cluster, v, uids, nodes, err)
		if errors.Is(err, proxy.ErrNotAvailable) {
			return nil, 0, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.err != nil {
		return nil, v.until.Sub(l.now()), v.err
	}
	node, err := choose(l.free(cluster, machine, v.answer[machine]))
	return node, 0, err
}

// free omits nodes of other machines. An attacker with root can label a node as any machine. Drover would join machines
// to it, and drain and delete it in that machine's place.
func (l *lookout) free(cluster types.NamespacedName, machine types.UID, nodes []corev1.Node) []corev1.Node {
	if l.belongsToOther == nil {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(node corev1.Node) bool {
		return l.belongsToOther(cluster, machine, &node)
	})
}

// turn decides whether the caller queries the cluster. If it returns machines, the caller must query them and call
// take. If it returns a duration, the caller must retry then. With neither, the view has the answer.
func (l *lookout) turn(cluster types.NamespacedName, machine types.UID) ([]types.UID, *view, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	v := l.clusters[cluster]
	if v == nil {
		v = &view{looking: map[types.UID]time.Time{}}
		l.clusters[cluster] = v
	}
	v.looking[machine] = now
	_, answered := v.answer[machine]
	switch {
	case now.Before(v.until) && (v.err != nil || answered):
		return nil, v, 0
	case v.busy:
		return nil, v, busyAgain
	}
	v.busy = true
	maps.DeleteFunc(v.looking, func(_ types.UID, last time.Time) bool { return now.Sub(last) > stillLooking })
	uids := slices.Sorted(maps.Keys(v.looking))
	if len(uids) > maxLooked {
		// The latest requests come first. An omitted machine queries in its own turn.
		slices.SortStableFunc(uids, func(a, b types.UID) int { return v.looking[b].Compare(v.looking[a]) })
		uids = append([]types.UID{machine}, slices.DeleteFunc(uids, func(uid types.UID) bool {
			return uid == machine
		})...)[:maxLooked]
	}
	return uids, v, 0
}

// take caches an answer. A cluster that answers is queried again after a fixed time, one that does not after a growing
// time. Without a kubeconfig, the cluster was not queried, and nothing is cached.
func (l *lookout) take(cluster types.NamespacedName, v *view, uids []types.UID, nodes []corev1.Node, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.busy = false
	log := l.log.WithField("controller", handlerName).WithField("namespace", cluster.Namespace).WithField("cluster",
		cluster.Name)
	switch {
	case errors.Is(err, proxy.ErrNotAvailable):
		v.err, v.failures, v.until = nil, 0, time.Time{}
		return
	case err != nil:
		if v.failures == 0 {
			log.WithError(err).Warn("The cluster does not answer, and its machines wait for their nodes")
		}
		v.err, v.until = err, l.now().Add(min(often<<min(v.failures, 8), rarely))
		v.failures++
		return
	case v.failures > 0:
		log.Info("The cluster answers again")
	}
	v.err, v.failures, v.until = nil, 0, l.now().Add(often)
	v.answer = make(map[types.UID][]corev1.Node, len(uids))
	for _, uid := range uids {
		v.answer[uid] = nil
	}
	for i := range nodes {
		uid := types.UID(nodes[i].Labels[rkev1.MachineUIDLabel])
		v.answer[uid] = append(v.answer[uid], nodes[i])
	}
}

// forget removes a machine that has its node, and drops clusters without waiting machines.
func (l *lookout) forget(cluster types.NamespacedName, machine types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.clusters[cluster]; v != nil {
		delete(v.looking, machine)
	}
	now := l.now()
	maps.DeleteFunc(l.clusters, func(_ types.NamespacedName, v *view) bool {
		for _, last := range v.looking {
			if now.Sub(last) <= stillLooking {
				return false
			}
		}
		return !v.busy
	})
}

// ask sends one request for the nodes of some machines.
func (l *lookout) ask(ctx context.Context, cluster types.NamespacedName, machines []types.UID) ([]corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client, err := l.downstream.Client(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	names := make([]string, 0, len(machines))
	for _, uid := range machines {
		names = append(names, string(uid))
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{
		LabelSelector: rkev1.MachineUIDLabel + " in (" + strings.Join(names, ",") + ")",
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}

// choose returns the one node that is ready and has a provider ID. An older node that is not ready may be left from the
// machine under an earlier name. A younger one may be the machine itself, starting while another node impersonates it.
// Kubelets cannot set creation times.
func choose(nodes []corev1.Node) (*corev1.Node, error) {
	ready := slices.DeleteFunc(slices.Clone(nodes), func(node corev1.Node) bool {
		return node.Spec.ProviderID == "" || !isReady(&node)
	})
	switch len(ready) {
	case 0:
		return nil, nil
	case 1:
		if slices.ContainsFunc(nodes, func(node corev1.Node) bool {
			return ready[0].CreationTimestamp.Before(&node.CreationTimestamp)
		}) {
			return nil, errYounger
		}
		return &ready[0], nil
	default:
		return nil, errAmbiguous
	}
}

// waitFor returns the delay of the next check, by the requested delay and the machine's age.
func waitFor(asked, age time.Duration) time.Duration {
	if age < oftenFor {
		return cmp.Or(asked, often)
	}
	return max(asked, rarely)
}
