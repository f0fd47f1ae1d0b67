package planner

import (
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// Kinds of the objects that the planner writes.
const (
	kindControlPlane = "RKEControlPlane"
	kindCluster      = "Cluster"
	kindMachine      = "Machine"
	kindBootstrap    = "RKEBootstrap"
	kindSecret       = "Secret"
)

// actor carries out one decision.
type actor struct {
	*handler
	cp   *rkev1.RKEControlPlane
	view *view
	log  *logrus.Entry
	// blocked holds machines that get no plan because writing their marks failed.
	blocked map[string]bool
	// twoInits means that the old init node's mark could not be removed. No other machine may become the init node.
	twoInits bool
}

var errTwoInits = errors.New("the mark of the former init node is not removed")

// act carries out the effects of a decision. A failure of one machine does not stop the others.
func (h *handler) act(cp *rkev1.RKEControlPlane, v *view, d planner.Decision) error {
	a := &actor{handler: h, cp: cp, view: v, blocked: map[string]bool{}, log: h.Log.WithFields(logrus.Fields{
		"controller": handlerName, "namespace": cp.Namespace, "cluster": cp.Name,
	})}
	var errs []error
	for _, effect := range d.Effects {
		errs = append(errs, a.one(effect))
	}
	return errors.Join(errs...)
}

//nolint:gocyclo // one case for each effect there is
func (a *actor) one(effect planner.Effect) error {
	switch e := effect.(type) {
	case planner.CreateTokens:
		return a.createTokens()
	case planner.MarkMachine:
		return a.mark(e)
	case planner.DeliverPlan:
		return a.deliver(e)
	case planner.PublishJoinURL:
		return a.secret(e.Machine, "", func(found *corev1.Secret) (*corev1.Secret, error) {
			return a.plans.PublishJoinURL(found, e)
		})
	case planner.WithdrawInitLabel:
		return a.withdraw(e)
	case planner.RequestDrain:
		return a.drain(e)
	case planner.RequestUncordon:
		return a.secret(e.Machine, "requested an uncordon", func(found *corev1.Secret) (*corev1.Secret, error) {
			return a.plans.RequestUncordon(found, e)
		})
	case planner.SetMachineCondition:
		return a.setCondition(e)
	case planner.ResetClusterInitialized:
		return a.resetCluster()
	case planner.ForceRemoveMachine:
		return a.forceRemove(e)
	case planner.PauseCluster:
		return a.setPaused(e.Operation)
	case planner.ResumeCluster:
		return a.setPaused("")
	}
	return fmt.Errorf("unknown effect %T", effect)
}

func (a *actor) note(kind string, obj metav1.Object) {
	a.written.note(a.cp.Namespace+"/"+a.cp.Name, kind, obj, a.Now())
}

func (a *actor) mark(e planner.MarkMachine) error {
	machine := a.view.machines[e.Machine]
	was := planstore.ReadMarks(machine).InitNode
	if a.twoInits && e.Marks.InitNode && !was {
		a.blocked[e.Machine] = true
		return errTwoInits
	}
	stored, err := a.MachineStore.Mark(machine, e.Marks)
	if err != nil {
		a.blocked[e.Machine] = true
		a.twoInits = a.twoInits || was && !e.Marks.InitNode
		return err
	}
	a.view.machines[e.Machine] = stored
	a.note(kindMachine, stored)
	return nil
}

func (a *actor) deliver(e planner.DeliverPlan) error {
	if a.blocked[e.Machine] {
		return nil
	}
	found := a.view.secrets[e.Machine]
	stored, err := a.plans.Deliver(found, e, a.Now())
	if err != nil {
		return err
	}
	if stored != found {
		a.view.secrets[e.Machine] = stored
		a.note(kindSecret, stored)
		log := a.log.WithFields(logrus.Fields{"machine": e.Machine, "first": e.First})
		if e.Cause != "" {
			log = log.WithField("cause", e.Cause)
		}
		log.Info("delivered a plan")
		a.disrupted(e.Cause)
	}
	return nil
}

// disrupted counts a disruption that has just started.
func (a *actor) disrupted(cause disruption.Cause) {
	if cause != "" {
		a.Disruptions.Count(cause, 1)
	}
}

func (a *actor) drain(e planner.RequestDrain) error {
	return a.secret(e.Machine, "requested a drain", func(found *corev1.Secret) (*corev1.Secret, error) {
		stored, err := a.plans.RequestDrain(found, e)
		if err == nil && stored != found {
			a.disrupted(e.Cause)
		}
		return stored, err
	})
}

// secret changes a plan Secret, and logs news if there is a change. Later effects start from the stored Secret.
func (a *actor) secret(machine, news string, change func(*corev1.Secret) (*corev1.Secret, error)) error {
	found := a.view.secrets[machine]
	stored, err := change(found)
	if err != nil {
		return err
	}
	if stored == found {
		return nil
	}
	a.view.secrets[machine] = stored
	a.note(kindSecret, stored)
	if news != "" {
		a.log.WithField("machine", machine).Info(news)
	}
	return nil
}

// withdraw is part of replacing the init node, like the mark.
func (a *actor) withdraw(e planner.WithdrawInitLabel) error {
	err := a.secret(e.Machine, "", func(found *corev1.Secret) (*corev1.Secret, error) {
		return a.plans.WithdrawInitLabel(found, e)
	})
	a.twoInits = a.twoInits || err != nil
	return err
}

func (a *actor) setCondition(e planner.SetMachineCondition) error {
	found := a.view.machines[e.Machine]
	stored, err := a.MachineStore.SetConditions(found,
		planstore.Conditions{rkev1.ConditionReconciled: e.Condition}, a.Now())
	if apierrors.IsNotFound(err) {
		return nil // the Machine is gone, and its conditions with it
	}
	if err != nil {
		return err
	}
	if stored != nil {
		a.note(kindMachine, stored)
	}
	return nil
}

// resetCluster reports to Cluster API that the cluster's API is gone, because Cluster API never resets that condition
// itself.
func (a *actor) resetCluster() error {
	update := a.view.cluster.DeepCopy()
	changed := conditions.SetMeta(&update.Status.Conditions, conditions.Condition{
		Type:   clusterv1.ClusterControlPlaneInitializedCondition,
		Status: rkev1.ConditionFalse,
		Reason: clusterv1.ClusterControlPlaneNotInitializedReason,
	}, update.Generation, a.Now())
	if !changed {
		return nil
	}
	stored, err := a.Clusters.UpdateStatus(update)
	if err != nil {
		return fmt.Errorf("reset condition ControlPlaneInitialized of the CAPI cluster: %w", err)
	}
	a.note(kindCluster, stored)
	return nil
}

// setPaused pauses the CAPI Cluster for an operation, or ends that pause if operation is empty. One write changes the
// pause and its note. If the pause changes in between, the write conflicts or does nothing.
func (a *actor) setPaused(operation string) error {
	update := a.view.cluster.DeepCopy()
	_, owned := update.Annotations[rkev1.PausedByOperationAnnotation]
	paused := update.Spec.Paused != nil && *update.Spec.Paused
	switch {
	case operation != "" && !owned && !paused:
		update.Annotations = labels.Merge(update.Annotations,
			map[string]string{rkev1.PausedByOperationAnnotation: operation})
		update.Spec.Paused = new(true)
	case operation == "" && owned:
		delete(update.Annotations, rkev1.PausedByOperationAnnotation)
		update.Spec.Paused = nil
	default:
		return nil
	}
	stored, err := a.Clusters.Update(update)
	if err != nil {
		return fmt.Errorf("pause or resume the CAPI cluster: %w", err)
	}
	a.view.cluster = stored
	a.note(kindCluster, stored)
	return nil
}

// forceRemove releases an etcd machine when no server is left that could remove it from etcd.
func (a *actor) forceRemove(e planner.ForceRemoveMachine) error {
	machine := a.view.machines[e.Machine].DeepCopy()
	machine.Annotations = labels.Merge(machine.Annotations, map[string]string{
		clusterv1.ExcludeNodeDrainingAnnotation:            "true",
		clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation: "true",
	})
	stored, err := a.Machines.Update(machine)
	if err != nil {
		return fmt.Errorf("annotate machine %s for removal: %w", e.Machine, err)
	}
	a.note(kindMachine, stored)
	bootstrap := a.view.boots[e.Machine].DeepCopy()
	bootstrap.Annotations = labels.Merge(bootstrap.Annotations,
		map[string]string{rkev1.ForceRemoveEtcdAnnotation: "true"})
	kept, err := a.Bootstraps.Update(bootstrap)
	if err != nil {
		return fmt.Errorf("annotate the RKEBootstrap of machine %s for removal: %w", e.Machine, err)
	}
	a.note(kindBootstrap, kept)
	return nil
}
