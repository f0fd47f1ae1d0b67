package summary

import (
	"cmp"
	"time"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/tenancy"
)

// Sentences for objects without a condition that says more.
const (
	waitsForObjects = "Waiting for Drover to create the objects of the cluster"
	waitsForRemoval = "Waiting for Drover to remove the objects of the cluster"
)

// OfCluster summarizes a cluster. ready is the condition Ready of the control plane, or its copy on the Cluster; it is
// nil until there is one. began is the creation of the object with that condition.
func OfCluster(cluster *provv1.Cluster, ready *rkev1.GenericCondition, began time.Time) Summary {
	list := cluster.Status.Conditions
	if at := cluster.DeletionTimestamp; !at.IsZero() {
		s := Summary{State: Deleting, Code: ReasonDeleting, Since: at.Time, Changed: at.Time}
		if removed := conditions.Get(list, provv1.ConditionRemoved); removed != nil {
			s.Reason, s.Message = removed.Reason, removed.Message
			if removed.Status == rkev1.ConditionFalse && !ofHost(removed.Reason) {
				s.Code = removed.Reason
			}
		}
		s.Message = cmp.Or(s.Message, waitsForRemoval)
		return s
	}
	for _, kind := range []string{provv1.ConditionCreated, provv1.ConditionRKECluster} {
		if made := conditions.Get(list, kind); made != nil && made.Status == rkev1.ConditionFalse {
			return of(made, Failed, cluster.CreationTimestamp.Time)
		}
	}
	if cluster.Spec.RKEConfig == nil {
		return ofImported(cluster)
	}
	s := ofReady(cluster, ready, began)
	s.ByReady = true
	return s
}

// ofHost reports whether condition Removed has a reason that hosts have, too. Such a code would not say that a deletion
// is blocked, and the alert about deletions would miss it.
func ofHost(reason string) bool {
	switch reason {
	case machinejob.ReasonCredential, tenancy.ReasonAccessDenied, rkev1.ReasonDeleteError, machinejob.ReasonUnconfirmed,
		machinejob.ReasonProtected:
		return true
	}
	return false
}

func ofReady(cluster *provv1.Cluster, ready *rkev1.GenericCondition, began time.Time) Summary {
	switch {
	case ready == nil:
		return Summary{State: Waiting, Code: rkev1.ReasonWaiting, Message: cmp.Or(
			messageOf(cluster, provv1.ConditionCreated), messageOf(cluster, provv1.ConditionRKECluster),
			messageOf(cluster, provv1.ConditionReconciling), waitsForObjects), Since: began, Changed: began}
	case ready.Status == rkev1.ConditionTrue:
		s := of(ready, Ready, began)
		return Summary{State: Ready, Since: s.Since, Changed: s.Since}
	case ready.Status == rkev1.ConditionFalse:
		return of(ready, Failed, began)
	}
	s := of(ready, Waiting, began)
	if ready.Message == planner.PausedMessage {
		s.State, s.Code, s.Reason, s.Since = Paused, ReasonPaused, ReasonPaused, s.Changed
	}
	return s
}

// ofImported summarizes an imported cluster. Drover knows only whether its agent has ever connected.
func ofImported(cluster *provv1.Cluster) Summary {
	created := cluster.CreationTimestamp.Time
	reconciling := conditions.Get(cluster.Status.Conditions, provv1.ConditionReconciling)
	s := Summary{State: Waiting, Since: created, Changed: created}
	if reconciling != nil {
		s = of(reconciling, Waiting, created)
	}
	if cluster.Status.Ready {
		return Summary{State: Ready, Since: s.Since, Changed: s.Since}
	}
	s.Code, s.Message, s.Since = rkev1.ReasonWaiting, cmp.Or(s.Message, waitsForObjects), created
	return s
}

// of returns the summary that a condition decides.
func of(c *rkev1.GenericCondition, state State, otherwise time.Time) Summary {
	return Summary{State: state, Code: c.Reason, Reason: c.Reason, Message: c.Message,
		Since: at(otherwise, c.LastTransitionTime, c.LastUpdateTime), Changed: at(otherwise, c.LastUpdateTime,
			c.LastTransitionTime)}
}

// at returns the first readable time.
func at(otherwise time.Time, texts ...string) time.Time {
	for _, text := range texts {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at
		}
	}
	return otherwise
}

// messageOf returns the message of a condition that is not True.
func messageOf(cluster *provv1.Cluster, kind string) string {
	c := conditions.Get(cluster.Status.Conditions, kind)
	if c == nil || c.Status == rkev1.ConditionTrue && kind != provv1.ConditionReconciling {
		return ""
	}
	return c.Message
}
