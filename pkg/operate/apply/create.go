package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/operate/edit"
)

// Create creates the objects of a new cluster, in their order. Before that, the API server checks all of them without a
// write. The Cluster is the last object: without it, Drover deletes the machine configs after an hour.
func (w *Writer) Create(ctx context.Context, driver string, objects []*unstructured.Unstructured) error {
	var problems []error
	for _, object := range objects {
		if err := w.create(ctx, driver, object, true); err != nil {
			problems = append(problems, refused(object, err))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("nothing was written: %w", errors.Join(problems...))
	}
	for _, object := range objects {
		if err := w.create(ctx, driver, object, false); err != nil {
			return unwritten("create "+object.GetKind()+" "+object.GetName(), err)
		}
	}
	return nil
}

func (w *Writer) create(ctx context.Context, driver string, object *unstructured.Unstructured, dryRun bool) error {
	resource := clusterResource.Resource
	if object.GetKind() != "Cluster" {
		resource = edit.ConfigNames(driver).Plural
	}
	body, err := json.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	request := w.client.Post().MaxRetries(0).AbsPath("/apis", object.GetAPIVersion(), "namespaces",
		object.GetNamespace(), resource).Param("fieldValidation", metav1.FieldValidationStrict).
		SetHeader("Content-Type", "application/json").Body(body)
	if dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	return request.Do(ctx).Error()
}

// refused describes the API server's refusal, with a line for each field.
func refused(object *unstructured.Unstructured, err error) error {
	name := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return fmt.Errorf("%s: %w", name, err)
	}
	lines := []string{name + " is not valid:"}
	for _, cause := range status.Status().Details.Causes {
		lines = append(lines, "  "+strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
	}
	return errors.New(strings.Join(lines, "\n"))
}
