package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/operate/edit"
)

// Create creates the objects of a new cluster, in their order. Before that, the API server checks all of them without a
// write. The Cluster is the last object: without it, Drover deletes the machine configs after an hour. A machine config
// that an earlier attempt has created stays. Create returns a PartialError if only some objects are written.
func (w *Writer) Create(ctx context.Context, objects []*unstructured.Unstructured) error {
	var missing []*unstructured.Unstructured
	var problems []error
	for _, object := range objects {
		_, err := w.put(ctx, nil, object, true)
		switch {
		case err == nil:
			missing = append(missing, object)
		case !apierrors.IsAlreadyExists(err) || resourceOf(object) == clusterResource:
			problems = append(problems, refused(object, err))
		case !w.isLeft(ctx, object):
			problems = append(problems, fmt.Errorf("%s exists, with other values or with an owner; delete it, or "+
				"choose another name: %w", nameOf(object), err))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("nothing was written: %w", errors.Join(problems...))
	}
	var written []string
	for _, object := range missing {
		_, err := w.put(ctx, nil, object, false)
		if err = unwritten("create "+nameOf(object), err); err != nil && len(written) > 0 {
			return &PartialError{written, err}
		}
		if err != nil {
			return err
		}
		written = append(written, nameOf(object))
	}
	return nil
}

// isLeft reports whether a machine config is what a creation would make, and no cluster owns it. The API server fills
// in the defaults of a copy, because a user who may create machine configs may not always change them.
func (w *Writer) isLeft(ctx context.Context, object *unstructured.Unstructured) bool {
	live, err := w.get(ctx, resourceOf(object), object.GetNamespace(), object.GetName())
	if err != nil || live.GetDeletionTimestamp() != nil || len(live.GetOwnerReferences()) > 0 {
		return false
	}
	made := object.DeepCopy()
	made.SetName("")
	made.SetGenerateName(object.GetName() + "-")
	made, err = w.put(ctx, nil, made, true)
	if err != nil {
		return false
	}
	made.SetName(live.GetName())
	return equality.Semantic.DeepEqual(edit.Written(live).Object, edit.Written(made).Object)
}

func nameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// refused describes the API server's refusal, with a line for each field.
func refused(object *unstructured.Unstructured, err error) error {
	name := nameOf(object)
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
