package stage

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
)

// PlanToken returns the name of a plan Secret in a namespace, and a token of its account.
func (st *Stage) PlanToken(namespace string) (secret, token string) {
	st.t.Helper()
	var plans corev1.SecretList
	if err := st.Client.List(st.t.Context(), &plans, client.InNamespace(namespace)); err != nil {
		st.t.Fatal(err)
	}
	for i := range plans.Items {
		if plan := plans.Items[i]; plan.Type == rkev1.SecretTypeMachinePlan {
			return plan.Name, st.TokenOf(plan)
		}
	}
	st.t.Fatalf("namespace %s has no plan Secret", namespace)
	return "", ""
}

// TokenOf creates a token of a plan Secret's account, as the endpoint for machines does for an agent, and waits until
// it is signed.
func (st *Stage) TokenOf(plan corev1.Secret) string {
	st.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: plan.Namespace, Name: plan.Name + "-token",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: plan.Name},
	}, Type: corev1.SecretTypeServiceAccountToken}
	account := &corev1.ServiceAccount{}
	if err := st.Client.Get(st.t.Context(), client.ObjectKey{Namespace: plan.Namespace, Name: plan.Name},
		account); err != nil {
		st.t.Fatal(err)
	}
	secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: account.Name,
		UID: account.UID, Controller: new(true)}}
	if err := st.Client.Create(st.t.Context(), secret); err != nil {
		st.t.Fatal(err)
	}
	plane.Until(st.t, time.Minute, func() string {
		if err := st.Client.Get(st.t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err.Error()
		}
		if len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
			return "the token is not signed yet"
		}
		return ""
	})
	return string(secret.Data[corev1.ServiceAccountTokenKey])
}
