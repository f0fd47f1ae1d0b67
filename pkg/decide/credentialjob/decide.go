package credentialjob

import (
	"cmp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// podDelay is how long the cache of pods may be behind the cache of Jobs.
const podDelay = 30 * time.Second

// Action is the next step of a check.
type Action string

// The actions, in their order.
const (
	// Wait does nothing.
	Wait Action = ""
	// Begin writes the record, and then creates the Job.
	Begin Action = "Begin"
	// Run creates the Job of a stored record.
	Run Action = "Run"
	// Finish writes the result into the record, and then deletes the Job.
	Finish Action = "Finish"
	// Tidy deletes the Job, because the record has the result.
	Tidy Action = "Tidy"
)

// Decision is what to do for a question.
type Decision struct {
	Action Action
	// Result is the known result, nil while there is none.
	Result *Result
	// After is the time until the next check without an event. Zero means that only events matter.
	After time.Duration
}

// Decide returns the next step of a check. Absent objects are nil. Pods of other Jobs are ignored.
func Decide(record *corev1.Secret, job *batchv1.Job, pods []*corev1.Pod, now time.Time) Decision {
	if record == nil {
		return Decision{Action: Begin}
	}
	if text, isFinished := record.Data[ResultKey]; isFinished {
		result, err := DecodeResult(string(text))
		if err != nil {
			result = Unchecked("Secret " + record.Name + " has no result that Drover understands")
		}
		if job != nil && job.DeletionTimestamp == nil {
			return Decision{Action: Tidy, Result: &result}
		}
		return Decision{Result: &result}
	}
	if job == nil {
		return Decision{Action: Run}
	}
	phase, end := machinejob.End(job)
	if phase == machinejob.PhaseRunning || job.DeletionTimestamp != nil {
		return Decision{}
	}
	result, ok := resultOf(job, pods, end)
	if due := end.LastTransitionTime.Add(podDelay); !ok && now.Before(due) {
		return Decision{After: due.Sub(now)}
	}
	result.Checked = now.UTC().Truncate(time.Second)
	return Decision{Action: Finish, Result: &result}
}

// resultOf reads the result of a Job that has ended. It returns false if its pod may be in the cache soon.
func resultOf(job *batchv1.Job, pods []*corev1.Pod, end batchv1.JobCondition) (Result, bool) {
	own := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return pod.Namespace != job.Namespace || !metav1.IsControlledBy(pod, job)
	})
	if len(own) > 0 {
		for _, status := range slices.MaxFunc(own, machinejob.ByAge).Status.ContainerStatuses {
			if ended := status.State.Terminated; ended != nil && status.Name == container {
				result, err := DecodeResult(ended.Message)
				if err != nil {
					result = Unchecked("the program of the check ended with reason " + cmp.Or(ended.Reason, "Error") +
						": its image must be that of this Drover")
				}
				return result, true
			}
		}
	}
	if end.Type == batchv1.JobFailed {
		why := strings.Trim(end.Reason+": "+end.Message, ": ")
		return Unchecked("the Job of the check failed (" + why + "): look at quotas and at the image of Drover in " +
			"namespace " + job.Namespace), true
	}
	return Unchecked("the pod of the check is gone, and its result is unknown"), false
}

// repeatAfter is the shortest time between two checks of one version of a credential.
const repeatAfter = time.Hour

// Evidence is what machines tell about the credentials of their driver. Times are zero if it never happened.
type Evidence struct {
	// Failed is when a Job of a machine failed, and Made when a host became ready.
	Failed, Made time.Time
}

// With returns the later times of both.
func (e Evidence) With(other Evidence) Evidence {
	if other.Failed.After(e.Failed) {
		e.Failed = other.Failed
	}
	if other.Made.After(e.Made) {
		e.Made = other.Made
	}
	return e
}

// Due returns when a credential is checked again, because a machine contradicts the result: a valid credential may have
// expired when a Job fails, and a rejected one works when a host becomes ready. New access keys are unknown to some
// parts of a cloud for a while. It is zero if the result counts.
func Due(record *corev1.Secret, seen Evidence) time.Time {
	result, err := DecodeResult(string(record.Data[ResultKey]))
	if err != nil {
		return time.Time{}
	}
	status := result.Status()
	if status != rkev1.ConditionFalse && seen.Failed.After(result.Checked) ||
		status != rkev1.ConditionTrue && seen.Made.After(result.Checked) {
		return result.Checked.Add(repeatAfter)
	}
	return time.Time{}
}

// IsOpen reports whether a record has no result, and so has the credential.
func IsOpen(record *corev1.Secret) bool { return len(record.Data[ResultKey]) == 0 }

// Outdated reports whether a record is of an earlier version of a credential. credential is nil if it does not exist.
func Outdated(record, credential *corev1.Secret) bool {
	return credential == nil || record.Annotations[VersionAnnotation] != Version(credential)
}
