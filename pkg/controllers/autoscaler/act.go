package autoscaler

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/decide/autoscaling"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

// act writes the account and its kubeconfig, and returns the problem that the condition shows.
func (h *handler) act(facts *Facts) error {
	cluster := facts.cluster
	isForeign := facts.secret != nil && !isKubeconfigOf(facts.secret, facts)
	switch {
	case !autoscaling.Wanted(cluster) && isForeign:
		return h.removeAccount(facts)
	case !autoscaling.Wanted(cluster):
		return errors.Join(h.removeAccount(facts), h.removeSecret(facts.secret))
	case isForeign:
		return outcome.Stall(autoscaling.ReasonNameTaken, fmt.Sprintf("Secret %s/%s exists, and Drover "+
			"did not make it for this Cluster: delete or rename it", cluster.Namespace, facts.secret.Name))
	}
	if !naming.IsServerURL(h.Settings.ServerURL) {
		return outcome.Stall(topology.ReasonWithoutEffect, "an autoscaler cannot reach this Drover: set --server-url")
	}
	_, err := h.Apply.Apply(h.ctx, handlerName, cluster, applyset.ControllerRef, setKinds(),
		autoscaling.Account(cluster, facts.deployments, facts.machines))
	foreign, isForeign := errors.AsType[*applyset.ForeignError](err)
	switch {
	case isForeign && len(foreign.Objects) > 0:
		return outcome.Stall(autoscaling.ReasonNameTaken, fmt.Sprintf("objects with the name of the autoscaler's "+
			"account %s/%s exist, and Drover did not make them for this Cluster: delete or rename the ServiceAccount, "+
			"Role and RoleBinding", cluster.Namespace, naming.Autoscaler(cluster.Namespace, cluster.Name)))
	case err != nil:
		return fmt.Errorf("write the account of the autoscaler: %w", err)
	case facts.account == nil:
		return nil // its event requeues the Cluster
	}
	return h.writeSecret(facts)
}

func isKubeconfigOf(secret *corev1.Secret, facts *Facts) bool {
	cluster, ok := autoscaling.IsKubeconfig(secret)
	return ok && cluster == facts.cluster.Name && topology.Belongs(secret, facts.cluster)
}

// writeSecret writes the kubeconfig, with a new token if that is due. It requeues the Cluster for the next renewal.
func (h *handler) writeSecret(facts *Facts) error {
	cluster, now := facts.cluster, h.Now()
	behind := h.written.Left(string(facts.account.UID), now) > 0
	if behind || facts.secret != nil && h.written.Behind(facts.secret, now) {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, ownwrites.BelievedAfter)
		return nil // the cache is behind
	}
	token, renewal, err := h.token(facts, now)
	if err != nil {
		return err
	}
	wanted, err := h.kubeconfig().Secret(cluster, facts.secret, token)
	if err != nil {
		return err
	}
	h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, renewal.Sub(now))
	if err := h.store(facts, wanted, now); err != nil && !isLate(err) {
		return fmt.Errorf("write Secret %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	return nil
}

// token returns the present token, or a new one if that is due, and when the next one is due.
func (h *handler) token(facts *Facts, now time.Time) (string, time.Time, error) {
	token, renewal := autoscaling.TokenIn(facts.secret, facts.account.UID, now)
	if token != "" {
		return token, renewal, nil
	}
	account := types.NamespacedName{Namespace: facts.cluster.Namespace, Name: facts.account.Name}
	token, err := h.Issue(h.ctx, account, autoscaling.TokenLife)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue a token for the autoscaler: %w", err)
	}
	parsed, err := autoscaling.ParseToken(token)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue a token for the autoscaler: %w", err)
	}
	return token, parsed.Renewal(), nil
}

// store makes the Secret equal to the wanted one.
func (h *handler) store(facts *Facts, wanted *corev1.Secret, now time.Time) error {
	if facts.secret == nil {
		_, err := h.Secrets.Create(wanted)
		if err == nil {
			h.written.Did(string(facts.account.UID), now)
		}
		return err
	}
	if equality.Semantic.DeepEqual(facts.secret, wanted) {
		return nil
	}
	_, err := h.Secrets.Update(wanted)
	if err == nil {
		h.written.Replaced(facts.secret.UID, facts.secret.ResourceVersion, now)
	}
	return err
}

// isLate reports that the cache is behind, and that its event requeues the Cluster.
func isLate(err error) bool {
	return apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}

// removeAccount deletes the account, which ends its tokens.
func (h *handler) removeAccount(facts *Facts) error {
	if facts.account == nil && facts.role == nil {
		return nil
	}
	if _, err := h.Apply.Purge(h.ctx, handlerName, clusterKind, facts.cluster.Namespace, facts.cluster.Name,
		setKinds()); err != nil {
		return fmt.Errorf("delete the account of the autoscaler: %w", err)
	}
	return nil
}

func (h *handler) removeSecret(secret *corev1.Secret) error {
	if secret == nil || secret.DeletionTimestamp != nil {
		return nil
	}
	err := h.Secrets.Delete(secret.Namespace, secret.Name,
		&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))})
	if err != nil && !isLate(err) {
		return fmt.Errorf("delete Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}
