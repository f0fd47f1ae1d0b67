package tokens

import (
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Creator creates Secrets.
type Creator interface {
	Create(*corev1.Secret) (*corev1.Secret, error)
}

// Read reads the tokens from the cluster state secret. The error names the mistake and never a value.
func Read(secret *corev1.Secret) (render.Tokens, error) {
	if secret.Type != rkev1.SecretTypeClusterState {
		return render.Tokens{}, fmt.Errorf("secret %s/%s must have type %s", secret.Namespace, secret.Name, rkev1.SecretTypeClusterState)
	}
	found := render.Tokens{Server: string(secret.Data[rkev1.ServerTokenKey]), Agent: string(secret.Data[rkev1.AgentTokenKey])}
	if found.Server == "" || found.Agent == "" {
		return render.Tokens{}, fmt.Errorf("secret %s/%s must have values for the keys %s and %s",
			secret.Namespace, secret.Name, rkev1.ServerTokenKey, rkev1.AgentTokenKey)
	}
	return found, nil
}

// Create creates the cluster state secret with new tokens drawn from random, and returns it. It returns nil if the
// secret exists, because its tokens are those of the cluster.
func Create(secrets Creator, controlPlane *rkev1.RKEControlPlane, random io.Reader) (*corev1.Secret, error) {
	if controlPlane.UID == "" {
		return nil, errors.New("create the cluster state secret: the control plane has no UID")
	}
	server, err := Generate(random)
	if err != nil {
		return nil, err
	}
	agent, err := Generate(random)
	if err != nil {
		return nil, err
	}
	created, err := secrets.Create(&corev1.Secret{
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
	})
	if apierrors.IsAlreadyExists(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("create the cluster state secret: %w", err)
	}
	return created, nil
}

// Generate draws a token of 54 characters, each equally likely, from an alphabet without vowels and look-alikes.
func Generate(random io.Reader) (string, error) {
	const alphabet = naming.RandomTokenAlphabet
	const limit = 256 - 256%len(alphabet) // bytes above would favor the first characters
	token := make([]byte, 0, naming.RandomTokenLength)
	draw := make([]byte, naming.RandomTokenLength)
	for len(token) < naming.RandomTokenLength {
		if _, err := io.ReadFull(random, draw); err != nil {
			return "", fmt.Errorf("draw a random token: %w", err)
		}
		for _, b := range draw {
			if int(b) < limit && len(token) < naming.RandomTokenLength {
				token = append(token, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(token), nil
}
