package machinejob

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// MostOutput is how much of a Job's output is kept, in bytes.
const MostOutput = 32 << 10

// The keys of the Secret with the output of a machine's Jobs (docs/wire/secrets.md#output-of-jobs).
const (
	outputCreate = "create"
	outputRemove = "remove-"
)

// OutputKey is the key of a Job's output in the machine's Secret.
func OutputKey(job JobState) string {
	if job.Attempt == 0 {
		return outputCreate
	}
	return outputRemove + strconv.Itoa(job.Attempt)
}

// KeepsOutput returns the ended Job whose output must be kept now. kept are the keys of the machine's Secret. A
// successful removal keeps nothing, because the Secret goes with the machine.
func (s Snapshot) KeepsOutput(kept map[string][]byte) (JobState, bool) {
	job := s.Create
	if len(s.Removes) > 0 {
		job = lastOf(s.Removes)
	}
	_, done := kept[OutputKey(job)]
	ended := job.Phase == PhaseFailed || job.Phase == PhaseSucceeded && job.Attempt == 0
	return job, ended && !done
}

// OutdatedOutputs returns the keys of earlier removals. Only the output of the last one is kept.
func OutdatedOutputs(kept map[string][]byte, job JobState) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(kept)), func(key string) bool {
		return !strings.HasPrefix(key, outputRemove) || key == OutputKey(job)
	})
}

// TerminationMessage returns the end of the output of an ended pod, which the kubelet puts into its status. It ends
// with a newline, or is empty.
func TerminationMessage(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.Message != "" {
			return strings.TrimSpace(ended.Message) + "\n"
		}
	}
	return ""
}

// LastOutput returns the kept output of the Job that ran last, and whether there is one.
func LastOutput(kept map[string][]byte) (output []byte, ok bool) {
	for key, text := range kept {
		if strings.HasPrefix(key, outputRemove) {
			return text, true
		}
	}
	output, ok = kept[outputCreate]
	return output, ok
}

// ClipOutput returns the end of an output, in whole lines, of at most MostOutput bytes.
func ClipOutput(output string) string {
	if len(output) <= MostOutput {
		return output
	}
	_, rest, whole := strings.Cut(output[len(output)-MostOutput:], "\n")
	if !whole {
		return strings.ToValidUTF8(output[len(output)-MostOutput:], "")
	}
	return rest
}
