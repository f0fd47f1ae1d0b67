package ui

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/operate/apply"
	"github.com/drover-io/drover/pkg/operate/credential"
	"github.com/drover-io/drover/pkg/operate/edit"
)

const (
	// suffixLength is the length of the generated part of a name.
	suffixLength = 5
	// refusedCredential replaces a sentence that repeats a value.
	refusedCredential = "the management cluster refused the credential; its answer is not shown, because it repeats " +
		"a value"
)

// valuesBody are the new values of a credential.
type valuesBody struct {
	Values map[string]string `json:"values"`
}

// objectBody names an object.
type objectBody struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// postCredential creates a cloud credential. Its answer and its errors never contain a value.
func (u *ui) postCredential(w http.ResponseWriter, r *http.Request, c *caller) error {
	var request credential.Request
	if err := readJSON(w, r, &request); err != nil {
		return err
	}
	fields, err := u.fieldsOf(r.Context(), c, request.Driver)
	if err != nil {
		return err
	}
	if problems := request.Problems(fields); len(problems) > 0 {
		return refusal{problems}
	}
	writer, err := u.writer(c)
	if err != nil {
		return err
	}
	// A second request would make a second credential, because the server chooses the name.
	if err := u.attempts.begin(c.user, r); err != nil {
		return err
	}
	name := request.Name
	if name == "" {
		name = credential.NamePrefix + rand.String(suffixLength)
	}
	secret := request.Secret(r.PathValue("namespace"), name)
	err = writer.CreateSecret(r.Context(), secret)
	if apierrors.IsAlreadyExists(err) && request.Name == "" { // nothing was written
		secret.Name = credential.NamePrefix + rand.String(suffixLength)
		err = writer.CreateSecret(r.Context(), secret)
	}
	if err != nil {
		return hidden(err, request.Values)
	}
	writeJSON(w, http.StatusCreated, objectBody{secret.Namespace, secret.Name})
	return nil
}

// fieldsOf returns the fields of a driver's credential for a new one, nil if they are unknown.
func (u *ui) fieldsOf(ctx context.Context, c *caller, driver string) (map[string]mgmtv3.Field, error) {
	var fields map[string]mgmtv3.Field
	var err error
	if driverschema.ValidName(driver) == nil {
		fields, err = u.credentialFields(ctx, c, driver)
	}
	if apierrors.IsNotFound(err) {
		return nil, refusal{[]edit.Problem{{Field: "driver", Message: "there is no driver " + driver +
			" with credentials, or it is not active"}}}
	}
	return fields, err
}

// putCredential replaces all values of a cloud credential.
func (u *ui) putCredential(w http.ResponseWriter, r *http.Request, c *caller) error {
	var body valuesBody
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	live, driver, err := u.liveCredential(r.Context(), c, namespace, name)
	if err != nil {
		return err
	}
	problems, err := u.checkReplacement(r.Context(), c, live, driver, body.Values)
	switch {
	case err != nil:
		return err
	case len(problems) > 0:
		return refusal{problems}
	}
	writer, err := u.writer(c)
	if err == nil {
		err = writer.ReplaceSecret(r.Context(), credential.Replaced(live, driver, body.Values))
	}
	if err != nil {
		return hidden(err, body.Values)
	}
	writeJSON(w, http.StatusOK, objectBody{namespace, name})
	return nil
}

// liveCredential reads a cloud credential, and returns its driver.
func (u *ui) liveCredential(ctx context.Context, c *caller, namespace, name string) (*corev1.Secret, string, error) {
	client, err := u.kinds.Client(c.config, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, "", err
	}
	live := &corev1.Secret{}
	if err := client.Get().Namespace(namespace).Resource("secrets").Name(name).Timeout(callTime).Do(ctx).
		Into(live); err != nil {
		return nil, "", err
	}
	driver := credential.DriverOf(live)
	if live.Type != provv1.SecretTypeCloudCredential || driver == "" {
		return nil, "", notFound("Secret " + namespace + "/" + name + " is no cloud credential of a known driver")
	}
	return live, driver, nil
}

// checkReplacement lists what is wrong with new values. If the schema of the driver is unknown, they must have at least
// the names of the former ones.
func (u *ui) checkReplacement(ctx context.Context, c *caller, live *corev1.Secret, driver string,
	values map[string]string) ([]edit.Problem, error) {
	fields, err := u.credentialFields(ctx, c, driver)
	if apierrors.IsNotFound(err) {
		fields, err = nil, nil
	}
	problems := credential.Check(fields, values)
	if fields == nil {
		problems = append(unreplaced(live, values), problems...)
	}
	return problems, err
}

// unreplaced lists the values of a credential that a replacement lacks, for a driver without a known schema.
func unreplaced(live *corev1.Secret, values map[string]string) []edit.Problem {
	var out []edit.Problem
	for _, name := range slices.Sorted(maps.Keys(credential.LiveFields(live))) {
		if values[name] == "" {
			out = append(out, edit.Problem{Field: "values." + name, Message: "the credential has this value, and all " +
				"its values are replaced"})
		}
	}
	return out
}

// credentialFields returns the fields of a driver's credential, nil if the caller may not read them. A driver without
// credentials is a NotFound.
func (u *ui) credentialFields(ctx context.Context, c *caller, driver string) (map[string]mgmtv3.Field, error) {
	if driver == credential.ForS3 {
		return credential.S3Fields(), nil
	}
	client, err := u.kinds.Client(c.config, mgmtv3.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	found := &mgmtv3.DynamicSchema{}
	err = client.Get().Resource("dynamicschemas").Name(driverschema.CredentialSchema(driver)).Timeout(callTime).Do(ctx).
		Into(found)
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, err
	case found.Spec.ResourceFields == nil:
		return map[string]mgmtv3.Field{}, nil
	}
	return found.Spec.ResourceFields, nil
}

// hidden converts the error of a write of a credential. The answer of the API server, or of a webhook, may repeat
// values.
func hidden(err error, values map[string]string) error {
	f := failureOf(err)
	f.message = credential.Hide(f.message, values, refusedCredential)
	switch {
	case apierrors.IsAlreadyExists(err):
		return failure{http.StatusConflict, reasonExists, f.message, 0}
	case errors.Is(err, edit.ErrChanged):
		f.message = "the credential has changed meanwhile, and nothing was written; try again"
	case errors.Is(err, apply.ErrUnknown):
		return f
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return refusal{[]edit.Problem{{Message: f.message}}}
	}
	return f
}
