package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/naming"
)

// pollInterval is how often a waiting request looks into the caches.
const pollInterval = 100 * time.Millisecond

// bind ties a machine to the identity that presents its bootstrap token. Once the machine is a node, another identity is
// refused: a token that a pod reads from the machine's metadata cannot be used elsewhere. Until then the last identity
// counts, because a machine whose creation failed half-way is made anew with an empty disk. Install scripts are repeated, so a
// token may be used again, until it has not been used for a while: then it is good for no identity.
func (s *server) bind(who *identity, id string) error {
	switch known := who.machine.Labels[rkev1.MachineIDLabel]; {
	case known != "" && known != id && who.machine.Status.NodeRef.Name != "":
		return refused(http.StatusConflict, "this machine is registered with another identity already")
	case s.outOfUse(who.token):
		return errUnknown
	case known != id:
		// The resource version makes two machines that come at once collide.
		patch, err := mergePatch(map[string]any{
			"resourceVersion": who.machine.ResourceVersion, "labels": map[string]string{rkev1.MachineIDLabel: id},
		})
		if err != nil {
			return err
		}
		_, err = s.MachineClient.Patch(who.machine.Namespace, who.machine.Name, types.MergePatchType, patch)
		if apierrors.IsConflict(err) {
			return refused(http.StatusServiceUnavailable, "the machine has just changed, try again")
		}
		if err != nil {
			return fmt.Errorf("record the identity of machine %s: %w", who.machine.Name, err)
		}
		s.Log.WithField("namespace", who.machine.Namespace).WithField("machine", who.machine.Name).Info("Machine has introduced itself")
	}
	return s.recordUse(who.token)
}

// outOfUse tells whether the last use of a token is too long ago.
func (s *server) outOfUse(token *corev1.Secret) bool {
	last, err := time.Parse(time.RFC3339, token.Annotations[rkev1.LastAccessAnnotation])
	return err == nil && s.Now().Sub(last) > s.Reuse
}

// recordUse writes the time of use, but not for every repetition of an install script.
func (s *server) recordUse(token *corev1.Secret) error {
	last, err := time.Parse(time.RFC3339, token.Annotations[rkev1.LastAccessAnnotation])
	if err == nil && s.Now().Sub(last) < time.Minute {
		return nil
	}
	patch, err := mergePatch(map[string]any{"annotations": map[string]string{rkev1.LastAccessAnnotation: s.Now().UTC().Format(time.RFC3339)}})
	if err != nil {
		return err
	}
	if _, err := s.SecretClient.Patch(token.Namespace, token.Name, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("record the use of token %s: %w", token.Name, err)
	}
	return nil
}

func mergePatch(metadata map[string]any) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return patch, nil
}

// planAccount waits for the account the agent of a machine works with.
func (s *server) planAccount(ctx context.Context, who *identity) (*corev1.ServiceAccount, error) {
	var found *corev1.ServiceAccount
	err := until(ctx, func() (bool, error) {
		accounts, err := s.ServiceAccountCache.GetByIndex(indexPlanAccount, who.machine.Namespace+"/"+who.machine.Name)
		if err != nil {
			return false, fmt.Errorf("look the plan account up: %w", err)
		}
		for _, account := range accounts {
			owner := ownerOf(account.OwnerReferences, "RKEBootstrap")
			if owner != nil && owner.UID == who.bootstrap.UID && account.Labels[rkev1.PlanSecretNameLabel] != "" && account.DeletionTimestamp == nil {
				found = account
			}
		}
		return found != nil, nil
	})
	return found, waiting(err, "the plan account of this machine is not there yet")
}

// planToken returns the token of a plan account. It makes the Secret that holds it when there is none, and waits until the
// token controller has filled it in.
func (s *server) planToken(ctx context.Context, account *corev1.ServiceAccount) (string, error) {
	name := naming.SafeConcat(account.Name, "token")
	if _, namespacedName, referenced := cutReference(account); referenced {
		name = namespacedName
	}
	secret, err := s.SecretCache.Get(account.Namespace, name)
	if apierrors.IsNotFound(err) {
		secret, err = s.createToken(account, naming.SafeConcat(account.Name, "token"))
	}
	if err != nil {
		return "", fmt.Errorf("make the token of account %s: %w", account.Name, err)
	}
	name = secret.Name
	err = until(ctx, func() (bool, error) {
		current, err := s.SecretCache.Get(account.Namespace, name)
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read from cache: %w", err)
		}
		secret = current
		return isAccountToken(current) && types.UID(current.Annotations[corev1.ServiceAccountUIDKey]) == account.UID, nil
	})
	if err != nil {
		return "", waiting(err, "the plan token of this machine is not there yet")
	}
	return string(accountToken(secret)), nil
}

// cutReference returns the token Secret that an account names, if it is in the account's own namespace.
func cutReference(account *corev1.ServiceAccount) (namespace, name string, ok bool) {
	reference := account.Annotations[rkev1.ServiceAccountSecretRefAnnotation]
	for i := range reference {
		if reference[i] == '/' {
			namespace, name = reference[:i], reference[i+1:]
			return namespace, name, namespace == account.Namespace && name != ""
		}
	}
	return "", "", false
}

// createToken makes the Secret under a name that follows from the account's, so that replicas asked at once make one.
func (s *server) createToken(account *corev1.ServiceAccount, name string) (*corev1.Secret, error) {
	yes := true
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   account.Namespace,
			Name:        name,
			Labels:      map[string]string{rkev1.ServiceAccountNameLabel: account.Name},
			Annotations: map[string]string{corev1.ServiceAccountNameKey: account.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "ServiceAccount", Name: account.Name, UID: account.UID, Controller: &yes,
			}},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	created, err := s.SecretClient.Create(secret)
	if apierrors.IsAlreadyExists(err) {
		return secret, nil // another replica was faster, or our cache is behind; the caller waits for the cache
	}
	return created, err
}

// until calls done until it says yes or fails, or the context ends.
func until(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// waiting turns the end of a wait into the request to come again.
func waiting(err error, message string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return refused(http.StatusServiceUnavailable, message)
	}
	return err
}
