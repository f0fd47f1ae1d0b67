package connect

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// A machine that was moved or restored to another management cluster still presents the token of the former one, which this API server
// cannot verify and which no Secret holds. What is left of it is a digest on the plan secret, which comes along with the objects. The digest
// says for which RKEBootstrap it was written: while that one lives under its old UID this is no other management cluster, the token has
// its own Secret, and whoever deleted that has withdrawn it. A former token opens what it always did, the plan secret of its machine;
// requests go on with the token of the machine's present account. To withdraw a former token, take the annotation from the plan secret.

// indexFormerToken finds plan secrets by the digest of what their machine was given to connect with.
const indexFormerToken = "connect.drover.io/former-token"

// AgentCredential is the value of rkev1.AgentCredentialAnnotation for a token that was given to a machine.
func AgentCredential(bootstrap types.UID, token string) string {
	return string(bootstrap) + ":" + tokenKey(token)
}

// formerKey is the digest on a plan secret and the UID of the RKEBootstrap that it was written for.
func formerKey(secret *corev1.Secret) (bootstrap types.UID, key string) {
	if secret.Type != rkev1.SecretTypeMachinePlan {
		return "", ""
	}
	uid, key, _ := strings.Cut(secret.Annotations[rkev1.AgentCredentialAnnotation], ":")
	return types.UID(uid), key
}

// remember notes on the plan secret what its machine is given to connect with.
func (s *server) remember(ctx context.Context, who *identity, account *corev1.ServiceAccount, token string) error {
	var plan *corev1.Secret
	err := until(ctx, func() (bool, error) {
		found, err := s.SecretCache.Get(account.Namespace, account.Labels[rkev1.PlanSecretNameLabel])
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		plan = found
		return err == nil, err
	})
	if err != nil {
		return waiting(err, "the plan of this machine is not there yet")
	}
	credential := AgentCredential(who.bootstrap.UID, token)
	if plan.Annotations[rkev1.AgentCredentialAnnotation] == credential {
		return nil
	}
	patch, err := mergePatch(map[string]any{"annotations": map[string]string{rkev1.AgentCredentialAnnotation: credential}})
	if err != nil {
		return err
	}
	if _, err := s.SecretClient.Patch(plan.Namespace, plan.Name, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("note what machine %s connects with: %w", who.machine.Name, err)
	}
	return nil
}

// grant is what a token opens: a plan secret, and the token by which the API server knows who asks.
type grant struct {
	namespace, name, token string
}

// grantOf returns what a token opens. The error is errUnknown for what is neither the token of a living plan account nor a former one
// of its machine, and a refusal with 503 while a machine that has come from elsewhere has no token here yet.
func (s *server) grantOf(ctx context.Context, presented string) (grant, error) {
	if namespace, name, ok := s.planOf(presented); ok {
		return grant{namespace, name, presented}, nil
	}
	plan, err := s.formerPlan(presented)
	if err != nil || plan == nil {
		return grant{}, errors.Join(err, ifNil(plan, errUnknown))
	}
	account, err := s.accountOfPlan(plan)
	if err != nil {
		return grant{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Wait)
	defer cancel()
	token, err := s.planToken(ctx, account)
	if err != nil {
		return grant{}, err
	}
	return grant{plan.Namespace, plan.Name, token}, nil
}

func ifNil(plan *corev1.Secret, err error) error {
	if plan == nil {
		return err
	}
	return nil
}

// formerPlan is the plan secret that was opened by a token in another management cluster, nil when there is none. A digest that is on
// two of them opens neither.
func (s *server) formerPlan(presented string) (*corev1.Secret, error) {
	if presented == "" {
		return nil, nil //nolint:nilnil // absence is an answer
	}
	found, err := s.SecretCache.GetByIndex(indexFormerToken, tokenKey(presented))
	if err != nil {
		return nil, fmt.Errorf("look a former token up: %w", err)
	}
	if len(found) != 1 {
		return nil, nil //nolint:nilnil // as above
	}
	writtenFor, key := formerKey(found[0])
	owner := metav1.GetControllerOf(found[0])
	if subtle.ConstantTimeCompare([]byte(key), []byte(tokenKey(presented))) != 1 || owner == nil || owner.Kind != "RKEBootstrap" || owner.UID == writtenFor {
		return nil, nil //nolint:nilnil // as above
	}
	return found[0], nil
}

// accountOfPlan is the account that may read a plan secret: that of the living RKEBootstrap and Machine which the secret belongs to.
func (s *server) accountOfPlan(plan *corev1.Secret) (*corev1.ServiceAccount, error) {
	account, err := s.ServiceAccountCache.Get(plan.Namespace, plan.Name)
	if apierrors.IsNotFound(err) {
		return nil, refused(http.StatusServiceUnavailable, "the plan account of this machine is not there yet")
	}
	if err != nil {
		return nil, fmt.Errorf("read from cache: %w", err)
	}
	labels := account.Labels
	if labels[rkev1.ServiceAccountRoleLabel] != rkev1.ServiceAccountRolePlan || labels[rkev1.PlanSecretNameLabel] != plan.Name || account.DeletionTimestamp != nil {
		return nil, errUnknown
	}
	bootstrap, machine, err := s.ownersOf(account)
	if err != nil {
		return nil, err
	}
	if bootstrap.UID != metav1.GetControllerOf(plan).UID || bootstrap.DeletionTimestamp != nil && machine.DeletionTimestamp == nil {
		return nil, errUnknown
	}
	return account, nil
}
