package registration

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// AnsweredAnnotation on a machine request has the digest of what the host had said when it was answered: an answer to something else counts no more.
const AnsweredAnnotation = "drover.io/registration-answered"

// Answer is what a machine request was answered with: a Machine, or why there is none.
type Answer struct {
	// Namespace and Name are those of the Machine that the host is.
	Namespace, Name string
	// Refusal is a sentence for the administrator of the host.
	Refusal string
}

// SaidDigest is the digest of what a request says.
func SaidDigest(request *corev1.Secret) string {
	return digest(string(request.Data[rkev1.MachineRequestDataKey]))
}

// ReadAnswer returns the answer to what a request says now; nil while there is none.
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

// WithAnswer is a request with an answer in place of any before; nil takes those away.
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
