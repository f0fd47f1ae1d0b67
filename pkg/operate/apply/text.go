package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

const (
	// attempts is how often a write is sent that other writes have refused, while nothing has changed except a status.
	attempts = 3
	// writeTime limits one write.
	writeTime = 30 * time.Second
)

// ErrExists says that the Cluster to create exists.
var ErrExists = errors.New("the cluster already exists, and nothing was written")

// InvalidError lists why the API server would refuse a text. Nothing was written.
type InvalidError struct{ Problems []edit.Problem }

// Error implements error.
func (e *InvalidError) Error() string {
	return "the API server refuses the change, and nothing was written\n  " + e.lines("\n  ")
}

// lines joins the problems with their fields.
func (e *InvalidError) lines(separator string) string {
	var out []string
	for _, one := range e.Problems {
		out = append(out, strings.TrimPrefix(one.Field+": "+one.Message, ": "))
	}
	return strings.Join(out, separator)
}

// Live reads what the management cluster has of a Cluster, of the machine configs of its pools, and of those in a text.
func (w *Writer) Live(ctx context.Context, namespace, name string, text edit.Text) (edit.Live, error) {
	out := edit.Live{}
	var err error
	out.Cluster, err = w.get(ctx, clusterResource, namespace, name)
	if err != nil {
		_, said := inspect.UnreadCluster(err, namespace, name)
		if !inspect.IsAbsent(err, clusterResource.GroupResource(), name) {
			return out, said
		}
	}
	for _, ref := range edit.ConfigRefs(out.Cluster, text) {
		config, err := w.get(ctx, ref.Resource, namespace, ref.Name)
		switch {
		case err == nil:
			out.Configs = append(out.Configs, config)
		case apierrors.IsForbidden(err):
			out.Unread = append(out.Unread, ref)
		case !apierrors.IsNotFound(err):
			return out, fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
		}
	}
	return out, nil
}

func (w *Writer) get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string,
) (*unstructured.Unstructured, error) {
	result := w.client.Get().AbsPath("/apis", resource.Group, resource.Version, "namespaces", namespace,
		resource.Resource, name).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	data, err := result.Raw()
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("read the answer of the API server: %w", err)
	}
	return out, nil
}

// put creates an object, or replaces exactly the version of its live object.
func (w *Writer) put(ctx context.Context, live, object *unstructured.Unstructured, dryRun bool,
) (*unstructured.Unstructured, error) {
	resource := resourceOf(object)
	path := []string{"/apis", resource.Group, resource.Version, "namespaces", object.GetNamespace(), resource.Resource}
	request := w.client.Post()
	if live != nil {
		path, request = append(path, object.GetName()), w.client.Put()
	}
	body, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	request = request.MaxRetries(0).AbsPath(path...).Param("fieldValidation", metav1.FieldValidationStrict).
		SetHeader("Content-Type", "application/json").Body(body)
	if dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	data, err := result.Raw()
	if err == nil {
		err = out.UnmarshalJSON(data)
	}
	return out, err
}

// Trial is the API server's answer to the attempt to write a text.
type Trial struct {
	// Changed are the objects of the text that a write would change, in the order in which they are written: the
	// Cluster last, because the machines that it requests need their machine configs.
	Changed []*unstructured.Unstructured
	// Problems have positions.
	Problems []edit.Problem
	// Forbidden is the first refusal because of the rights of the user. Problems has it as well.
	Forbidden error
}

// Try asks the API server to check all objects of a text, without a write.
func (w *Writer) Try(ctx context.Context, live edit.Live, text edit.Text, namespace string) (Trial, error) {
	out := Trial{}
	for _, typed := range append(text.Configs(), text.Cluster()) {
		was := live.Of(typed)
		desired := edit.Desired(was, typed, namespace)
		switch {
		case was != nil && edit.IsSame(was, desired): // needs no permission to write
			continue
		case live.IsUnread(typed):
			out.Problems = append(out.Problems, text.Locate(typed, []edit.Problem{{Message: "you may not read the " +
				"object, so you cannot change it here"}})...)
			continue
		}
		attempted, err := w.put(ctx, was, desired, true)
		switch {
		case err != nil:
			if err := out.refuse(text, typed, err); err != nil {
				return out, err
			}
		case was != nil && edit.IsSame(was, attempted):
		case was != nil && live.IsOthers(typed):
			out.Problems = append(out.Problems, text.Locate(typed, []edit.Problem{{Field: "metadata.name",
				Message: "exists already and belongs to another cluster; choose another name"}})...)
		default:
			out.Changed = append(out.Changed, typed)
		}
	}
	return out, nil
}

// refuse adds the API server's refusal of an object. It returns an error that says nothing about the object.
func (t *Trial) refuse(text edit.Text, object *unstructured.Unstructured, err error) error {
	found := edit.Refused(object, err)
	if found == nil {
		return attempt(object, err)
	}
	if apierrors.IsForbidden(err) && t.Forbidden == nil {
		t.Forbidden = fmt.Errorf("nothing was written: %w", err)
	}
	t.Problems = append(t.Problems, text.Locate(object, found)...)
	return nil
}

// attempt converts an error of a dry-run that says nothing about the object.
func attempt(object *unstructured.Unstructured, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return edit.ErrChanged
	}
	return fmt.Errorf("check %s %s: %w", object.GetKind(), object.GetName(), err)
}

// Put writes a text whose preview a user has seen, and returns the names of the objects that it has written. seen is
// the digest of what the user has seen, empty for a cluster that does not exist. Put returns edit.ErrChanged,
// ErrExists or an InvalidError if it has written nothing.
func (w *Writer) Put(ctx context.Context, namespace, name string, text edit.Text, seen string) ([]string, error) {
	var err error
	for range attempts { // a status that changes between read and check
		var live edit.Live
		if live, err = w.asSeen(ctx, namespace, name, text, seen); err != nil {
			return nil, err
		}
		var trial Trial
		trial, err = w.Try(ctx, live, text, namespace)
		switch {
		case errors.Is(err, edit.ErrChanged):
			continue
		case err != nil:
			return nil, err
		case trial.Forbidden != nil:
			return nil, trial.Forbidden
		case len(trial.Problems) > 0:
			return nil, &InvalidError{trial.Problems}
		}
		// A user who leaves does not interrupt the writes, because a part of them would be missing.
		return w.putAll(context.WithoutCancel(ctx), live, text, trial.Changed, namespace)
	}
	return nil, err
}

// asSeen reads the live objects. It fails if they are not the ones that the user has seen.
func (w *Writer) asSeen(ctx context.Context, namespace, name string, text edit.Text, seen string) (edit.Live, error) {
	live, err := w.Live(ctx, namespace, name, text)
	if err != nil {
		return live, err
	}
	now, err := live.Seen()
	switch {
	case err != nil:
		return live, err
	case seen == "" && now != "":
		return live, ErrExists
	case seen != now:
		return live, edit.ErrChanged
	}
	return live, nil
}

// PartialError says that some of the objects of a text are written.
type PartialError struct {
	Written []string
	err     error
}

// Error implements error.
func (e *PartialError) Error() string {
	return "only a part is written: " + strings.Join(e.Written, ", ") + "; " + e.cause()
}

// cause says why the next object is not written. The sentences of some errors are about the whole text.
func (e *PartialError) cause() string {
	invalid, isInvalid := errors.AsType[*InvalidError](e.err)
	switch {
	case isInvalid:
		return "the API server refuses the rest: " + invalid.lines("; ")
	case errors.Is(e.err, edit.ErrChanged):
		return "the rest has changed since the preview"
	case errors.Is(e.err, ErrExists):
		return "the cluster already exists"
	case apierrors.IsUnauthorized(e.err):
		return "the management cluster no longer accepts the credential"
	}
	return e.err.Error()
}

// Unwrap returns why the next object is not written.
func (e *PartialError) Unwrap() error { return e.err }

// putAll writes objects of a text in their order.
func (w *Writer) putAll(ctx context.Context, live edit.Live, text edit.Text, objects []*unstructured.Unstructured,
	namespace string) ([]string, error) {
	written := []string{}
	for _, typed := range objects {
		name := typed.GetKind() + " " + namespace + "/" + typed.GetName()
		if err := w.putOne(ctx, live.Of(typed), typed, namespace); err != nil {
			err = failed("write "+name, text, typed, err)
			if len(written) > 0 {
				err = &PartialError{written, err}
			}
			return nil, err
		}
		written = append(written, name)
	}
	return written, nil
}

// failed converts the error of a write. The API server can refuse an object that it has accepted in a dry-run.
func failed(what string, text edit.Text, typed *unstructured.Unstructured, err error) error {
	problems := edit.Refused(typed, err)
	switch {
	case errors.Is(err, ErrExists):
		return err
	case len(problems) > 0 && !apierrors.IsForbidden(err):
		return &InvalidError{text.Locate(typed, problems)}
	case apierrors.IsUnauthorized(err): // even if a proxy says so
		return fmt.Errorf("%s: %w", what, err)
	}
	return unwritten(what, err)
}

// putOne writes an object of a text over exactly its live version. A write that another one has refused had no effect.
// If that one has changed nothing that a user sees, the next attempt is made from the newer version.
func (w *Writer) putOne(ctx context.Context, live, typed *unstructured.Unstructured, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	var err error
	for range attempts {
		_, err = w.put(ctx, live, edit.Desired(live, typed, namespace), false)
		if live == nil || !apierrors.IsConflict(err) {
			break
		}
		now, unread := w.get(ctx, resourceOf(typed), namespace, typed.GetName())
		if unread != nil || !edit.IsUnchanged(live, now) {
			break
		}
		live = now
	}
	switch {
	case live == nil && apierrors.IsAlreadyExists(err) && resourceOf(typed) == clusterResource:
		return ErrExists
	case live == nil && apierrors.IsAlreadyExists(err), live != nil && apierrors.IsNotFound(err):
		return edit.ErrChanged
	}
	return err
}

func resourceOf(object *unstructured.Unstructured) schema.GroupVersionResource {
	if object.GroupVersionKind().Group == clusterResource.Group {
		return clusterResource
	}
	return edit.ConfigResource(object)
}
