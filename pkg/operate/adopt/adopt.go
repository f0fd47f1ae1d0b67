// Package adopt changes which instance manages a cluster. It takes over clusters of Rancher or of another Drover, and
// it releases clusters. Package inspect reports the effects in advance. This package holds the checks and the few
// writes. The controllers do the rest, because they act only on clusters with the mark of their instance.
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

// Limits are the effects that the user accepts, and what the user says about the former manager.
type Limits struct {
	// From is the current manager: the instance in the cluster's mark, or FromRancher. By naming it, the user confirms
	// that it no longer manages the cluster. Released clusters do not need it.
	From string
	// AllowRestart permits adoptions that restart nodes. AllowReplace also permits adoptions that replace, add or
	// remove machines.
	AllowRestart, AllowReplace bool
	// AllowUnderWay permits the new instance to continue operations that the former Drover began.
	AllowUnderWay bool
	// Idle is the minimum time since another manager's last write.
	Idle time.Duration
	// Now is the current time.
	Now time.Time
}

// Refusal lists why a cluster is not adopted, one line for each reason.
type Refusal struct{ Reasons []string }

// Error implements error.
func (r *Refusal) Error() string {
	return "the cluster is not adopted, and nothing was written:\n  " + strings.Join(r.Reasons, "\n  ")
}

// Check returns a Refusal if the cluster must not be adopted. It reads nothing from the API server.
func Check(a inspect.Adoption, limits Limits) error {
	reasons := slices.Clone(a.Problems)
	reasons = append(reasons, owned(a, limits)...)
	reasons = append(reasons, unfinished(a, limits)...)
	if a.Activity != nil && a.Owner != inspect.OwnerSame {
		if ago := limits.Now.Sub(a.Activity.At.Time); ago < limits.Idle {
			reasons = append(reasons, fmt.Sprintf("%s wrote %s %s ago, which only a manager does: "+
				"switch it off, and try again once it has written nothing for %s",
				a.Activity.Writer, a.Activity.What, ago.Round(time.Second), limits.Idle))
		}
	}
	restart, replace := machinesOf(a, planner.ClassRestart), machinesOf(a, planner.ClassReplace, planner.ClassRemove,
		planner.ClassAdd)
	if len(restart) > 0 && !limits.AllowRestart && !limits.AllowReplace {
		reasons = append(reasons, "these machines would be restarted: "+strings.Join(restart, ", ")+
			"; --allow-restart permits that")
	}
	if len(replace) > 0 && !limits.AllowReplace {
		reasons = append(reasons, "machines would be replaced, added or removed: "+strings.Join(replace, ", ")+
			"; --allow-replace permits that")
	}
	if len(reasons) > 0 {
		return &Refusal{reasons}
	}
	return nil
}

// owned returns the reasons why the former manager does not count as switched off.
func owned(a inspect.Adoption, limits Limits) []string {
	switch {
	case a.Owner == inspect.OwnerOther && limits.From != a.Mark:
		return []string{fmt.Sprintf("instance %q of Drover manages it: release it first (drover adopt --release). "+
			"If that instance no longer runs, confirm that with --from %s", a.Mark, a.Mark)}
	case a.Owner == inspect.OwnerUnmarked && limits.From != FromRancher:
		return []string{"a manager that leaves no mark has created it, usually Rancher: " +
			"switch that manager off (" + rival.SwitchOff + "), and confirm that with --from " + FromRancher}
	case a.Owner == inspect.OwnerReleased && limits.From != "" && limits.From != a.Mark:
		return []string{fmt.Sprintf("--from %s: another instance has released it, instance %q", limits.From, a.Mark)}
	}
	return nil
}

// unfinished returns a reason if work of the former Drover is under way. That Drover should finish the work before it
// releases the cluster. A backup can also contain unfinished work.
func unfinished(a inspect.Adoption, limits Limits) []string {
	if len(a.UnderWay) == 0 || limits.AllowUnderWay {
		return nil
	}
	if a.Owner == inspect.OwnerReleased {
		// A restore returns the cluster to its state at the time of the backup. A release does not block work that
		// begins at the same moment.
		return []string{fmt.Sprintf("work on it was under way when it was backed up or released: %s. "+
			"With --allow-under-way, instance %q continues that work, even if it has ended since",
			strings.Join(a.UnderWay, "; "), a.Instance)}
	}
	return []string{fmt.Sprintf("instance %q works on it: %s; let that work finish. "+
		"If that instance no longer runs, use --allow-under-way, and instance %q continues the work",
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

// Take marks an inspected cluster as the instance's own. It writes the planner's marks to the machines first. It writes
// the Cluster's mark last, because that mark starts the controllers. The write fails if the Cluster has changed since
// the inspection. Take writes nothing if the instance already has the cluster.
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

// mark writes the Cluster's mark and the latest resource version of the marked Machines. The server waits until its
// cache has that version. If the cluster names Secrets of other namespaces, the adopting user asks to become their
// author.
func mark(c *clients.Clients, namespace, name, noted string, a inspect.Adoption) error {
	annotations := map[string]any{rkev1.InstanceAnnotation: a.Instance, rkev1.ReleasedByAnnotation: nil,
		rkev1.NotedAnnotation: nil}
	if noted != "" {
		annotations[rkev1.NotedAnnotation] = planstore.Noted(a.UID, noted)
	}
	if a.Renew {
		annotations[rkev1.GrantsAnnotation] = rkev1.GrantsRenew
	}
	err := annotate(c, namespace, name, a.UID, a.ResourceVersion, annotations)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("cluster %s has changed since the comparison, and is not adopted; run the command again: %w",
			a.Cluster, err)
	}
	if err != nil {
		return fmt.Errorf("mark cluster %s: %w", a.Cluster, err)
	}
	return nil
}

// annotate writes annotations to exactly this version of a Cluster.
func annotate(
	c *clients.Clients, namespace, name string, uid types.UID, version string, annotations map[string]any,
) error {
	metadata := map[string]any{"uid": uid, "resourceVersion": version, "annotations": annotations}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err == nil {
		_, err = c.Provisioning.Cluster().Patch(namespace, name, types.MergePatchType, patch)
	}
	return err
}

// ErrNotMarked means that the cluster has no mark to remove.
var ErrNotMarked = errors.New("no Drover has marked the cluster: there is no mark to remove")

// Release removes the mark from a cluster, so that another manager can take it. The instance then writes nothing more
// to the cluster, and ends its running work within seconds. Release returns the former instance. It refuses a cluster
// without children, because such a cluster cannot be adopted. It also refuses while work is under way that only the
// instance can end (inspect.Reader.UnderWay lists it).
func Release(c *clients.Clients, cluster *provv1.Cluster, hasChildren bool, underWay ...string) (instance string,
	err error) {
	instance = cluster.Annotations[rkev1.InstanceAnnotation]
	name := cluster.Namespace + "/" + cluster.Name
	switch {
	case instance == "":
		return "", fmt.Errorf("cluster %s: %w", name, ErrNotMarked)
	case cluster.DeletionTimestamp != nil:
		return instance, fmt.Errorf("cluster %s is being deleted, and instance %q has to finish that", name, instance)
	case !hasChildren:
		return instance, fmt.Errorf("cluster %s has no objects yet, so no Drover could adopt it after the release; "+
			"pause or delete it instead", name)
	case len(underWay) > 0:
		return instance,
			fmt.Errorf("instance %q works on cluster %s, and no other instance would finish that: %s; let it finish. "+
				"If it no longer runs, adopt the cluster with --from %s --allow-under-way",
				instance, name, strings.Join(underWay, "; "), instance)
	}
	if err := annotate(c, cluster.Namespace, cluster.Name, cluster.UID, cluster.ResourceVersion, map[string]any{
		rkev1.ReleasedByAnnotation: instance,
		rkev1.InstanceAnnotation:   nil, rkev1.BlockMoveAnnotation: nil, rkev1.NotedAnnotation: nil,
	}); err != nil {
		return instance, fmt.Errorf("remove the mark of cluster %s: %w", name, err)
	}
	return instance, nil
}
