package events

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/pkg/decide/credentialjob"
)

// CredentialChecked returns the event of a cloud credential that was checked.
func CredentialChecked(credential *corev1.Secret, result credentialjob.Result) Event {
	l := about(corev1.SchemeGroupVersion.WithKind("Secret"), credential)
	switch result.Reason {
	case credentialjob.ReasonAccepted:
		l.normal(ReasonCredentialAccepted, result.Message)
	case credentialjob.ReasonExpired:
		l.warning(ReasonCredentialExpired, result.Message)
	case credentialjob.ReasonRejected:
		l.warning(ReasonCredentialRejected, result.Message)
	default:
		l.warning(ReasonCredentialUnchecked, result.Message)
	}
	return l.events[0]
}
