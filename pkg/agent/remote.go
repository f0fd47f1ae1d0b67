package agent

import (
	"context"
	"errors"
	"maps"
	"reflect"
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
	// replacedDelay is the delay before a plan that arrived during an apply is applied.
	replacedDelay = 100 * time.Millisecond
)

// remoteSource applies the plan of one plan Secret and reports into it.
type remoteSource struct {
	client    kubernetes.Interface
	namespace string
	name      string
	applier   *applier
	log       logrus.FieldLogger
	now       func() time.Time

	// current is the newest known version of the Secret, or nil.
	current *corev1.Secret
	// uid is the UID of the Secret that this process works on.
	uid types.UID
	// applied is the checksum of the last plan that this machine applied, if known.
	applied string
	// started is when this process started to watch.
	started time.Time
	// logged is what the log says about reports that are too large.
	logged omission
	// appliedAt is when this process last applied a plan.
	appliedAt time.Time

	// updates are incoming versions of the Secret. held are versions that arrived while a plan was being applied, in
	// order.
	updates chan *corev1.Secret
	held    []*corev1.Secret
	// patience is how long a replaced plan may continue.
	patience time.Duration
	// extras is what only Drover's agent reports.
	extras extras
}

// run works until the context ends. Changes of the Secret and a timer start passes. Passes never overlap.
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

// watch sends each version of the Secret to the worker, and nil when it is deleted. The agent's role names a single
// Secret. It allows list and watch only with this field selector.
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

// accept stores a version of the Secret and reports whether it requires a pass. A known version, such as the agent's
// own write, does not. A version older than the known one is a delayed event, or comes from a server that was restored
// from a backup. accept then reads the Secret to find out.
func (r *remoteSource) accept(ctx context.Context, secret *corev1.Secret) bool {
	if secret == nil {
		r.current = nil
		return false
	}
	if secret.UID != r.uid {
		if r.uid != "" {
			r.applied = r.applier.history.newest() // what is known about the previous Secret is void
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

// newer compares resource versions. The API server guarantees that they are ordered decimals.
func newer(version, than string) bool {
	a, errA := strconv.ParseUint(version, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	if errA != nil || errB != nil {
		return version != than
	}
	return a > b
}

// pass checks the plan once, acts, reports, and returns the time until the next pass.
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
	in := applyInput{checksum: checksum, apply: d.apply, attempt: d.attempt,
		from: source{r.current.UID, r.current.ResourceVersion}}
	// Malformed reports are replaced.
	in.periodic, _ = nodeplan.DecodePeriodicOutput(data[nodeplan.KeyAppliedPeriodicOutput])
	in.probes, _ = nodeplan.DecodeProbeStatuses(data[nodeplan.KeyProbeStatuses])
	res, ok := r.applyUnlessReplaced(ctx, raw, in)
	if !ok {
		return defaultPeriod
	}
	res.ran = res.applied || len(res.periodic) > 0 && !reflect.DeepEqual(res.periodic, in.periodic)
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

// confirmed reports whether this machine has the plan that the Secret lists as applied, or a later one.
func (r *remoteSource) confirmed(checksum string) bool {
	if r.applied != "" && r.applied == string(r.current.Data[nodeplan.KeyAppliedChecksum]) {
		return true
	}
	if !r.wentBack(checksum) {
		return false
	}
	r.log.Warn("The plan secret is older than the last plan of this machine, for example after a restore of the " +
		"server; the agent ignores its plan and applies the next one")
	return true
}

// wentBack reports whether the Secret is older than what this machine has applied. Its plan is recorded as applied, and
// this machine applied it once. Later the machine applied another plan, from a newer version of the Secret or from a
// Secret with another UID. This happens after the server was restored from a backup, which must not roll back the node.
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

// applyPlan decodes and applies the plan. ok is false when there is nothing to report.
func (r *remoteSource) applyPlan(ctx context.Context, raw []byte, in applyInput) (res result, ok bool) {
	decoded, err := nodeplan.Decode(raw)
	if err != nil {
		r.log.WithError(err).Error("Cannot read the plan")
		if !in.apply {
			return result{}, false
		}
		// The plan is unreadable, so its periodic output and probes keep their state.
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
		r.log.WithError(err).Warn("Cannot apply the plan")
		return result{}, false
	}
	return res, true
}

// begin records the start of a pending plan. Nothing may run before this write succeeds.
func (r *remoteSource) begin(ctx context.Context, d decision) bool {
	if err := r.update(ctx, d.begin); err != nil {
		r.log.WithError(err).Warn("Cannot record the start of a plan")
		r.refresh(ctx)
		return false
	}
	return true
}

// report writes a result and retries while the server is unavailable, because a lost report would make the plan run
// again. After a conflict it rereads the Secret. If the Secret then contains another plan, or a request to run the same
// plan again, report drops the result. The next pass handles the new state.
func (r *remoteSource) report(ctx context.Context, checksum string, d decision, res result) {
	delay := minReportDelay
	for ctx.Err() == nil {
		changes, err := r.record(d, &res)
		if err != nil {
			r.log.WithError(err).Error("Cannot encode the report of a plan")
			return
		}
		if len(changes) > 0 {
			err = r.update(ctx, changes)
		}
		switch {
		case err == nil:
			r.settle(checksum, res)
			r.extras.sent(r.current.Data, changes, r.now())
			if err := r.extras.upgrades.note(); err != nil {
				r.log.WithError(err).Warn("Cannot record that this agent has reported")
			}
			return
		case r.extras.refused(err, changes, r.now()):
			r.log.WithError(err).Warn("Cannot report what only Drover knows; sending the report without it")
			continue
		case tooLarge(err) && res.slim < slimPeriodic:
			r.slim(&res, err)
			continue
		case !apierrors.IsConflict(err):
			r.log.WithError(err).Warn("Cannot write the report of a plan; trying again")
			pause(ctx, delay)
			delay = min(2*delay, maxReportDelay)
		}
		if r.refresh(ctx) && r.superseded(checksum, d) {
			r.log.Info("The plan was replaced during its run; dropping its result")
			return
		}
	}
}

// record returns the data keys that report a result. It shrinks the report until the server can accept it.
func (r *remoteSource) record(d decision, res *result) (map[string][]byte, error) {
	for {
		changes, err := record(r.current.Data, d, *res)
		if err != nil {
			return nil, err
		}
		r.extras.add(r.current.Data, changes, r.now())
		next := maps.Clone(r.current.Data)
		maps.Copy(next, changes)
		err = nodeplan.CheckReport(next)
		if err == nil || res.slim >= slimPeriodic {
			return changes, nil
		}
		r.slim(res, err)
	}
}

// superseded reports whether the Secret no longer needs the result of a plan. It is deleted, contains another plan, or
// asks for the same plan again.
func (r *remoteSource) superseded(checksum string, d decision) bool {
	return r.current == nil || nodeplan.Checksum(r.current.Data[nodeplan.KeyPlan]) != checksum ||
		(d.stateMode && nodeplan.Phase(r.current.Data[nodeplan.KeyPlanState]) == nodeplan.PhasePending)
}

// tooLarge reports whether the server refused a Secret because of its size.
func tooLarge(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// update writes data keys to the current Secret and stores the answer.
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

// refresh rereads the Secret and reports success. A deleted or recreated Secret clears current.
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
