package planner

import (
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// A cluster has two join tokens in the cluster state secret: one for servers, and one for workers. Drover draws them at
// random once and never changes them: joined nodes keep using them, and machines join a restored cluster only with the
// tokens of its backup. Tokens never appear in logs or errors.

// readTokens reads the tokens from the cluster state secret. The problem names the mistake and never a value.
func readTokens(secret *corev1.Secret) planner.Tokens {
	name := secret.Namespace + "/" + secret.Name
	if secret.Type != rkev1.SecretTypeClusterState {
		return planner.Tokens{Problem: "secret " + name + " must have type " + rkev1.SecretTypeClusterState}
	}
	server, agent := string(secret.Data[rkev1.ServerTokenKey]), string(secret.Data[rkev1.AgentTokenKey])
	if server == "" || agent == "" {
		return planner.Tokens{Problem: fmt.Sprintf("secret %s must have values for the keys %s and %s",
			name, rkev1.ServerTokenKey, rkev1.AgentTokenKey)}
	}
	return planner.Tokens{Exists: true, Values: render.Tokens{Server: server, Agent: agent}}
}

func (a *actor) createTokens() error {
	secret, err := newTokens(a.cp, a.Random)
	if err != nil {
		return err
	}
	created, err := a.Secrets.Create(secret)
	if apierrors.IsAlreadyExists(err) {
		return nil // its tokens are those of the cluster
	}
	if err != nil {
		return fmt.Errorf("create the cluster state secret: %w", err)
	}
	a.note(kindSecret, created)
	a.log.Info("created the join tokens")
	return nil
}

// newTokens returns the cluster state secret with new tokens drawn from random.
func newTokens(controlPlane *rkev1.RKEControlPlane, random io.Reader) (*corev1.Secret, error) {
	if controlPlane.UID == "" {
		return nil, errors.New("create the cluster state secret: the control plane has no UID")
	}
	server, err := naming.RandomToken(random)
	if err != nil {
		return nil, err
	}
	agent, err := naming.RandomToken(random)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: controlPlane.Namespace,
			Name:      naming.ClusterState(controlPlane.Name),
			Labels: map[string]string{
				rkev1.BackupLabel:      "true",
				rkev1.ClusterNameLabel: controlPlane.Name,
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: rkev1.SchemeGroupVersion.String(),
				Kind:       "RKEControlPlane",
				Name:       controlPlane.Name,
				UID:        controlPlane.UID,
			}},
		},
		Type: rkev1.SecretTypeClusterState,
		Data: map[string][]byte{rkev1.ServerTokenKey: []byte(server), rkev1.AgentTokenKey: []byte(agent)},
	}, nil
}
