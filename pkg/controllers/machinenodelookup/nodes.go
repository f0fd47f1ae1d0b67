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
	// askTimeout bounds one look into a cluster. Whoever waits for it is a worker that all clusters share.
	askTimeout = 3 * time.Second
	// busyAgain is when to come back while another worker looks into the same cluster.
	busyAgain = time.Second
	// stillLooking is how long a machine that has not asked again counts as one that looks for its node.
	stillLooking = time.Minute
	// maxLooked bounds how many machines one look is for: their identifiers are in the URL.
	maxLooked = 100
)

// errAmbiguous is for a machine that two ready nodes claim to be. Neither is believed.
var errAmbiguous = errors.New("more than one ready node says that it is this machine")

// errYounger is for a machine that a younger node than the ready one claims to be.
var errYounger = errors.New("a younger node, which is not ready, says that it is this machine too")

// lookout looks into downstream clusters for all machines at once. One worker at a time asks a cluster, for every machine of
// it that looks for its node; the answer is good for a moment, and so is the failure. A cluster that is down therefore costs
// one worker a few seconds now and then, however many machines wait for it, and the others of its kind go on.
type lookout struct {
	downstream Downstream
	now        func() time.Time
	log        logrus.FieldLogger

	// another tells whether a node is evidently another machine's. Nil: no node is.
	another func(cluster types.NamespacedName, machine types.UID, node *corev1.Node) bool

	mu       sync.Mutex
	clusters map[types.NamespacedName]*view
}

// view is what is known of one cluster. The lock of the lookout guards it.
type view struct {
	// looking holds the machines that look for their nodes, and when each last did.
	looking map[types.UID]time.Time
	// answer is what the cluster said of those machines that it was asked about.
	answer map[types.UID][]corev1.Node
	// err is why there is no answer, and failures how often in a row.
	err      error
	failures int
	// until is when answer or err is over. busy is true while somebody asks.
	until time.Time
	busy  bool
}

func newLookout(downstream Downstream, now func() time.Time, log logrus.FieldLogger) *lookout {
	return &lookout{downstream: downstream, now: now, log: log, clusters: map[types.NamespacedName]*view{}}
}

// find returns the node of a machine, nil while there is none that is ready and has a provider ID. The duration is when to
// ask again at the earliest; zero leaves it to the caller.
func (l *lookout) find(ctx context.Context, cluster types.NamespacedName, machine types.UID) (*corev1.Node, time.Duration, error) {
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

// free leaves out the nodes that are other machines'. Whoever has root on a node can label it as any machine, and would be
// joined, drained and deleted in that one's place.
func (l *lookout) free(cluster types.NamespacedName, machine types.UID, nodes []corev1.Node) []corev1.Node {
	if l.another == nil {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(node corev1.Node) bool { return l.another(cluster, machine, &node) })
}

// turn decides who asks. With machines the caller has to, and to tell take; with a duration it has to come back; with
// neither the view has what it wants.
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
		// Those that asked last come first: whoever is left out asks in its own turn.
		slices.SortStableFunc(uids, func(a, b types.UID) int { return v.looking[b].Compare(v.looking[a]) })
		uids = append([]types.UID{machine}, slices.DeleteFunc(uids, func(uid types.UID) bool { return uid == machine })...)[:maxLooked]
	}
	return uids, v, 0
}

// take keeps an answer. A cluster that answers is asked again after a moment, one that does not after a growing one; a
// cluster without a kubeconfig was not asked at all.
func (l *lookout) take(cluster types.NamespacedName, v *view, uids []types.UID, nodes []corev1.Node, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.busy = false
	log := l.log.WithField("controller", handlerName).WithField("namespace", cluster.Namespace).WithField("cluster", cluster.Name)
	switch {
	case errors.Is(err, proxy.ErrNotAvailable):
		v.err, v.failures, v.until = nil, 0, time.Time{}
		return
	case err != nil:
		if v.failures == 0 {
			log.WithError(err).Warn("Cluster does not answer, its machines wait for their nodes")
		}
		v.err, v.until = err, l.now().Add(min(often<<min(v.failures, 8), rarely))
		v.failures++
		return
	case v.failures > 0:
		log.Info("Cluster answers again")
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

// forget is for machines that have their node, and drops clusters in which no machine looks for one any more.
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

// ask is one request for the nodes of some machines.
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

// choose takes the one node that is ready and has a provider ID. A node that is not ready may be what is left of the machine
// under an older name. One that is younger than the node that is ready is none of that: it may be the machine itself, which comes
// up while another node pretends to be it. Kubelets do not write when their nodes were made.
func choose(nodes []corev1.Node) (*corev1.Node, error) {
	ready := slices.DeleteFunc(slices.Clone(nodes), func(node corev1.Node) bool { return node.Spec.ProviderID == "" || !isReady(&node) })
	switch len(ready) {
	case 0:
		return nil, nil
	case 1:
		if slices.ContainsFunc(nodes, func(node corev1.Node) bool { return ready[0].CreationTimestamp.Before(&node.CreationTimestamp) }) {
			return nil, errYounger
		}
		return &ready[0], nil
	default:
		return nil, errAmbiguous
	}
}

// waitFor is when to look again: what was asked for, or by the age of the machine.
func waitFor(asked, age time.Duration) time.Duration {
	if age < oftenFor {
		return cmp.Or(asked, often)
	}
	return max(asked, rarely)
}
