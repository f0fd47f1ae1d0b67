package hostremoval

import (
	"fmt"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// How long Drover waits until a host has carried out its last plan. A host whose node was silent before may still
// answer, because its agent does not depend on the distribution.
const (
	AnswerTime     = 5 * time.Minute
	AwayAnswerTime = 2 * time.Minute
)

// Reasons of the condition HostCleaned of a CustomMachine.
const (
	// ReasonCleaning means that the host carries out its last plan.
	ReasonCleaning = "HostCleaning"
	// ReasonCleaned means that the distribution and the agent are removed from the host.
	ReasonCleaned = "HostCleaned"
	// ReasonNotCleaned means that the host has left the cluster and was not cleaned. The message says what to run.
	ReasonNotCleaned = "HostNotCleaned"
)

// Cleaning holds the facts about a host whose CustomMachine is being deleted.
type Cleaning struct {
	// Machine and Cluster are the values of annotation rkev1.CleanHostAnnotation on the Machine and the Cluster.
	Machine, Cluster string
	// ClusterGoing means that the whole cluster is being deleted.
	ClusterGoing bool
	// Alone means that there is no Machine, or no plan Secret with an account, so that no plan reaches the host.
	Alone bool
	// Held means that the Machine stays, or still waits for its etcd member. The CustomMachine alone is deleted then,
	// by a user or by a deletion in the foreground.
	Held bool
	// Windows means that the host runs Windows.
	Windows bool
	// Home is where the host has its programs.
	Home Home
	// Concluded means that the condition HostCleaned shows the end.
	Concluded bool
	// Delivered means that the host has its last plan, since DeliveredAt. Applied and Failed are its agent's report.
	Delivered, Applied, Failed bool
	DeliveredAt                time.Time
	// LostSince is since when the node is silent or gone; zero if it is not.
	LostSince time.Time
	Now       time.Time
}

// Step is what to do next with a host that leaves.
type Step string

// The steps.
const (
	// StepRelease lets Cluster API finish the deletion.
	StepRelease Step = "release"
	// StepDeliver delivers the last plan.
	StepDeliver Step = "deliver"
	// StepWait waits for the agent's report.
	StepWait Step = "wait"
	// StepConclude reports the end. StepRelease follows.
	StepConclude Step = "conclude"
)

// Next is a step with the condition to report, which is empty without a report, and the time until the next look, which
// is zero when only events matter.
type Next struct {
	Step      Step
	Condition conditions.Condition
	After     time.Duration
}

// IsWanted reports whether the host is to be cleaned. A host that leaves alone is, and the hosts of a deleted cluster
// are not: they have the only copy of the cluster's data. The annotation on the Machine decides before that on the
// Cluster, and both before the default.
func (c *Cleaning) IsWanted() bool {
	for _, value := range []string{c.Machine, c.Cluster} {
		switch value {
		case "true":
			return true
		case "false":
			return false
		}
	}
	return !c.ClusterGoing
}

// Decide returns the next step.
func (c *Cleaning) Decide() Next {
	switch {
	case c.Concluded, c.Alone, !c.Delivered && !c.IsWanted():
		return Next{Step: StepRelease}
	case c.Windows:
		return c.conclude(ReasonNotCleaned, "Drover cannot clean Windows hosts: uninstall RKE2 and the agent by hand "+
			"before you use the host again")
	case !c.Delivered && c.Held:
		return Next{Step: StepWait, Condition: c.condition(rkev1.ConditionUnknown, ReasonCleaning,
			"The host is cleaned when its Machine is deleted and its etcd member has left")}
	case !c.Delivered:
		return Next{Step: StepDeliver, Condition: c.cleaning()}
	case c.Applied:
		return c.conclude(ReasonCleaned, string(c.Home.Runtime)+" and the agent are removed from the host")
	case c.Failed:
		return c.conclude(ReasonNotCleaned, fmt.Sprintf("The agent cannot remove %s (journalctl -u "+
			"rancher-system-agent). Before you use the host again, run as root: %s", c.Home.Runtime, c.Home.ByHand()))
	}
	patience := c.patience()
	if left := c.DeliveredAt.Add(patience).Sub(c.Now); left > 0 {
		return Next{Step: StepWait, Condition: c.cleaning(), After: left}
	}
	return c.conclude(ReasonNotCleaned, fmt.Sprintf("The agent did not answer for %s, so %s, the agent and their data "+
		"are still on the host. Before you use the host again, run as root: %s", patience, c.Home.Runtime,
		c.Home.ByHand()))
}

// patience is how long the host has. A node that fell silent after the delivery may be the work of the plan.
func (c *Cleaning) patience() time.Duration {
	if !c.LostSince.IsZero() && c.LostSince.Before(c.DeliveredAt) {
		return AwayAnswerTime
	}
	return AnswerTime
}

func (c *Cleaning) cleaning() conditions.Condition {
	return c.condition(rkev1.ConditionUnknown, ReasonCleaning, "The agent removes "+string(c.Home.Runtime)+
		" and itself from the host")
}

func (c *Cleaning) conclude(reason, message string) Next {
	status := rkev1.ConditionFalse
	if reason == ReasonCleaned {
		status = rkev1.ConditionTrue
	}
	return Next{Step: StepConclude, Condition: c.condition(status, reason, message)}
}

func (c *Cleaning) condition(status, reason, message string) conditions.Condition {
	return conditions.Condition{Type: rkev1.ConditionHostCleaned, Status: status, Reason: reason, Message: message}
}

// IsConcluded reports whether a CustomMachine's conditions show the end of the cleaning.
func IsConcluded(list []rkev1.GenericCondition) bool {
	c := conditions.Get(list, rkev1.ConditionHostCleaned)
	return c != nil && c.Status != rkev1.ConditionUnknown
}
