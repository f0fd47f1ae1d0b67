package registration

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// AnsweredAnnotation on a machine request is the digest of the host's description at the time of the answer. An answer
// to another description is invalid.
const AnsweredAnnotation = "drover.io/registration-answered"

// Answer is the answer to a machine request: a Machine, or why there is none.
type Answer struct {
	// Namespace and Name are those of the host's Machine.
	Namespace, Name string
	// Refusal is a sentence for the host's administrator.
	Refusal string
}

// SaidDigest is the digest of the description in a request, and of the token with which the host registers.
func SaidDigest(request *corev1.Secret) string {
	said := string(request.Data[rkev1.MachineRequestDataKey])
	if token := RequestToken(request); token != "" {
		said = token + " " + said
	}
	return digest(said)
}

// ReadAnswer returns the answer to the present description in a request; nil while there is none.
func ReadAnswer(request *corev1.Secret) *Answer {
	answer := Answer{
		Namespace: request.Labels[rkev1.MachineNamespaceLabel], Name: request.Labels[rkev1.MachineNameLabel],
		Refusal: request.Annotations[rkev1.RegistrationRefusedAnnotation],
	}
	if request.Annotations[AnsweredAnnotation] != SaidDigest(request) || answer.Refusal == "" && answer.Name == "" {
		return nil
	}
	return &answer
}

// WithAnswer returns a request with an answer instead of any former one. nil removes the former one.
func WithAnswer(request *corev1.Secret, answer *Answer) *corev1.Secret {
	answered := request.DeepCopy()
	for _, label := range []string{rkev1.MachineNamespaceLabel, rkev1.MachineNameLabel} {
		delete(answered.Labels, label)
	}
	for _, annotation := range []string{rkev1.RegistrationRefusedAnnotation, AnsweredAnnotation} {
		delete(answered.Annotations, annotation)
	}
	if answer == nil {
		return answered
	}
	metav1.SetMetaDataAnnotation(&answered.ObjectMeta, AnsweredAnnotation, SaidDigest(request))
	if answer.Refusal != "" {
		metav1.SetMetaDataAnnotation(&answered.ObjectMeta, rkev1.RegistrationRefusedAnnotation, answer.Refusal)
		return answered
	}
	metav1.SetMetaDataLabel(&answered.ObjectMeta, rkev1.MachineNamespaceLabel, answer.Namespace)
	metav1.SetMetaDataLabel(&answered.ObjectMeta, rkev1.MachineNameLabel, answer.Name)
	return answered
}
