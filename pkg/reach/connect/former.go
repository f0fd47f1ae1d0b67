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

// A machine that was moved or restored to another management cluster still presents its previous token. The API server
// here cannot verify that token, and no Secret contains it. Only its digest exists, in an annotation of the
// RKEBootstrap. The RKEBootstrap moves too, and unlike the plan Secret, nodes cannot write to it.
//
// The annotation contains the UID of the RKEBootstrap for which it was written. While that UID is unchanged, this is
// the original management cluster. There the token has its own Secret, and deleting that Secret revokes the token.
//
// A former token grants the same access as before: the plan Secret of its machine. Requests continue with the token of
// the machine's current account. To revoke a former token, remove the annotation from the RKEBootstrap.

// indexFormerToken finds RKEBootstraps by the digest of their machine's token.
const indexFormerToken = "connect.drover.io/former-token"

// AgentCredential is the value of rkev1.AgentCredentialAnnotation for the token of a machine.
func AgentCredential(bootstrap types.UID, token string) string {
	return string(bootstrap) + ":" + naming.SHA256(token)
}

var credentialForm = regexp.MustCompile(`^([^:]+):([0-9a-f]{64})$`)

// formerKey returns the digest of an RKEBootstrap's annotation and the UID for which it was written. Both are empty
// without a valid annotation.
func formerKey(bootstrap *rkev1.RKEBootstrap) (writtenFor types.UID, key string) {
	parts := credentialForm.FindStringSubmatch(bootstrap.Annotations[rkev1.AgentCredentialAnnotation])
	if parts == nil {
		return "", ""
	}
	return types.UID(parts[1]), parts[2]
}

// remember stores the digest of a machine's token in its RKEBootstrap.
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
		return fmt.Errorf("record the credential of the machine of %s: %w", bootstrap.Name, err)
	}
	return nil
}

// recordCredential stores the digest of a token that Drover did not issue, because agents of adopted clusters already
// had theirs. The machine is admitted even if that fails.
func (s *server) recordCredential(account *corev1.ServiceAccount, token string) {
	bootstrap, _, err := s.ownersOf(account)
	if err == nil {
		err = s.remember(bootstrap, token)
	}
	if err != nil && !errors.Is(err, errUnknown) {
		s.Log.WithError(err).Warn("Cannot record the credential of a machine; its agent could not connect after a " +
			"move to another management cluster")
	}
}

// grant is the access of a token: a plan Secret, and the token that the API server knows.
type grant struct {
	namespace, name, token string
}

// key identifies the machine of the grant: NAMESPACE/NAME of its plan Secret.
func (g grant) key() string { return g.namespace + "/" + g.name }

// grantOf returns the access of a token. The error is errUnknown if the token belongs to no live plan account and is no
// former token of a machine. It is a refusal with 503 while a moved machine has no account or token here yet.
func (s *server) grantOf(ctx context.Context, presented string) (grant, error) {
	if account := s.planOf(presented); account != nil {
		s.recordCredential(account, presented)
		return grant{account.Namespace, account.Labels[rkev1.PlanSecretNameLabel], presented}, nil
	}
	bootstrap, err := s.formerBootstrap(presented)
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

// formerBootstrap returns the RKEBootstrap of the machine that used a token in another management cluster, or
// errUnknown. A digest on two RKEBootstraps is refused.
func (s *server) formerBootstrap(presented string) (*rkev1.RKEBootstrap, error) {
	if presented == "" {
		return nil, errUnknown
	}
	found, err := s.BootstrapCache.GetByIndex(indexFormerToken, naming.SHA256(presented))
	if err != nil {
		return nil, fmt.Errorf("look up a former token: %w", err)
	}
	if len(found) != 1 {
		return nil, errUnknown
	}
	writtenFor, key := formerKey(found[0])
	if subtle.ConstantTimeCompare([]byte(key), []byte(naming.SHA256(presented))) != 1 || writtenFor == found[0].UID {
		return nil, errUnknown
	}
	return found[0], nil
}

// accountOf returns the account that may read the plan Secret of an RKEBootstrap's machine, if both exist and belong
// together.
func (s *server) accountOf(bootstrap *rkev1.RKEBootstrap) (*corev1.ServiceAccount, error) {
	name := naming.PlanSecret(bootstrap.Name)
	account, err := s.ServiceAccountCache.Get(bootstrap.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, refused(http.StatusServiceUnavailable, "the plan account of this machine does not exist yet")
	}
	if err != nil {
		return nil, fmt.Errorf("read from cache: %w", err)
	}
	labels := account.Labels
	if labels[rkev1.ServiceAccountRoleLabel] != rkev1.ServiceAccountRolePlan ||
		labels[rkev1.PlanSecretNameLabel] != name || account.DeletionTimestamp != nil {
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
