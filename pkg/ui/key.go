package ui

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// KeySize is the length in bytes of the key that seals sessions.
	KeySize = 32
	// KeySecret holds the key in Drover's own namespace. It is stored. Its deletion ends all sessions.
	KeySecret = "drover-ui-sessions" //nolint:gosec // the name of a Secret
	keyField  = "key"
	// keyAge is how long a replica uses the key that it has read. After a deletion of the Secret, replicas agree on
	// another key within this time.
	keyAge = time.Minute
)

func randomKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// Key returns a function for Options.Key. All replicas share the key in Secret KeySecret, and the first one that needs
// it creates it.
func Key(client kubernetes.Interface, namespace string) func(context.Context) ([]byte, error) {
	var mu sync.Mutex
	var key []byte
	var read time.Time
	return func(ctx context.Context) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if key != nil && time.Since(read) < keyAge {
			return key, nil
		}
		found, err := ensureKey(ctx, client, namespace)
		if err != nil {
			return nil, err
		}
		key, read = found, time.Now()
		return key, nil
	}
}

func ensureKey(ctx context.Context, client kubernetes.Interface, namespace string) ([]byte, error) {
	secrets := client.CoreV1().Secrets(namespace)
	found, err := secrets.Get(ctx, KeySecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: KeySecret},
			Data:       map[string][]byte{keyField: randomKey()},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			found, err = secrets.Get(ctx, KeySecret, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the key that seals sessions, Secret %s/%s: %w", namespace, KeySecret, err)
	}
	if key := found.Data[keyField]; len(key) == KeySize {
		return key, nil
	}
	return nil, fmt.Errorf("key %q of Secret %s/%s must have %d bytes: delete the Secret, and Drover creates another "+
		"one",
		keyField, namespace, KeySecret, KeySize)
}
