package access

import (
	"context"
	"crypto/rand"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/tenancy"
)

// Reviewer reports whether an author may get a Secret.
type Reviewer func(ctx context.Context, author tenancy.Author, secret types.NamespacedName) (bool, error)

// Review asks the API server with a SubjectAccessReview.
func Review(client kubernetes.Interface) Reviewer {
	return func(ctx context.Context, author tenancy.Author, secret types.NamespacedName) (bool, error) {
		may, err := ask(ctx, client, author, authorizationv1.ResourceAttributes{
			Verb: "get", Version: "v1", Resource: "secrets", Namespace: secret.Namespace, Name: secret.Name,
		})
		if err != nil {
			return false, fmt.Errorf("ask whether %s may get Secret %s: %w", author.Username, secret, err)
		}
		return may, nil
	}
}

// Truster reports whether a user may bring Clusters from another management cluster, which requires the right to create
// clusters.management.cattle.io.
type Truster func(ctx context.Context, who tenancy.Author) (bool, error)

// Trust asks the API server with a SubjectAccessReview.
func Trust(client kubernetes.Interface) Truster {
	return func(ctx context.Context, who tenancy.Author) (bool, error) {
		may, err := ask(ctx, client, who, authorizationv1.ResourceAttributes{
			// As in policy drover-management-name.
			Verb: "create", Group: "management.cattle.io", Version: "*", Resource: "clusters",
		})
		if err != nil {
			return false, fmt.Errorf("ask whether %s may create clusters.management.cattle.io: %w", who.Username, err)
		}
		return may, nil
	}
}

func ask(ctx context.Context, client kubernetes.Interface, who tenancy.Author,
	what authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups, ResourceAttributes: &what,
	}}
	if len(who.Extra) > 0 {
		review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
	}
	for key, values := range who.Extra {
		review.Spec.Extra[key] = values
	}
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed && !answer.Status.Denied, nil
}

// KeySecret holds the key that signs grants, in Drover's own namespace. It is stored.
const KeySecret = "drover-grants"

const keyField = "key"

// Key returns the key that signs grants. All replicas share it, and the first one creates it. Grants are valid only
// with the key that signed them, so backups contain it.
func Key(ctx context.Context, client kubernetes.Interface, namespace string) ([]byte, error) {
	secrets := client.CoreV1().Secrets(namespace)
	found, err := secrets.Get(ctx, KeySecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		key := make([]byte, tenancy.KeySize)
		_, _ = rand.Read(key) // never fails
		found, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: KeySecret,
				Labels: map[string]string{rkev1.BackupLabel: "true"}},
			Data: map[string][]byte{keyField: key},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			found, err = secrets.Get(ctx, KeySecret, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the key that signs grants, Secret %s/%s: %w", namespace, KeySecret, err)
	}
	key := found.Data[keyField]
	if len(key) != tenancy.KeySize {
		return nil, fmt.Errorf("key %q of Secret %s/%s has %d bytes and must have %d: delete the Secret, and Drover "+
			"creates another one; "+
			"then restart all replicas, and renew the grants of Clusters that name Secrets of other namespaces",
			keyField, namespace, KeySecret, len(key), tenancy.KeySize)
	}
	return key, nil
}
