// Package driverjobs plays the kubelet and the Job controller for the Jobs that ask node drivers for their flags.
package driverjobs

import (
	"context"
	"fmt"
	"os"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/local/driverprogram"
)

// Outcome is how the containers of a Job end.
type Outcome struct {
	// Download and Flags are the termination messages of the containers.
	Download, Flags string
	// Failed is the name of the container that fails. Empty if both succeed.
	Failed string
}

// Is reports whether a Job asks a node driver for its flags.
func Is(job *batchv1.Job) bool { return job.Annotations[driverjob.DriverAnnotation] != "" }

// Ended reports whether a Job has succeeded or failed.
func Ended(job *batchv1.Job) bool { return len(job.Status.Conditions) > 0 }

// Run does in this process what the containers of a Job do. The download also trusts authorities, in PEM.
func Run(ctx context.Context, job *batchv1.Job, authorities string) (Outcome, error) {
	directory, err := os.MkdirTemp("", "driver-")
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	container := job.Spec.Template.Spec.InitContainers[0]
	source := driverprogram.Source{URL: argument(container, "--url="), Checksum: argument(container, "--checksum="),
		Authorities: authorities}
	for _, variable := range container.Env {
		if variable.Name == driverjob.AuthoritiesVariable {
			source.Authorities += "\n" + variable.Value
		}
	}
	download, err := driverprogram.Download(ctx, source, directory)
	if err != nil {
		return Outcome{Failed: driverjob.DownloadContainer, Download: err.Error()}, nil
	}
	out := Outcome{Download: download.Encode()}
	flags, err := driverprogram.Flags(ctx, directory)
	if err == nil {
		out.Flags, err = driverjob.EncodeFlags(flags)
	}
	if err != nil {
		out.Failed, out.Flags = driverjob.FlagsContainer, err.Error()
	}
	return out, nil
}

func argument(container corev1.Container, prefix string) string {
	for _, arg := range container.Args {
		if value, ok := strings.CutPrefix(arg, prefix); ok {
			return strings.ReplaceAll(value, "$$", "$")
		}
	}
	return ""
}

// End creates the pod of a Job as it is after its end, and ends the Job.
func End(ctx context.Context, client kubernetes.Interface, job *batchv1.Job, outcome Outcome) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "default"}}
	if _, err := client.CoreV1().ServiceAccounts(job.Namespace).Create(ctx, account,
		metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the account of the pod: %w", err)
	}
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Spec.SchedulerName = "none" // no kubelet may run it again
	pod.Namespace, pod.Name = job.Namespace, job.Name
	pod.Labels[batchv1.JobNameLabel] = job.Name
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job,
		batchv1.SchemeGroupVersion.WithKind("Job"))}
	created, err := client.CoreV1().Pods(job.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = client.CoreV1().Pods(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("create the pod: %w", err)
	}
	created.Status = statusOf(outcome)
	if _, err := client.CoreV1().Pods(job.Namespace).UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("end the pod: %w", err)
	}
	return endJob(ctx, client, job, outcome)
}

func statusOf(outcome Outcome) corev1.PodStatus {
	state := func(name, message string) corev1.ContainerStatus {
		ended := &corev1.ContainerStateTerminated{Message: message, Reason: "Completed"}
		if outcome.Failed == name {
			ended.ExitCode, ended.Reason = 1, "Error"
		}
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: ended}}
	}
	status := corev1.PodStatus{Phase: corev1.PodSucceeded, InitContainerStatuses: []corev1.ContainerStatus{
		state(driverjob.DownloadContainer, outcome.Download),
	}}
	if outcome.Failed != "" {
		status.Phase = corev1.PodFailed
	}
	if outcome.Failed != driverjob.DownloadContainer {
		status.ContainerStatuses = []corev1.ContainerStatus{state(driverjob.FlagsContainer, outcome.Flags)}
	}
	return status
}

func endJob(ctx context.Context, client kubernetes.Interface, job *batchv1.Job, outcome Outcome) error {
	now := metav1.Now()
	done := job.DeepCopy()
	done.Status.StartTime = &now
	conditions := map[batchv1.JobConditionType]string{batchv1.JobSuccessCriteriaMet: "CompletionsReached",
		batchv1.JobComplete: "CompletionsReached"}
	if outcome.Failed == "" {
		done.Status.Succeeded, done.Status.CompletionTime = 1, &now
	} else {
		done.Status.Failed = 1
		conditions = map[batchv1.JobConditionType]string{batchv1.JobFailureTarget: "BackoffLimitExceeded",
			batchv1.JobFailed: "BackoffLimitExceeded"}
	}
	for kind, reason := range conditions {
		done.Status.Conditions = append(done.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now, Reason: reason,
			Message: "Told",
		})
	}
	_, err := client.BatchV1().Jobs(job.Namespace).UpdateStatus(ctx, done, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("end the Job: %w", err)
	}
	return nil
}
