package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// pollInterval is how often a waiting request checks the caches.
const pollInterval = 100 * time.Millisecond

// bind binds a machine permanently to the identity that first presents its bootstrap token
// (docs/wire/endpoints.md#connect-a-machine). So a pod that reads the token, for example from the machine's metadata,
// cannot use it. The same identity may connect again until the token is invalidated, because install scripts retry and
// answers get lost. A machine stores its identity on its disk, and a machine that lost its disk is a new Machine. To
// accept another identity, a user removes the label from the Machine.
func (s *server) bind(who *identity, id string) error {
	known := who.machine.Labels[rkev1.MachineIDLabel]
	switch {
	case known != "" && known != id:
		return refused(http.StatusConflict, "this machine is already registered with another identity; install the "+
			"agent with that identity ("+
			"CATTLE_ID), or remove the label "+rkev1.MachineIDLabel+" from its Machine to accept the new identity")
	case known == "":
		if err := s.recordIdentity(who.machine, id); err != nil {
			return err
		}
	}
	if who.token.Annotations[rkev1.LastAccessAnnotation] == "" {
		if err := s.alone(who.machine, id); err != nil {
			return err
		}
	}
	return s.recordUse(who.token)
}

// alone detects another Machine with the same identity, and then removes the identity from this one. Machines cloned
// from one disk may reach different replicas at the same moment, and caches do not show the other write yet. A live
// list after the own write always shows an earlier write. The use of the token is recorded later. If a replica stops
// before that, the next one repeats this check.
func (s *server) alone(machine *clusterv1.Machine, id string) error {
	holders, err := s.MachineClient.List(metav1.NamespaceAll, metav1.ListOptions{LabelSelector: rkev1.MachineIDLabel +
		"=" + id})
	if err != nil {
		return fmt.Errorf("look for other machines with the identity of %s: %w", machine.Name, err)
	}
	if !slices.ContainsFunc(holders.Items, func(m clusterv1.Machine) bool { return m.UID != machine.UID }) {
		return nil
	}
	patch, err := mergePatch(map[string]any{"labels": map[string]any{rkev1.MachineIDLabel: nil}})
	if err != nil {
		return err
	}
	if _, err := s.MachineClient.Patch(machine.Namespace, machine.Name, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("remove the identity of machine %s: %w", machine.Name, err)
	}
	return errTaken
}

// errTaken explains what to do about a host that was cloned from another one's disk.
var errTaken = refused(http.StatusConflict,
	"another machine has this identity; remove /etc/rancher/agent/cattle-id, which was copied "+
		"or belongs to an earlier machine, and install the agent again")

// errChanged means that the machine was changed at the same time.
var errChanged = refused(http.StatusServiceUnavailable, "the machine has changed; try again")

// recordIdentity records the identity of a machine without one.
func (s *server) recordIdentity(machine *clusterv1.Machine, id string) error {
	taken, err := s.taken(machine, id)
	if err != nil {
		return err
	}
	if taken {
		return errTaken
	}
	// With the resource version, two simultaneous identities conflict.
	patch, err := mergePatch(map[string]any{
		"resourceVersion": machine.ResourceVersion, "labels": map[string]string{rkev1.MachineIDLabel: id},
	})
	if err != nil {
		return err
	}
	_, err = s.MachineClient.Patch(machine.Namespace, machine.Name, types.MergePatchType, patch)
	if apierrors.IsConflict(err) {
		return errChanged
	}
	if err != nil {
		return fmt.Errorf("record the identity of machine %s: %w", machine.Name, err)
	}
	s.Log.WithField("namespace", machine.Namespace).WithField("cluster", machine.Spec.ClusterName).WithField("machine",
		machine.Name).Info(
		"Recorded the identity of a machine")
	return nil
}

// taken reports whether another Machine of any cluster has an identity. Otherwise it claims the identity for this
// machine.
func (s *server) taken(machine *clusterv1.Machine, id string) (bool, error) {
	holders, err := s.MachineCache.GetByIndex(indexMachineID, id)
	if err != nil {
		return false, fmt.Errorf("look up the identity: %w", err)
	}
	for _, holder := range holders {
		if holder.UID != machine.UID {
			return true, nil
		}
	}
	return !s.claims.claim(id, machine.UID, s.Now()), nil
}

// claimFor is how long the caches may take to show a recorded identity.
const claimFor = time.Minute

// claims are recorded or pending identities that the caches may not show yet, because machines cloned from one disk
// start at the same time. Each replica has its own claims, and alone covers the other replicas.
type claims struct {
	mu   sync.Mutex
	held map[string]claim
}

type claim struct {
	by types.UID
	at time.Time
}

// claim reports whether the machine may have the identity.
func (c *claims) claim(id string, by types.UID, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.held, func(_ string, old claim) bool { return now.Sub(old.at) >= claimFor })
	if old, held := c.held[id]; held && old.by != by {
		return false
	}
	if c.held == nil {
		c.held = map[string]claim{}
	}
	c.held[id] = claim{by: by, at: now}
	return true
}

// recordUse records the time of use, at most once a minute.
func (s *server) recordUse(token *corev1.Secret) error {
	last, err := time.Parse(time.RFC3339, token.Annotations[rkev1.LastAccessAnnotation])
	if err == nil && s.Now().Sub(last) < time.Minute {
		return nil
	}
	patch, err := mergePatch(
		map[string]any{
			"annotations": map[string]string{rkev1.LastAccessAnnotation: s.Now().UTC().Format(time.RFC3339)}})
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

// planAccount waits for the service account of a machine's agent.
func (s *server) planAccount(ctx context.Context, who *identity) (*corev1.ServiceAccount, error) {
	var found *corev1.ServiceAccount
	err := until(ctx, func() (bool, error) {
		accounts, err := s.ServiceAccountCache.GetByIndex(indexPlanAccount, who.machine.Namespace+"/"+who.machine.Name)
		if err != nil {
			return false, fmt.Errorf("look up the plan account: %w", err)
		}
		for _, account := range accounts {
			owner := ownerOf(account.OwnerReferences, "RKEBootstrap")
			if owner != nil && owner.UID == who.bootstrap.UID && account.Labels[rkev1.PlanSecretNameLabel] != "" &&
				account.DeletionTimestamp == nil {
				found = account
			}
		}
		return found != nil, nil
	})
	return found, waiting(err, "the plan account of this machine does not exist yet")
}

// planToken returns the token of a plan account. It creates the token Secret if necessary and waits until the token
// controller has filled it.
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
		return isAccountToken(current) && types.UID(current.Annotations[corev1.ServiceAccountUIDKey]) == account.UID,
			nil
	})
	if err != nil {
		return "", waiting(err, "the plan token of this machine does not exist yet")
	}
	return string(accountToken(secret)), nil
}

// cutReference returns the token Secret named by an account, if it is in the account's namespace.
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

// createToken creates the Secret. Its name depends only on the account's name, so that concurrent replicas create a
// single one.
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
		return secret, nil // another replica created it, or the cache is stale; the caller waits for the cache
	}
	return created, err
}

// until calls done repeatedly until it returns true or an error, or the context ends.
func until(ctx context.Context, done func() (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) { return done() })
}

// waiting converts a timeout to a refusal with 503.
func waiting(err error, message string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return refused(http.StatusServiceUnavailable, message)
	}
	return err
}
