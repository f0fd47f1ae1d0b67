package fakeagent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/driverjobs"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

// jobArguments are the arguments of a provisioning container that the World uses.
type jobArguments struct {
	stateSecret, driver, hostname, instance string
}

func argumentsOf(job *batchv1.Job) (jobArguments, error) {
	if len(job.Spec.Template.Spec.Containers) == 0 {
		return jobArguments{}, errors.New("the Job has no container")
	}
	var out jobArguments
	for _, arg := range job.Spec.Template.Spec.Containers[0].Args {
		name, value, isFlag := strings.Cut(arg, "=")
		switch {
		case name == "--secret-name":
			out.stateSecret = value
		case name == "--driver":
			out.driver = value
		case name == "--hostname-override":
			out.hostname = value
		case !isFlag && !strings.HasPrefix(arg, "-"):
			out.instance = arg // the last argument is the instance, after the command
		}
	}
	if out.stateSecret == "" || out.instance == "" {
		return out, errors.New("the Job's arguments must contain a state Secret and an instance")
	}
	if out.hostname == "" {
		out.hostname = out.instance
	}
	return out, nil
}

func (w *World) handleJob(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	object, exists, err := w.jobInformer.GetStore().GetByKey(key.String())
	if err != nil || !exists {
		return 0, err
	}
	job, ok := object.(*batchv1.Job)
	if !ok || job.DeletionTimestamp != nil || ended(job) {
		return 0, nil
	}
	if driverjobs.Is(job) {
		outcome, err := driverjobs.Run(ctx, job, w.opts.Authorities)
		if err != nil {
			return 0, err
		}
		return 0, driverjobs.End(ctx, w.client, job, outcome)
	}
	if job.Labels[rkev1.InfraRemoveLabel] == "" {
		return 0, nil // not Drover's
	}
	args, err := argumentsOf(job)
	if err != nil {
		return 0, err
	}
	remove := job.Labels[rkev1.InfraRemoveLabel] == "true"
	failure := w.opts.Faults.Job(args.instance, remove, w.attempt(fmt.Sprintf("job %s %t", args.instance, remove),
		job.UID))
	if failure == Hangs {
		return hangs, w.startJob(ctx, job)
	}
	if failure == "" {
		owner := types.NamespacedName{Namespace: job.Namespace, Name: job.Labels[rkev1.CAPIMachineNameLabel]}
		if remove {
			err = w.removeMachine(ctx, owner, job.Namespace, args)
		} else {
			err = w.makeMachine(ctx, owner, args)
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, w.endJob(ctx, job, failure)
}

// attempt counts the Jobs or plans under a name. It counts each ID once.
func (w *World) attempt(name string, id types.UID) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	once := name + " " + string(id)
	if w.attempts[once] == 0 {
		w.attempts[name]++
		w.attempts[once] = w.attempts[name]
	}
	return w.attempts[once]
}

func ended(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		if condition.Status == corev1.ConditionTrue &&
			(condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
			return true
		}
	}
	return false
}

// makeMachine does what the driver does: it creates a host with an address and writes the state Secret.
func (w *World) makeMachine(ctx context.Context, owner types.NamespacedName, args jobArguments) error {
	made, err := w.machineFor(owner, args.hostname)
	if err != nil {
		return err
	}
	archive, err := stateArchive(args, made.address)
	if err != nil {
		return err
	}
	if err := w.saveState(ctx, owner.Namespace, args.stateSecret, archive); err != nil {
		return err
	}
	w.start(made)
	return nil
}

func (w *World) removeMachine(ctx context.Context, owner types.NamespacedName, namespace string,
	args jobArguments) error {
	w.dropMachine(owner)
	w.opts.Log("fakeagent: machine %s was removed", args.instance)
	return w.saveState(ctx, namespace, args.stateSecret, packed.Archive(nil)) // what rancher-machine leaves
}

func (w *World) saveState(ctx context.Context, namespace, name string, archive []byte) error {
	secret, err := w.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get state Secret: %w", err)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[rkev1.MachineStateKey] = archive
	if _, err := w.client.CoreV1().Secrets(namespace).Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("save machine state: %w", err)
	}
	return nil
}

// startJob writes the status that the Job controller writes when a pod has started.
func (w *World) startJob(ctx context.Context, job *batchv1.Job) error {
	if job.Status.Active > 0 {
		return nil
	}
	started := job.DeepCopy()
	started.Status.Active, started.Status.StartTime = 1, new(metav1.Now())
	_, err := w.client.BatchV1().Jobs(job.Namespace).UpdateStatus(ctx, started, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the World asks again
	}
	if err != nil {
		return fmt.Errorf("start Job: %w", err)
	}
	return nil
}

// endJob writes the status that the Job controller writes when a pod has ended.
func (w *World) endJob(ctx context.Context, job *batchv1.Job, failure string) error {
	now := metav1.Now()
	done := job.DeepCopy()
	if done.Status.StartTime == nil {
		done.Status.StartTime = &now
	}
	condition := func(kind batchv1.JobConditionType, reason, message string) {
		done.Status.Conditions = append(done.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now, Reason: reason,
			Message: message,
		})
	}
	done.Status.Active = 0
	if failure == "" {
		done.Status.Succeeded = 1
		done.Status.CompletionTime = &now
		condition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached,
			"Reached expected number of succeeded pods")
		condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
	} else {
		done.Status.Failed = 1
		condition(batchv1.JobFailureTarget, batchv1.JobReasonBackoffLimitExceeded, failure)
		condition(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, failure)
	}
	_, err := w.client.BatchV1().Jobs(job.Namespace).UpdateStatus(ctx, done, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end Job: %w", err)
	}
	return nil
}
