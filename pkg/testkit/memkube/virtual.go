package memkube

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	secrets         = schema.GroupResource{Resource: "secrets"}
	serviceAccounts = schema.GroupResource{Resource: "serviceaccounts"}
	pods            = schema.GroupResource{Resource: "pods"}
)

// CACertificate is the CA certificate in tokens of service accounts.
const CACertificate = "-----BEGIN CERTIFICATE-----\nbWVta3ViZQ==\n-----END CERTIFICATE-----\n"

// virtual answers requests for resources that are not stored.
func (s *Server) virtual(r *Request) (response, bool, error) {
	if r.Verb != "create" {
		return response{}, false, nil
	}
	gr := r.Resource.GroupResource()
	switch {
	case gr.String() == "tokenreviews.authentication.k8s.io":
		answer, err := s.reviewToken(r)
		return answer, true, err
	case gr.String() == "subjectaccessreviews.authorization.k8s.io",
		gr.String() == "selfsubjectaccessreviews.authorization.k8s.io":
		answer, err := reviewAccess(r)
		return answer, true, err
	case gr == serviceAccounts && r.Subresource == "token":
		answer, err := s.requestToken(r)
		return answer, true, err
	case gr == pods && r.Subresource == "eviction":
		answer, err := s.evict(r)
		return answer, true, err
	}
	return response{}, false, nil
}

// Token is the token of a service account. Its Secret and TokenRequests contain it.
func Token(namespace, serviceAccount string) string {
	return "memkube." + base64.RawURLEncoding.EncodeToString([]byte(namespace+"/"+serviceAccount))
}

// userOf returns the user of a token, if the service account exists.
func (s *Server) userOf(token string) (string, bool) {
	encoded, ok := strings.CutPrefix(token, "memkube.")
	if !ok {
		return "", false
	}
	key, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || s.tables[serviceAccounts].items[string(key)] == nil {
		return "", false
	}
	namespace, name := splitKey(string(key))
	return "system:serviceaccount:" + namespace + ":" + name, true
}

func (s *Server) reviewToken(r *Request) (response, error) {
	review := authenticationv1.TokenReview{}
	if err := r.into(&review); err != nil {
		return response{}, err
	}
	if user, ok := s.userOf(review.Spec.Token); ok {
		parts := strings.Split(user, ":")
		review.Status.Authenticated = true
		review.Status.User = authenticationv1.UserInfo{
			Username: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + parts[2],
				"system:authenticated"},
		}
	}
	return answer(http.StatusCreated, review), nil
}

// into decodes the body into a typed object.
func (r *Request) into(obj any) error {
	body := r.Body
	if r.contentType == runtime.ContentTypeProtobuf {
		converted, err := fromProtobuf(body)
		if err != nil {
			return err
		}
		body = converted
	}
	if err := json.Unmarshal(body, obj); err != nil {
		return apierrors.NewBadRequest("body: " + err.Error())
	}
	return nil
}

// reviewAccess allows everything.
func reviewAccess(r *Request) (response, error) {
	review := authorizationv1.SubjectAccessReview{}
	if err := r.into(&review); err != nil {
		return response{}, err
	}
	review.Status.Allowed = true
	return answer(http.StatusCreated, review), nil
}

func (s *Server) requestToken(r *Request) (response, error) {
	if s.tables[serviceAccounts].items[keyOf(r.Namespace, r.Name)] == nil {
		return response{}, apierrors.NewNotFound(serviceAccounts, r.Name)
	}
	request := authenticationv1.TokenRequest{}
	if err := r.into(&request); err != nil {
		return response{}, err
	}
	request.Status.Token = Token(r.Namespace, r.Name)
	seconds := int64(3600)
	if request.Spec.ExpirationSeconds != nil {
		seconds = *request.Spec.ExpirationSeconds
	}
	request.Status.ExpirationTimestamp = metav1.NewTime(now().Add(secondsOf(seconds)))
	return answer(http.StatusCreated, request), nil
}

func (s *Server) evict(r *Request) (response, error) {
	t := s.tables[pods]
	key, it, err := s.find(t, r)
	if err != nil {
		return response{}, err
	}
	s.startDeletion(t, key, it.obj, metav1.DeletePropagationBackground)
	return answer(http.StatusCreated, metav1.Status{Status: metav1.StatusSuccess}), nil
}

// fillToken does the token controller's work for one Secret.
func (s *Server) fillToken(t *table, key string, obj *unstructured.Unstructured) {
	kind, _, _ := unstructured.NestedString(obj.Object, "type")
	account := obj.GetAnnotations()[corev1.ServiceAccountNameKey]
	if kind != string(corev1.SecretTypeServiceAccountToken) || account == "" {
		return
	}
	if _, filled, _ := unstructured.NestedString(obj.Object, "data", corev1.ServiceAccountTokenKey); filled {
		return
	}
	it := s.tables[serviceAccounts].items[keyOf(obj.GetNamespace(), account)]
	if it == nil {
		return
	}
	next := obj.DeepCopy()
	annotations := next.GetAnnotations()
	annotations[corev1.ServiceAccountUIDKey] = string(it.obj.GetUID())
	next.SetAnnotations(annotations)
	for name, value := range map[string]string{
		corev1.ServiceAccountTokenKey:     Token(obj.GetNamespace(), account),
		corev1.ServiceAccountRootCAKey:    CACertificate,
		corev1.ServiceAccountNamespaceKey: obj.GetNamespace(),
	} {
		must(unstructured.SetNestedField(next.Object, base64.StdEncoding.EncodeToString([]byte(value)), "data", name))
	}
	s.put(t, key, next)
}

// fillTokensOf fills the Secrets that were created before their service account.
func (s *Server) fillTokensOf(account *unstructured.Unstructured) {
	t := s.tables[secrets]
	for _, key := range sortedKeys(t.items) {
		if obj := t.items[key].obj; obj.GetNamespace() == account.GetNamespace() &&
			obj.GetAnnotations()[corev1.ServiceAccountNameKey] == account.GetName() {
			s.fillToken(t, key, obj)
		}
	}
}
