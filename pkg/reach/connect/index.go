package connect

import (
	"crypto/subtle"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// Indexes of Secrets, ServiceAccounts, RKEBootstraps and Machines. Token keys are digests, so that neither the index
// nor the time of a lookup reveals anything about a token.
const (
	indexBootstrapToken    = "connect.drover.io/bootstrap-token"
	indexPlanToken         = "connect.drover.io/plan-token"
	indexRegistrationToken = "connect.drover.io/registration-token"
	indexPlanAccount       = "connect.drover.io/plan-account"
	indexMachineID         = "connect.drover.io/machine-id"
	indexMachineRequests   = "connect.drover.io/machine-requests"
)

func (o *Options) addIndexes() {
	o.SecretCache.AddIndexer(indexBootstrapToken, func(s *corev1.Secret) ([]string, error) {
		if !isAccountToken(s) || s.Annotations[rkev1.BootstrapTokenAnnotation] != "true" {
			return nil, nil
		}
		return []string{naming.SHA256(naming.TokenHash(string(accountToken(s))))}, nil
	})
	o.SecretCache.AddIndexer(indexPlanToken, func(s *corev1.Secret) ([]string, error) {
		if !isAccountToken(s) || s.Annotations[rkev1.BootstrapTokenAnnotation] == "true" {
			return nil, nil
		}
		return []string{naming.SHA256(string(accountToken(s)))}, nil
	})
	o.SecretCache.AddIndexer(indexMachineRequests, func(s *corev1.Secret) ([]string, error) {
		if s.Type != rkev1.SecretTypeMachineRequest {
			return nil, nil
		}
		return []string{s.Namespace}, nil
	})
	o.BootstrapCache.AddIndexer(indexFormerToken, func(b *rkev1.RKEBootstrap) ([]string, error) {
		if _, key := formerKey(b); key != "" {
			return []string{key}, nil
		}
		return nil, nil
	})
	o.ServiceAccountCache.AddIndexer(indexPlanAccount, func(a *corev1.ServiceAccount) ([]string, error) {
		machine := a.Labels[rkev1.MachineNameLabel]
		if a.Labels[rkev1.ServiceAccountRoleLabel] != rkev1.ServiceAccountRolePlan || machine == "" {
			return nil, nil
		}
		return []string{a.Namespace + "/" + machine}, nil
	})
	o.MachineCache.AddIndexer(indexMachineID, func(m *clusterv1.Machine) ([]string, error) {
		if id := m.Labels[rkev1.MachineIDLabel]; id != "" {
			return []string{id}, nil
		}
		return nil, nil
	})
}

// isAccountToken reports whether a Secret contains a token from the token controller.
func isAccountToken(s *corev1.Secret) bool {
	return s.Type == corev1.SecretTypeServiceAccountToken && len(accountToken(s)) > 0 &&
		s.Annotations[corev1.ServiceAccountNameKey] != ""
}

func accountToken(s *corev1.Secret) []byte { return s.Data[corev1.ServiceAccountTokenKey] }

// findToken returns the Secret of a presented token. want returns the valid tokens of a Secret.
func (o *Options) findToken(index, presented string, want func(*corev1.Secret) []string) *corev1.Secret {
	if presented == "" {
		return nil
	}
	found, err := o.SecretCache.GetByIndex(index, naming.SHA256(presented))
	if err != nil {
		o.Log.WithError(err).Error("Cannot look up tokens")
		return nil
	}
	for _, secret := range found {
		for _, candidate := range want(secret) {
			if subtle.ConstantTimeCompare([]byte(candidate), []byte(presented)) == 1 {
				return secret
			}
		}
	}
	return nil
}

// account returns the ServiceAccount of a token Secret if it has the given role. It returns nil if the account is
// missing or was recreated.
func (o *Options) account(token *corev1.Secret, role string) *corev1.ServiceAccount {
	account, err := o.ServiceAccountCache.Get(token.Namespace, token.Annotations[corev1.ServiceAccountNameKey])
	if err != nil || account.Labels[rkev1.ServiceAccountRoleLabel] != role || account.DeletionTimestamp != nil {
		return nil
	}
	if account.UID == "" || types.UID(token.Annotations[corev1.ServiceAccountUIDKey]) != account.UID {
		return nil
	}
	return account
}

// planOf returns the plan account of a token. Its label names the plan Secret. planOf returns nil for all other tokens.
func (o *Options) planOf(token string) *corev1.ServiceAccount {
	secret := o.findToken(indexPlanToken, token, func(s *corev1.Secret) []string {
		return []string{string(accountToken(s))}
	})
	if secret == nil {
		return nil
	}
	account := o.account(secret, rkev1.ServiceAccountRolePlan)
	if account == nil || account.Labels[rkev1.PlanSecretNameLabel] == "" {
		return nil
	}
	return account
}

// bearer returns the bearer token of a request, or "".
func bearer(r *http.Request) string {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, token, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
