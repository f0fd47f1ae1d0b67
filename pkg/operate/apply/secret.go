package apply

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// CreateSecret creates a Secret.
func (w *Writer) CreateSecret(ctx context.Context, secret *corev1.Secret) error {
	request := w.client.Post().AbsPath("/api/v1/namespaces", secret.Namespace, "secrets")
	return writeSecret(ctx, request, "create", secret)
}

// ReplaceSecret writes a Secret if it is stored in the version that was read. Otherwise it returns edit.ErrChanged.
func (w *Writer) ReplaceSecret(ctx context.Context, secret *corev1.Secret) error {
	return writeSecret(ctx, w.client.Put().AbsPath("/api/v1/namespaces", secret.Namespace, "secrets", secret.Name),
		"replace", secret)
}

func writeSecret(ctx context.Context, request *rest.Request, verb string, secret *corev1.Secret) error {
	body, err := json.Marshal(secret)
	if err != nil {
		return fmt.Errorf("encode the Secret: %w", err)
	}
	err = request.MaxRetries(0).Param("fieldValidation", metav1.FieldValidationStrict).
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	return unwritten(verb+" Secret "+secret.Namespace+"/"+secret.Name, err)
}
