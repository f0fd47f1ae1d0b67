package clusteragent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/endpointtoken"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// createKeys creates the keys of a cluster's authorized endpoint if they do not exist. Deleting the keys therefore
// creates new ones, and invalidates all tokens.
func (h *handler) createKeys(cluster *provv1.Cluster) error {
	if !endpointtoken.Wanted(cluster) {
		return nil
	}
	stored, err := clients.Optional(h.secrets.Get(cluster.Namespace, naming.EndpointKeys(cluster.Name)))
	if err != nil || stored != nil {
		return err
	}
	keys, err := endpointtoken.NewKeys(rand.Reader, time.Now())
	if err != nil {
		return err
	}
	secret, err := keys.Secret(cluster)
	if err != nil {
		return err
	}
	return h.write(secret, false)
}

// endpoint reconciles a cluster's authorized endpoint. It installs the token authenticator if the endpoint is enabled.
// If the endpoint was disabled, it removes the authenticator and then the keys. Existing keys show that there was an
// endpoint.
//
// settled means that the cluster's agent is up to date. The authenticator is updated only after the agent, so that the
// agent's rollout finds an image that cannot be pulled, in one cluster first. Keys do not wait.
func (u *updates) endpoint(client kubernetes.Interface, facts *clustermanifest.Facts, settled bool) error {
	stored, cluster := facts.EndpointKeys, facts.Cluster
	switch {
	case stored == nil, stored.Type != rkev1.SecretTypeEndpointKeys && !endpointtoken.Wanted(cluster):
		return nil // an event of the keys requeues the Cluster
	case !endpointtoken.Wanted(cluster):
		return u.withoutEndpoint(client, stored)
	}
	keys, err := endpointtoken.KeysOf(stored)
	if err != nil {
		return err
	}
	if keys, err = u.rotateKeys(stored, keys); err != nil {
		return err
	}
	trust, err := keys.Trust(endpointtoken.Audience(facts.Management.Name, facts.Management.UID))
	if err != nil {
		return err
	}
	wanted, err := clustermanifest.DesiredAuth(u.Source, *facts, trust)
	if err != nil {
		return err
	}
	return u.applyAuth(client, wanted, settled)
}

// rotateKeys rotates the signing key when it is due. It runs only for a cluster that is reachable and can learn the new
// key.
func (u *updates) rotateKeys(stored *corev1.Secret, keys endpointtoken.Keys) (endpointtoken.Keys, error) {
	turned, changed, err := keys.Turn(rand.Reader, time.Now())
	if err != nil || !changed {
		return keys, err
	}
	secret := stored.DeepCopy()
	if secret.Data, err = turned.Data(); err != nil {
		return keys, err
	}
	_, err = u.Secrets.Update(secret)
	switch {
	// The cache is behind, and its event requeues the Cluster.
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return keys, nil
	case err != nil:
		return keys, fmt.Errorf("write secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return turned, nil
}

// applyAuth applies the keys, and then the token authenticator, if they differ. It replaces an existing authenticator
// only if settled.
func (u *updates) applyAuth(client kubernetes.Interface, wanted clustermanifest.AuthObjects, settled bool) error {
	keys, err := client.CoreV1().ConfigMaps(clustermanifest.Namespace).Get(u.ctx, clustermanifest.Auth,
		metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the token authenticator: %w", err)
	}
	if err != nil || keys.Data[clustermanifest.TrustKey] != wanted.Keys.Data[clustermanifest.TrustKey] ||
		digest(keys) != digest(wanted.Keys) {
		if err := proxy.Apply(u.ctx, client.CoreV1().RESTClient(), wanted.Keys); err != nil {
			return err
		}
	}
	server, err := client.AppsV1().DaemonSets(clustermanifest.Namespace).Get(u.ctx, clustermanifest.Auth,
		metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the token authenticator: %w", err)
	}
	if err == nil && (digest(server) == digest(wanted.Server) || !settled) {
		return nil
	}
	return proxy.Apply(u.ctx, client.CoreV1().RESTClient(), wanted.Server)
}

func digest(object metav1.Object) string {
	return object.GetAnnotations()[clustermanifest.DigestAnnotation]
}

// withoutEndpoint removes the token authenticator from a cluster, if Drover installed it, and then deletes the keys.
func (u *updates) withoutEndpoint(client kubernetes.Interface, keys *corev1.Secret) error {
	servers, maps := client.AppsV1().DaemonSets(clustermanifest.Namespace),
		client.CoreV1().ConfigMaps(clustermanifest.Namespace)
	err := errors.Join(
		remove(u, servers.Get, servers.Delete),
		remove(u, maps.Get, maps.Delete),
	)
	if err != nil {
		return err
	}
	err = u.Secrets.Delete(keys.Namespace, keys.Name,
		&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(keys.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete secret %s/%s: %w", keys.Namespace, keys.Name, err)
	}
	return nil
}

type (
	getter[T any] func(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	deleter       func(ctx context.Context, name string, o metav1.DeleteOptions) error
)

// remove deletes an object of the token authenticator if Drover installed it.
func remove[T metav1.Object](u *updates, get getter[T], gone deleter) error {
	found, err := get(u.ctx, clustermanifest.Auth, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && digest(found) == "" {
		return nil
	}
	if err == nil {
		err = gone(u.ctx, clustermanifest.Auth,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(found.GetUID()))})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the token authenticator: %w", err)
	}
	return nil
}

// endpointVersion changes with every fact that the endpoint of a cluster is made from, except those of the agent.
func endpointVersion(facts *clustermanifest.Facts) string {
	if facts.EndpointKeys == nil {
		return ""
	}
	loopback := ""
	if config := facts.Cluster.Spec.RKEConfig; config != nil {
		loopback = distro.LoopbackHost(config.Networking)
	}
	return fmt.Sprint(endpointtoken.Wanted(facts.Cluster), "/", loopback, "/", facts.EndpointKeys.UID, "/",
		facts.EndpointKeys.ResourceVersion)
}
