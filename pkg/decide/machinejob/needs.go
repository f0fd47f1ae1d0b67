package machinejob

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// PodSecrets returns the names of the Secrets that a pod of a Job needs, if Drover writes them for every Job. Users may
// own the Secrets that pull the image, and other programs may add Secrets to a pod.
func PodSecrets(job *batchv1.Job) []string {
	machine, pod := job.Annotations[InfraMachineAnnotation], job.Spec.Template.Spec
	own := []string{naming.MachineDriverSecret(machine), naming.MachineCerts(machine)}
	var used []string
	for i, pull := range pod.ImagePullSecrets {
		own, used = append(own, naming.MachinePull(machine, i)), append(used, pull.Name)
	}
	for _, volume := range pod.Volumes {
		if volume.Secret != nil {
			used = append(used, volume.Secret.SecretName)
		}
	}
	for _, container := range pod.Containers {
		for _, from := range container.EnvFrom {
			if from.SecretRef != nil {
				used = append(used, from.SecretRef.Name)
			}
		}
	}
	return slices.DeleteFunc(used, func(name string) bool { return !slices.Contains(own, name) })
}
