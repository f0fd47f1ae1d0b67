// Package adopt changes whose cluster it is: it takes clusters over that Rancher or another Drover has made, and lets go of them. What that would
// mean is told by package inspect; here is what may be done, and the few writes that do it. Everything else is done by the controllers, which act on
// nothing but clusters with the mark of their instance.
package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

// FromRancher names the manager that leaves no mark.
const FromRancher = "rancher"

// Limits are what may happen, and what is known of the manager before.
type Limits struct {
	// From is the manager that has the cluster now: the instance that is marked on it, or FromRancher. Whoever names it says that it manages the
	// cluster no more. Not needed for clusters that were released.
	From string
	// AllowRestart lets adoption go on although nodes restart for it; AllowReplace although machines are replaced, added or removed, too.
	AllowRestart, AllowReplace bool
	// AllowUnderWay lets it go on with what the Drover before was at, which nobody else then ends.
	AllowUnderWay bool
	// Idle is for how long nobody else must have written what only a manager writes.
	Idle time.Duration
	// Now is the time.
	Now time.Time
}

// Refusal says why a cluster is not adopted, a line for each reason.
type Refusal struct{ Reasons []string }

// Error implements error.
func (r *Refusal) Error() string {
	return "the cluster is not adopted, and nothing was written:\n  " + strings.Join(r.Reasons, "\n  ")
}

// Check returns a Refusal when a cluster must not be adopted. It reads nothing.
func Check(a inspect.Adoption, limits Limits) error {
	reasons := slices.Clone(a.Problems)
	reasons = append(reasons, owned(a, limits)...)
	reasons = append(reasons, unfinished(a, limits)...)
	if a.Activity != nil && a.Owner != inspect.OwnerSame {
		if ago := limits.Now.Sub(a.Activity.At.Time); ago < limits.Idle {
			reasons = append(reasons, fmt.Sprintf("%s wrote %s %s ago, which only a manager does: switch it off, and try again once it has been still for %s",
				a.Activity.Writer, a.Activity.What, ago.Round(time.Second), limits.Idle))
		}
	}
	restart, replace := machinesOf(a, planner.ClassRestart), machinesOf(a, planner.ClassReplace, planner.ClassRemove, planner.ClassAdd)
	if len(restart) > 0 && !limits.AllowRestart && !limits.AllowReplace {
		reasons = append(reasons, "these machines would be restarted: "+strings.Join(restart, ", ")+"; --allow-restart accepts that")
	}
	if len(replace) > 0 && !limits.AllowReplace {
		reasons = append(reasons, "machines would be replaced, added or removed: "+strings.Join(replace, ", ")+"; --allow-replace accepts that")
	}
	if len(reasons) > 0 {
		return &Refusal{reasons}
	}
	return nil
}

// owned says what is missing until the manager before counts as switched off.
func owned(a inspect.Adoption, limits Limits) []string {
	switch {
	case a.Owner == inspect.OwnerOther && limits.From != a.Mark:
		return []string{fmt.Sprintf("it is managed by instance %q of Drover: have that let go of it (drover adopt --release), or, when that runs no more, say so with --from %s", a.Mark, a.Mark)}
	case a.Owner == inspect.OwnerUnmarked && limits.From != FromRancher:
		return []string{"somebody who leaves no mark has made it, Rancher as a rule: switch that off (" + rival.SwitchOff + "), and say so with --from " + FromRancher}
	case a.Owner == inspect.OwnerReleased && limits.From != "" && limits.From != a.Mark:
		return []string{fmt.Sprintf("--from %s: instance %q has let go of it, not that one", limits.From, a.Mark)}
	}
	return nil
}

// unfinished says what another Drover is at in its cluster, which it has to end as it would before it let go of it, or was at when it was backed up.
func unfinished(a inspect.Adoption, limits Limits) []string {
	if len(a.UnderWay) == 0 || limits.AllowUnderWay {
		return nil
	}
	if a.Owner == inspect.OwnerReleased {
		// A restore brings the cluster as it was when it was backed up, and letting go waits for nobody who begins something at that moment.
		return []string{fmt.Sprintf("something was under way in it when it was backed up or let go of: %s; --allow-under-way has instance %q go on with it, also if it has ended since",
			strings.Join(a.UnderWay, "; "), a.Instance)}
	}
	return []string{fmt.Sprintf("instance %q is at something in it: %s; let it finish that. If it runs no more, --allow-under-way has instance %q go on with it",
		a.Mark, strings.Join(a.UnderWay, "; "), a.Instance)}
}

func machinesOf(a inspect.Adoption, classes ...planner.Class) []string {
	var out []string
	for _, m := range a.Machines {
		if slices.Contains(classes, m.Class) {
			name := m.Name
			if name == "" {
				name = "a new one of pool " + m.Pool
			}
			out = append(out, name)
		}
	}
	return out
}

// Take makes a cluster that was looked at the instance's. The machines are noted first; the mark on the Cluster, which makes the controllers begin, is
// written last and only if the Cluster is the one that was looked at. Taking a cluster that is the instance's already writes nothing.
func Take(ctx context.Context, c *clients.Clients, a inspect.Adoption, limits Limits) error {
	if err := Check(a, limits); err != nil {
		return err
	}
	if a.Owner == inspect.OwnerSame {
		return nil
	}
	rival, err := Rival(ctx, c.Kubernetes, a, limits.Now)
	if err != nil {
		return err
	}
	if rival != "" {
		return &Refusal{[]string{rival}}
	}
	namespace, name, _ := strings.Cut(a.Cluster, "/")
	noted := a.Noted
	machines := planstore.NewMachines(c.CAPI.Machine())
	for _, machine := range slices.Sorted(maps.Keys(a.Takeover.Marks)) {
		live, err := c.CAPI.Machine().Get(namespace, machine, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read machine %s: %w", machine, err)
		}
		stored, err := machines.Mark(live, a.Takeover.Marks[machine])
		if err != nil {
			return err
		}
		noted = planstore.Latest(noted, stored.ResourceVersion)
	}
	return mark(c, namespace, name, noted, a)
}

// mark writes the mark, and up to which resource version Machines were noted: the server waits until it sees the notes. Where the cluster names
// Secrets of other namespaces, whoever adopts it asks to be their author.
func mark(c *clients.Clients, namespace, name, noted string, a inspect.Adoption) error {
	annotations := map[string]any{rkev1.InstanceAnnotation: a.Instance, rkev1.ReleasedByAnnotation: nil, rkev1.NotedAnnotation: nil}
	if noted != "" {
		annotations[rkev1.NotedAnnotation] = planstore.Noted(a.UID, noted)
	}
	if a.Renew {
		annotations[rkev1.GrantsAnnotation] = rkev1.GrantsRenew
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": a.UID, "resourceVersion": a.ResourceVersion, "annotations": annotations,
	}})
	if err != nil {
		return fmt.Errorf("encode the mark: %w", err)
	}
	_, err = c.Provisioning.Cluster().Patch(namespace, name, types.MergePatchType, patch)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("cluster %s has changed since it was looked at; it is not adopted. Look again: %w", a.Cluster, err)
	}
	if err != nil {
		return fmt.Errorf("mark cluster %s: %w", a.Cluster, err)
	}
	return nil
}

// ErrNotMarked is that the cluster has no mark that could be taken off.
var ErrNotMarked = errors.New("no Drover has marked the cluster: there is nothing to let go of")

// Release takes the mark off a cluster, so that another manager may take it. Its instance writes to nothing of it from then on, and finishes what it is at
// within seconds. It returns who had it. A cluster of which nothing was made cannot be adopted, and is not released; neither is one with something under
// way, as inspect.Reader.UnderWay lists it, that only the instance can end.
func Release(c *clients.Clients, cluster *provv1.Cluster, hasChildren bool, underWay ...string) (instance string, err error) {
	instance = cluster.Annotations[rkev1.InstanceAnnotation]
	name := cluster.Namespace + "/" + cluster.Name
	switch {
	case instance == "":
		return "", fmt.Errorf("cluster %s: %w", name, ErrNotMarked)
	case cluster.DeletionTimestamp != nil:
		return instance, fmt.Errorf("cluster %s is being deleted, which instance %q has to finish", name, instance)
	case !hasChildren:
		return instance, fmt.Errorf("nothing was made for cluster %s yet: nobody could adopt it; pause or delete it instead", name)
	case len(underWay) > 0:
		return instance, fmt.Errorf("instance %q is at something in cluster %s that nobody would end: %s; let it finish that. If it runs no more, adopt the cluster with --from %s --allow-under-way",
			instance, name, strings.Join(underWay, "; "), instance)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": cluster.UID, "resourceVersion": cluster.ResourceVersion,
		"annotations": map[string]any{
			rkev1.InstanceAnnotation: nil, rkev1.ReleasedByAnnotation: instance, rkev1.BlockMoveAnnotation: nil, rkev1.NotedAnnotation: nil,
		},
	}})
	if err != nil {
		return instance, fmt.Errorf("encode the mark: %w", err)
	}
	if _, err := c.Provisioning.Cluster().Patch(cluster.Namespace, cluster.Name, types.MergePatchType, patch); err != nil {
		return instance, fmt.Errorf("take the mark off cluster %s: %w", name, err)
	}
	return instance, nil
}
