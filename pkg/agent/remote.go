package agent

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

const (
	minReportDelay = time.Second
	maxReportDelay = 10 * time.Second
	// replacedDelay is waited before a plan that arrived during an apply is applied.
	replacedDelay = 100 * time.Millisecond
)

// remoteSource applies the plan of one plan secret and reports into it.
type remoteSource struct {
	client    kubernetes.Interface
	namespace string
	name      string
	applier   *applier
	log       logrus.FieldLogger
	now       func() time.Time

	// current is the newest state of the secret that is known; nil while there is none.
	current *corev1.Secret
	// uid is that of the secret this process has worked on.
	uid types.UID
	// applied is the checksum of the plan this machine applied last, as far as it knows.
	applied string
	// started is when this process began to look.
	started time.Time
	// appliedAt is when this process applied a plan last.
	appliedAt time.Time

	// updates are states of the secret that come; held are those that came while a plan was at work, in their order.
	updates chan *corev1.Secret
	held    []*corev1.Secret
	// patience is for how long a plan that was replaced is carried on with.
	patience time.Duration
}

// run works until the context ends. Every change of the secret and a timer start a pass; passes never overlap.
func (r *remoteSource) run(ctx context.Context) {
	r.updates = make(chan *corev1.Secret)
	go r.watch(ctx)
	r.applied, r.started = r.applier.history.newest(), r.now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case secret := <-r.updates:
			if !r.accept(ctx, secret) {
				continue
			}
		case <-timer.C:
		}
		if r.current == nil {
			continue
		}
		next := r.pass(ctx)
		if r.acceptHeld(ctx) {
			next = 0
		}
		timer.Reset(next)
	}
}

// watch hands every state of the secret to the worker; nil when it was deleted. The field selector is what lets the agent's
// role, which names a single secret, list and watch.
func (r *remoteSource) watch(ctx context.Context) {
	send := func(obj any) {
		secret, _ := obj.(*corev1.Secret)
		select {
		case r.updates <- secret:
		case <-ctx.Done():
		}
	}
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, r.name).String()
	secrets := r.client.CoreV1().Secrets(r.namespace)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = selector
				return secrets.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = selector
				return secrets.Watch(ctx, options)
			},
		}, r.client),
		ObjectType: &corev1.Secret{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    send,
			UpdateFunc: func(_, obj any) { send(obj) },
			DeleteFunc: func(any) { send(nil) },
		},
	})
	informer.RunWithContext(ctx)
}

// accept takes a state of the secret over and tells whether it asks for a pass: not when it is known already, as after the
// agent's own write. A state older than the known one is either late news or a server restored from a backup; reading the
// secret tells which.
func (r *remoteSource) accept(ctx context.Context, secret *corev1.Secret) bool {
	if secret == nil {
		r.current = nil
		return false
	}
	if secret.UID != r.uid {
		if r.uid != "" {
			r.applied = r.applier.history.newest() // another secret: what this process believed of the former one proves nothing
		}
		r.uid, r.current = secret.UID, nil
	}
	switch {
	case r.current == nil || newer(secret.ResourceVersion, r.current.ResourceVersion):
		r.current = secret
		return true
	case secret.ResourceVersion == r.current.ResourceVersion:
		return false
	}
	return r.refresh(ctx) && r.current != nil
}

// newer compares resource versions, which the API server guarantees to be ordered decimals.
func newer(version, than string) bool {
	a, errA := strconv.ParseUint(version, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	if errA != nil || errB != nil {
		return version != than
	}
	return a > b
}

// pass looks at the plan once, does what is to be done, reports, and returns when to look again.
func (r *remoteSource) pass(ctx context.Context) time.Duration {
	data := r.current.Data
	raw := data[nodeplan.KeyPlan]
	if len(raw) == 0 {
		return defaultPeriod
	}
	checksum := nodeplan.Checksum(raw)
	d := decide(data, r.confirmed(checksum), r.started, r.now())
	if d.begin != nil && !r.begin(ctx, d) {
		return minReportDelay
	}
	in := applyInput{checksum: checksum, apply: d.apply, attempt: d.attempt, from: source{r.current.UID, r.current.ResourceVersion}}
	in.periodic, _ = nodeplan.DecodePeriodicOutput(data[nodeplan.KeyAppliedPeriodicOutput]) // malformed reports are replaced
	in.probes, _ = nodeplan.DecodeProbeStatuses(data[nodeplan.KeyProbeStatuses])
	res, ok := r.applyUnlessReplaced(ctx, raw, in)
	if !ok {
		return defaultPeriod
	}
	if res.applied {
		r.appliedAt = r.now()
	}
	if res.applied && res.succeeded {
		r.applied = checksum
	}
	r.report(ctx, checksum, d, res)
	if r.current == nil {
		return defaultPeriod
	}
	next := decide(r.current.Data, true, r.started, r.now())
	if next.apply {
		return replacedDelay
	}
	return nextPass(r.current.Data, res.probes, next, r.now().Sub(r.appliedAt))
}

// confirmed reports that this machine has the plan that the secret says is applied, or a later one.
func (r *remoteSource) confirmed(checksum string) bool {
	if r.applied != "" && r.applied == string(r.current.Data[nodeplan.KeyAppliedChecksum]) {
		return true
	}
	if !r.wentBack(checksum) {
		return false
	}
	r.log.Warn("The plan secret is older than the plan that this machine has applied since, as after a restore of the server; " +
		"its plan is not applied again, and the next one will be")
	return true
}

// wentBack tells whether the secret is a former state of what this machine has followed since: it says of a plan that it is applied, this machine
// did apply it once, and then another one from a later state of the secret, or from a secret that this one is a copy of. Its server was
// restored from a backup, and must not take the node back with it.
func (r *remoteSource) wentBack(checksum string) bool {
	if string(r.current.Data[nodeplan.KeyAppliedChecksum]) != checksum {
		return false
	}
	last := r.applier.history.last()
	if last.Secret.UID == "" || last.Checksum == checksum || !r.applier.history.knows(checksum) {
		return false
	}
	return last.Secret.UID != r.current.UID || newer(last.Secret.ResourceVersion, r.current.ResourceVersion)
}

// applyPlan decodes and applies. ok is false when there is nothing to report.
func (r *remoteSource) applyPlan(ctx context.Context, raw []byte, in applyInput) (res result, ok bool) {
	decoded, err := nodeplan.Decode(raw)
	if err != nil {
		r.log.WithError(err).Error("Cannot read the plan")
		if !in.apply {
			return result{}, false
		}
		// Nothing of this plan is known, so its periodic output and probes stay as they are.
		return result{
			applied: true, output: map[string][]byte{nodeplan.OutputAgentError: []byte(err.Error())},
			periodic: in.periodic, probes: in.probes, at: r.now(),
		}, true
	}
	in.plan = decoded
	res, err = r.applier.apply(ctx, in)
	switch {
	case errors.Is(err, errRestartPending):
		r.log.Info("Waiting for an install script that is about to restart this agent")
		return result{}, false
	case err != nil:
		r.log.WithError(err).Warn("Plan is not applied")
		return result{}, false
	}
	return res, true
}

// begin records the start of a pending plan. Nothing may run before that is written.
func (r *remoteSource) begin(ctx context.Context, d decision) bool {
	if err := r.update(ctx, d.begin); err != nil {
		r.log.WithError(err).Warn("Cannot record the start of a plan")
		r.refresh(ctx)
		return false
	}
	return true
}

// report writes a result and does not give up while the server is away: a lost report would make the plan run again. After
// a conflict the secret is read anew. If it holds another plan by then, or a request to run the same one again, the result
// is dropped and the next pass deals with what is there.
func (r *remoteSource) report(ctx context.Context, checksum string, d decision, res result) {
	delay := minReportDelay
	for ctx.Err() == nil {
		changes, err := record(r.current.Data, d, res)
		if err != nil {
			r.log.WithError(err).Error("Cannot encode the report of a plan")
			return
		}
		if len(changes) == 0 {
			return
		}
		err = r.update(ctx, changes)
		switch {
		case err == nil:
			return
		case tooLarge(err) && res.slim < slimPeriodic:
			res.slim++
			r.log.WithField("without", res.slim).Warn("Report of the plan is too large, sending less of it")
			continue
		case !apierrors.IsConflict(err):
			r.log.WithError(err).Warn("Cannot write the report of a plan, trying again")
			pause(ctx, delay)
			delay = min(2*delay, maxReportDelay)
		}
		if r.refresh(ctx) && r.superseded(checksum, d) {
			r.log.Info("The plan was replaced while it was applied; its result is dropped")
			return
		}
	}
}

// superseded tells whether the secret no longer asks for the result of a plan: it is gone, holds another plan, or asks for
// the same one again.
func (r *remoteSource) superseded(checksum string, d decision) bool {
	return r.current == nil || nodeplan.Checksum(r.current.Data[nodeplan.KeyPlan]) != checksum ||
		(d.stateMode && nodeplan.Phase(r.current.Data[nodeplan.KeyPlanState]) == nodeplan.PhasePending)
}

// tooLarge tells whether the server refused a secret for its size.
func tooLarge(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// update writes data keys over those of the current secret and takes the answer over.
func (r *remoteSource) update(ctx context.Context, changes map[string][]byte) error {
	next := r.current.DeepCopy()
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	maps.Copy(next.Data, changes)
	updated, err := r.client.CoreV1().Secrets(r.namespace).Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.current = updated
	return nil
}

// refresh reads the secret anew and tells whether that worked. A secret that is gone, or was made anew, leaves none.
func (r *remoteSource) refresh(ctx context.Context) bool {
	secret, err := r.client.CoreV1().Secrets(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		r.current = nil
	case err != nil:
		r.log.WithError(err).Warn("Cannot read the plan secret")
		return false
	case secret.UID != r.uid:
		r.current = nil // the watch delivers the new one
	default:
		r.current = secret
	}
	return true
}
