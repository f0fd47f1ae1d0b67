package connect

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// A machine that was moved or restored to another management cluster still presents the token of the former one, which this API server
// cannot verify and which no Secret holds. What is left of it is a digest on the RKEBootstrap, which comes along and which no node can
// write to, unlike the plan secret. The digest says for which RKEBootstrap it was written: while that one lives under its old UID this is
// no other management cluster, the token has its own Secret, and whoever deleted that has withdrawn it. A former token opens what it always
// did, the plan secret of its machine; requests go on with the token of the machine's present account. To withdraw a former token, take the
// annotation from the RKEBootstrap.

// indexFormerToken finds RKEBootstraps by the digest of what their machine connects with.
const indexFormerToken = "connect.drover.io/former-token"

// AgentCredential is the value of rkev1.AgentCredentialAnnotation for a token that a machine connects with.
func AgentCredential(bootstrap types.UID, token string) string {
	return string(bootstrap) + ":" + tokenKey(token)
}

var credentialForm = regexp.MustCompile(`^([^:]+):([0-9a-f]{64})$`)

// formerKey is the digest on an RKEBootstrap and the UID of the one that it was written for. Both are empty when it has none that is whole.
func formerKey(bootstrap *rkev1.RKEBootstrap) (writtenFor types.UID, key string) {
	parts := credentialForm.FindStringSubmatch(bootstrap.Annotations[rkev1.AgentCredentialAnnotation])
	if parts == nil {
		return "", ""
	}
	return types.UID(parts[1]), parts[2]
}

// remember notes on an RKEBootstrap what its machine connects with.
func (s *server) remember(bootstrap *rkev1.RKEBootstrap, token string) error {
	credential := AgentCredential(bootstrap.UID, token)
	if bootstrap.Annotations[rkev1.AgentCredentialAnnotation] == credential {
		return nil
	}
	patch, err := mergePatch(map[string]any{
		"uid": bootstrap.UID, "annotations": map[string]string{rkev1.AgentCredentialAnnotation: credential},
	})
	if err != nil {
		return err
	}
	if _, err := s.BootstrapClient.Patch(bootstrap.Namespace, bootstrap.Name, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("note what the machine of %s connects with: %w", bootstrap.Name, err)
	}
	return nil
}

// noteUse notes what a machine connects with that has not got it from here: agents of clusters that were taken over have had it before.
// The machine is let in whether or not that succeeds.
func (s *server) noteUse(account *corev1.ServiceAccount, token string) {
	bootstrap, _, err := s.ownersOf(account)
	if err == nil {
		err = s.remember(bootstrap, token)
	}
	if err != nil && !errors.Is(err, errUnknown) {
		s.Log.WithError(err).Warn("Cannot note what a machine connects with; after a move to another management cluster its agent would not be let in")
	}
}

// grant is what a token opens: a plan secret, and the token by which the API server knows who asks.
type grant struct {
	namespace, name, token string
}

// grantOf returns what a token opens. The error is errUnknown for what is neither the token of a living plan account nor a former one
// of its machine, and a refusal with 503 while a machine that has come from elsewhere has no account or token here yet.
func (s *server) grantOf(ctx context.Context, presented string) (grant, error) {
	if account := s.planOf(presented); account != nil {
		s.noteUse(account, presented)
		return grant{account.Namespace, account.Labels[rkev1.PlanSecretNameLabel], presented}, nil
	}
	bootstrap, err := s.formerly(presented)
	if err != nil {
		return grant{}, err
	}
	account, err := s.accountOf(bootstrap)
	if err != nil {
		return grant{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Wait)
	defer cancel()
	token, err := s.planToken(ctx, account)
	if err != nil {
		return grant{}, err
	}
	return grant{account.Namespace, account.Labels[rkev1.PlanSecretNameLabel], token}, nil
}

// formerly is the RKEBootstrap of the machine that connected with a token in another management cluster; errUnknown when there is none. A
// digest that is on two of them belongs to neither.
func (s *server) formerly(presented string) (*rkev1.RKEBootstrap, error) {
	if presented == "" {
		return nil, errUnknown
	}
	found, err := s.BootstrapCache.GetByIndex(indexFormerToken, tokenKey(presented))
	if err != nil {
		return nil, fmt.Errorf("look a former token up: %w", err)
	}
	if len(found) != 1 {
		return nil, errUnknown
	}
	writtenFor, key := formerKey(found[0])
	if subtle.ConstantTimeCompare([]byte(key), []byte(tokenKey(presented))) != 1 || writtenFor == found[0].UID {
		return nil, errUnknown
	}
	return found[0], nil
}

// accountOf is the account that may read the plan secret of the machine of an RKEBootstrap, if both live and belong together.
func (s *server) accountOf(bootstrap *rkev1.RKEBootstrap) (*corev1.ServiceAccount, error) {
	name := naming.PlanSecret(bootstrap.Name)
	account, err := s.ServiceAccountCache.Get(bootstrap.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, refused(http.StatusServiceUnavailable, "the plan account of this machine is not there yet")
	}
	if err != nil {
		return nil, fmt.Errorf("read from cache: %w", err)
	}
	labels := account.Labels
	if labels[rkev1.ServiceAccountRoleLabel] != rkev1.ServiceAccountRolePlan || labels[rkev1.PlanSecretNameLabel] != name || account.DeletionTimestamp != nil {
		return nil, errUnknown
	}
	owner, machine, err := s.ownersOf(account)
	if err != nil {
		return nil, err
	}
	if owner.UID != bootstrap.UID || owner.DeletionTimestamp != nil && machine.DeletionTimestamp == nil {
		return nil, errUnknown
	}
	return account, nil
}
