package cmd

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/local/localfile"
	"github.com/drover-io/drover/pkg/local/managementplane/pki"
	"github.com/drover-io/drover/pkg/operate/backup"
)

// The authority that signs the certificates of the endpoints for machines. Stored, do not change: machines verify it
// for their whole life.
const (
	authorityName      = backup.AuthorityName
	authorityNamespace = controllers.SystemNamespace
)

// sharedAuthority returns the authority that all replicas share. It is stored in a Secret, and a replica's folder holds
// a copy. Machines learn the authority's checksum and can connect to any replica, before and after a restart. The first
// replica to create the Secret decides. The other replicas replace their proposals, which have signed nothing yet.
//
// Each management cluster has its own folder, so the authorities of other management clusters and of the embedded plane
// stay separate. The folder has the name of the instance if the cluster's identity cannot be read.
func sharedAuthority(ctx context.Context, client kubernetes.Interface, dir, instanceID string) (*pki.Authority, error) {
	identity, err := clusterIdentity(ctx, client)
	if apierrors.IsForbidden(err) && instanceID != "" {
		identity, err = url.PathEscape(instanceID), nil
	}
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, identity)
	secrets := client.CoreV1().Secrets(authorityNamespace)
	shared, err := secrets.Get(ctx, authorityName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if shared, err = proposeAuthority(ctx, client, dir); apierrors.IsAlreadyExists(err) {
			shared, err = secrets.Get(ctx, authorityName, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, fmt.Errorf(
			"authority of the endpoints for machines, Secret %s/%s: %w; --tls-cert-file replaces this authority",
			authorityNamespace, authorityName, err)
	}
	if err := copyAuthority(shared, dir); err != nil {
		return nil, fmt.Errorf("copy Secret %s/%s to %s: %w", authorityNamespace, authorityName, dir, err)
	}
	return pki.OpenAuthority(dir, authorityName, time.Now)
}

// proposeAuthority creates the Secret from the authority in the folder. An authority that machines trust already stays
// valid.
func proposeAuthority(ctx context.Context, client kubernetes.Interface, dir string) (*corev1.Secret, error) {
	if _, err := pki.OpenAuthority(dir, authorityName, time.Now); err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: authorityNamespace, Name: authorityName,
			Labels: map[string]string{rkev1.BackupLabel: "true"}},
		Type: corev1.SecretTypeTLS, Data: map[string][]byte{},
	}
	for key, file := range authorityFiles(dir) {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		secret.Data[key] = content
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: authorityNamespace}}
	_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return client.CoreV1().Secrets(authorityNamespace).Create(ctx, secret, metav1.CreateOptions{})
}

func authorityFiles(dir string) map[string]string {
	return map[string]string{
		corev1.TLSCertKey:       filepath.Join(dir, authorityName+".crt"),
		corev1.TLSPrivateKeyKey: filepath.Join(dir, authorityName+".key"),
	}
}

// copyAuthority copies the Secret's authority to the folder. It removes the old certificate first. A crash then leaves
// only a key or nothing, and never a certificate and a key that do not match.
func copyAuthority(secret *corev1.Secret, dir string) error {
	files, same := authorityFiles(dir), true
	for key, file := range files {
		if len(secret.Data[key]) == 0 {
			return fmt.Errorf(
				"the Secret has no %s: restore it from a backup; or delete it, and then create all machines again", key)
		}
		content, err := os.ReadFile(file)
		same = same && err == nil && bytes.Equal(content, secret.Data[key])
	}
	if same {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Remove(files[corev1.TLSCertKey]); err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, key := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
		if err := localfile.Write(files[key], secret.Data[key]); err != nil {
			return err
		}
	}
	return nil
}
