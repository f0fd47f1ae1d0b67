package planstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// MaxSecretSize is the limit of a plan secret's data after a delivery, in bytes.
const MaxSecretSize = planner.MaxSecretSize

// ErrTooLarge means that a plan does not fit into its secret. The planner checks that first and reports it on the
// machine, so a plan that it delivers fits.
var ErrTooLarge = errors.New("the plan secret would be too large")

// SecretCache is the part of a Secret cache that is needed.
type SecretCache interface {
	Get(namespace, name string) (*corev1.Secret, error)
}

// SecretUpdater is the part of a Secret client that is needed.
type SecretUpdater interface {
	Update(*corev1.Secret) (*corev1.Secret, error)
}

// Plans reads and writes plan secrets. It is safe for concurrent use.
type Plans struct {
	cache  SecretCache
	client SecretUpdater
	memo   *Memo[corev1.Secret, *planner.PlanSecret]
}

// NewPlans returns a store over a cache and a client.
func NewPlans(cache SecretCache, client SecretUpdater) *Plans {
	return &Plans{cache: cache, client: client, memo: NewMemo(decode)}
}

// Indexes of a cache of Machines, which controllers share.
const (
	ByCluster    = "drover.io/machines-by-cluster"
	ByPlanSecret = "drover.io/machines-by-plan-secret"
)

// MachinesOf returns the Machines of a cluster. The cache must have the index ByCluster.
func MachinesOf(machines wakeup.Indexed[*clusterv1.Machine], namespace, cluster string) ([]*clusterv1.Machine, error) {
	found, err := machines.GetByIndex(ByCluster, namespace+"/"+cluster)
	if err != nil {
		return nil, fmt.Errorf("list machines of cluster %s/%s: %w", namespace, cluster, err)
	}
	return found, nil
}

// IndexByPlanSecret is the function of the index ByPlanSecret: the key of a Machine's plan secret, if its bootstrap
// is an RKEBootstrap.
func IndexByPlanSecret(m *clusterv1.Machine) ([]string, error) {
	var keys []string
	for _, key := range WakePlanSecret(m) {
		keys = append(keys, key.Namespace+"/"+key.Name)
	}
	return keys, nil
}

// IndexByCluster is the function of the index ByCluster: NAMESPACE/NAME of a Machine's cluster.
func IndexByCluster(m *clusterv1.Machine) ([]string, error) {
	return []string{m.Namespace + "/" + m.Spec.ClusterName}, nil
}

// WakePlanSecret wakes the plan secret of a Machine, if its bootstrap is an RKEBootstrap.
func WakePlanSecret(m *clusterv1.Machine) []wakeup.Key {
	ref := m.Spec.Bootstrap.ConfigRef
	if ref.Kind != "RKEBootstrap" || ref.Name == "" {
		return nil
	}
	return []wakeup.Key{{Namespace: m.Namespace, Name: naming.PlanSecret(ref.Name)}}
}

// Find returns the plan secret of an RKEBootstrap and its decoded content, or nil for both if it does not exist.
// Callers must not change either. An unreadable secret is not an error: its content says so, and only its own machine
// is affected.
func (p *Plans) Find(namespace, bootstrap string) (*corev1.Secret, *planner.PlanSecret, error) {
	name := naming.PlanSecret(bootstrap)
	secret, err := p.cache.Get(namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read plan secret %s/%s: %w", namespace, name, err)
	}
	return secret, p.memo.Of(namespace+"/"+name, secret), nil
}

// decode reads a plan secret. The result contains what is wrong with it.
func decode(secret *corev1.Secret) *planner.PlanSecret {
	plan := &planner.PlanSecret{
		Name:         secret.Name,
		JoinURL:      secret.Annotations[rkev1.JoinURLAnnotation],
		JoinedTo:     secret.Annotations[rkev1.JoinedToAnnotation],
		ProbesPassed: secret.Annotations[rkev1.PlanProbesPassedAnnotation] != "",
		InitNode:     secret.Labels[rkev1.InitNodeLabel] == "true",
		Evidence:     secret.Annotations[rkev1.PlanEvidenceAnnotation],
		Drain: planner.Drain{
			Requested: secret.Annotations[rkev1.DrainAnnotation],
			Done:      secret.Annotations[rkev1.DrainDoneAnnotation],
			Uncordon:  secret.Annotations[rkev1.UncordonAnnotation],
			Error:     secret.Annotations[rkev1.DrainErrorAnnotation],
		},
	}
	if since, err := time.Parse(time.RFC3339, secret.Annotations[rkev1.DrainSinceAnnotation]); err == nil {
		plan.Drain.Since = since
	}
	if at, err := time.Parse(time.RFC3339, secret.Annotations[rkev1.PlanUpdatedTimeAnnotation]); err == nil {
		plan.DeliveredAt = at // an invalid time counts as unknown
	}
	if secret.Type != rkev1.SecretTypeMachinePlan {
		plan.Malformed = "its type must be " + rkev1.SecretTypeMachinePlan
		return plan
	}
	state, err := nodeplan.Parse(secret.Namespace+"/"+secret.Name, secret.Data)
	if err != nil {
		plan.Malformed = err.Error()
	}
	planner.Trim(&state)
	plan.State = state
	plan.AppliedSize, plan.ReportSize = sizes(secret.Data)
	return plan
}

// sizes returns the sizes in a plan secret other than the next plan: the copy of the applied plan, and the rest,
// including what a delivery adds.
func sizes(data map[string][]byte) (applied, reports int) {
	data, _ = nodeplan.Applied(data)
	kept, err := nodeplan.Deliver(data, nodeplan.Delivery{MaxFailures: nodeplan.NoLimit, FailureThreshold: 1})
	if err != nil {
		return 0, size(data) // these limits are never refused
	}
	applied = len(kept[nodeplan.KeyAppliedPlan])
	return applied, size(kept) - applied
}

// Deliver writes a plan into the found secret and returns the stored one, or the given one if it already has the plan.
// It returns a conflict unchanged, because the decision used an old view. An annotation records now.
func (p *Plans) Deliver(found *corev1.Secret, d planner.DeliverPlan, now time.Time) (*corev1.Secret, error) {
	noted, _ := nodeplan.Applied(found.Data) // the former plan may still wait for its copy
	data, err := nodeplan.Deliver(noted, nodeplan.Delivery{
		Plan:             d.Delivery.Plan,
		MaxFailures:      d.Delivery.MaxFailures,
		FailureThreshold: d.Delivery.FailureThreshold,
	})
	if err != nil {
		return nil, fmt.Errorf("deliver the plan of machine %s: %w", d.Machine, err)
	}
	if size(data) > MaxSecretSize {
		return nil, fmt.Errorf("deliver the plan of machine %s: %w", d.Machine, ErrTooLarge)
	}
	if !d.Again && string(found.Data[nodeplan.KeyPlan]) == string(d.Delivery.Plan) &&
		len(found.Data[nodeplan.KeyPlanState]) == 0 {
		return found, nil
	}
	update := found.DeepCopy()
	update.Data = data
	annotate(update, map[string]string{
		rkev1.JoinedToAnnotation:         d.Marks.JoinedTo,
		rkev1.PlanUpdatedTimeAnnotation:  now.UTC().Format(time.RFC3339),
		rkev1.PlanProbesPassedAnnotation: "",
	})
	delete(update.Annotations, rkev1.PlanEvidenceAnnotation)
	if d.Evidence != "" {
		annotate(update, map[string]string{rkev1.PlanEvidenceAnnotation: d.Evidence})
	}
	if d.Marks.JoinURL != "" {
		annotate(update, map[string]string{rkev1.JoinURLAnnotation: d.Marks.JoinURL})
	}
	if d.Marks.InitNode {
		update.Labels = maps.Clone(update.Labels)
		if update.Labels == nil {
			update.Labels = map[string]string{}
		}
		update.Labels[rkev1.InitNodeLabel] = "true"
	} else {
		delete(update.Labels, rkev1.InitNodeLabel)
	}
	stored, err := p.client.Update(update)
	if err != nil {
		return nil, fmt.Errorf("deliver the plan of machine %s: %w", d.Machine, err)
	}
	return stored, nil
}

// PublishJoinURL repeats a server's join URL on its plan secret.
func (p *Plans) PublishJoinURL(found *corev1.Secret, e planner.PublishJoinURL) (*corev1.Secret, error) {
	if found.Annotations[rkev1.JoinURLAnnotation] == e.JoinURL {
		return found, nil
	}
	return p.change(found, "publish the join URL of machine "+e.Machine, func(update *corev1.Secret) {
		annotate(update, map[string]string{rkev1.JoinURLAnnotation: e.JoinURL})
	})
}

// WithdrawInitLabel removes the label of the init node from a plan secret.
func (p *Plans) WithdrawInitLabel(found *corev1.Secret, e planner.WithdrawInitLabel) (*corev1.Secret, error) {
	if _, has := found.Labels[rkev1.InitNodeLabel]; !has {
		return found, nil
	}
	return p.change(found, "withdraw the init label of machine "+e.Machine, func(update *corev1.Secret) {
		delete(update.Labels, rkev1.InitNodeLabel)
	})
}

// RequestDrain asks the drainer to drain a node. It removes the answers to an earlier request, and a request for its
// end. It also removes the answers of hooks, because the next drain with the same options would reuse them.
func (p *Plans) RequestDrain(found *corev1.Secret, e planner.RequestDrain) (*corev1.Secret, error) {
	if found.Annotations[rkev1.DrainAnnotation] == e.Options && found.Annotations[rkev1.UncordonAnnotation] == "" {
		return found, nil
	}
	return p.change(found, "request the drain of machine "+e.Machine, func(update *corev1.Secret) {
		for _, answer := range append(hooksOf(found.Annotations[rkev1.DrainAnnotation]),
			rkev1.PreDrainAnnotation, rkev1.DrainDoneAnnotation, rkev1.UncordonAnnotation, rkev1.PostDrainAnnotation) {
			delete(update.Annotations, answer)
		}
		annotate(update, map[string]string{rkev1.DrainAnnotation: e.Options})
		dateDrain(update, e.At)
	})
}

// dateDrain records when a drain or its end was requested.
func dateDrain(secret *corev1.Secret, at time.Time) {
	delete(secret.Annotations, rkev1.DrainSinceAnnotation)
	if !at.IsZero() {
		annotate(secret, map[string]string{rkev1.DrainSinceAnnotation: at.UTC().Format(time.RFC3339)})
	}
}

// hooksOf returns the annotations in which the hooks of a drain answer.
func hooksOf(request string) []string {
	var options rkev1.DrainOptions
	if json.Unmarshal([]byte(request), &options) != nil {
		return nil // an unreadable request has no answers
	}
	var out []string
	for _, hook := range append(options.PreDrainHooks, options.PostDrainHooks...) {
		if hook.Annotation != "" {
			out = append(out, hook.Annotation)
		}
	}
	return out
}

// RequestUncordon asks the drainer to end a drain, if it has not ended yet.
func (p *Plans) RequestUncordon(found *corev1.Secret, e planner.RequestUncordon) (*corev1.Secret, error) {
	if found.Annotations[rkev1.DrainAnnotation] != e.Options ||
		found.Annotations[rkev1.UncordonAnnotation] == e.Options {
		return found, nil
	}
	return p.change(found, "request the end of the drain of machine "+e.Machine, func(update *corev1.Secret) {
		annotate(update, map[string]string{rkev1.UncordonAnnotation: e.Options})
		dateDrain(update, e.At)
	})
}

// change writes a found secret with one edit. It returns a conflict unchanged, so that it never reverts the change of
// another writer.
func (p *Plans) change(found *corev1.Secret, doing string, edit func(*corev1.Secret)) (*corev1.Secret, error) {
	update := found.DeepCopy()
	edit(update)
	stored, err := p.client.Update(update)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return stored, nil
}

// NoteReport records the meaning of an agent's report: the copy of the applied plan, and the time at which all probes
// first passed. It removes results of instructions that no longer exist. It returns nil if there is nothing to write.
func (p *Plans) NoteReport(secret *corev1.Secret, probesPassed bool, now time.Time) (*corev1.Secret, error) {
	data, changed := nodeplan.Applied(secret.Data)
	stamp := probesPassed && secret.Annotations[rkev1.PlanProbesPassedAnnotation] == ""
	if !changed && !stamp {
		return nil, nil
	}
	update := secret.DeepCopy()
	update.Data = data
	if stamp {
		annotate(update, map[string]string{rkev1.PlanProbesPassedAnnotation: now.UTC().Format(time.RFC3339)})
	}
	stored, err := p.client.Update(update)
	if err != nil {
		return nil, fmt.Errorf("record the report in plan secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return stored, nil
}

func annotate(secret *corev1.Secret, values map[string]string) {
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	maps.Copy(secret.Annotations, values)
}

func size(data map[string][]byte) int {
	total := 0
	for key, value := range data {
		total += len(key) + len(value)
	}
	return total
}
