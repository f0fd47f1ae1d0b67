package ui

import (
	"context"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// namespacesBody says which namespaces to show.
type namespacesBody struct {
	// All is false if the caller may not list the Clusters of all namespaces. The caller has to name namespaces then.
	All bool `json:"all"`
	// Namespaces are those that the caller may list.
	Namespaces []string `json:"namespaces"`
}

// Values of accessBody.Clusters.
const (
	accessNone = "none"
	accessView = "view"
	accessEdit = "edit"
)

// accessBody says what the caller may do in a namespace.
type accessBody struct {
	// Clusters is none, view or edit.
	Clusters string `json:"clusters"`
}

func checkNamespace(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return invalid("the selection must contain valid names of namespaces")
	}
	return nil
}

func (u *ui) getNamespaces(w http.ResponseWriter, r *http.Request, c *caller) error {
	client, err := c.kubernetes()
	if err != nil {
		return err
	}
	body := namespacesBody{Namespaces: []string{}}
	if body.All, err = mayClusters(r.Context(), client, metav1.NamespaceAll, "list"); err != nil {
		return err
	}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := client.CoreV1().Namespaces().List(r.Context(), options)
		if apierrors.IsForbidden(err) {
			break
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			body.Namespaces = append(body.Namespaces, page.Items[i].Name)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (u *ui) getAccess(w http.ResponseWriter, r *http.Request, c *caller) error {
	client, err := c.kubernetes()
	if err != nil {
		return err
	}
	body := accessBody{Clusters: accessNone}
	for _, step := range []struct{ verb, allows string }{{"list", accessView}, {"update", accessEdit}} {
		allowed, err := mayClusters(r.Context(), client, r.PathValue("namespace"), step.verb)
		if err != nil {
			return err
		}
		if !allowed {
			break
		}
		body.Clusters = step.allows
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// mayClusters asks the API server what the caller may do. Every user may ask that about itself.
func mayClusters(ctx context.Context, client kubernetes.Interface, namespace, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb,
			Group: provv1.SchemeGroupVersion.Group, Resource: "clusters"},
	}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}
