package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/tenancy"
)

// GrantsPath is where references to Secrets of other namespaces are reviewed, followed by what Word returns. The answer is signed in the
// name of the user that the review tells of, so nobody but the API server must get one: the word is known to those only who may read
// webhook configurations, which are administrators.
const GrantsPath = "/admission/grants/"

// Word is the last part of the path of reviews of references, made from the key that signs grants.
func Word(key []byte) string {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(GrantsPath)) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil))
}

// SecretCache reads Secrets from memory.
type SecretCache interface {
	Get(namespace, name string) (*corev1.Secret, error)
}

// grants serves GrantsPath.
func (r *reviewer) grants() http.Handler {
	review := &ctrladmission.Webhook{LogConstructor: silent, Handler: ctrladmission.HandlerFunc(
		func(ctx context.Context, asked ctrladmission.Request) ctrladmission.Response {
			answer, err := r.grant(ctx, asked.AdmissionRequest)
			if err != nil {
				r.Log.WithError(err).Warn("References of a Cluster could not be reviewed")
				return ctrladmission.Errored(http.StatusInternalServerError, err)
			}
			return answer
		})}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		// The key is there once the caches are filled.
		if !r.Synced() {
			http.Error(w, "not ready yet", http.StatusServiceUnavailable)
			return
		}
		if subtle.ConstantTimeCompare([]byte(request.PathValue("word")), []byte(Word(r.Key()))) != 1 {
			http.NotFound(w, request)
			return
		}
		review.ServeHTTP(w, request)
	})
}

// grant refuses references that their author may not write, and leaves a grant for each of the others.
func (r *reviewer) grant(ctx context.Context, asked admissionv1.AdmissionRequest) (ctrladmission.Response, error) {
	if asked.Resource.Group != provv1.SchemeGroupVersion.Group || asked.Resource.Resource != "clusters" || asked.SubResource != "" {
		return ctrladmission.Allowed(""), nil
	}
	before, after, err := clustersOf(asked)
	if err != nil || after == nil {
		return ctrladmission.Allowed(""), err
	}
	if !r.isOurs(after) {
		return ctrladmission.Allowed(""), nil
	}
	author := authorOf(asked)
	var allowed []tenancy.Reference
	for _, ref := range tenancy.NewReferences(before, after) {
		may, err := r.Review(ctx, author, ref.NamespacedName)
		switch {
		case err != nil:
			return ctrladmission.Response{}, err
		case may:
			allowed = append(allowed, ref)
		case !r.offered(ref, after):
			return refusedReference(asked, ref, author), nil
		}
	}
	return r.patchGrants(before, after, author, allowed)
}

// isOurs reports that references of a Cluster are granted here: it stays, and no other manager has it.
func (r *reviewer) isOurs(cluster *provv1.Cluster) bool {
	mark := cluster.Annotations[rkev1.InstanceAnnotation]
	return cluster.DeletionTimestamp == nil && (mark == "" || mark == r.InstanceID)
}

func authorOf(asked admissionv1.AdmissionRequest) tenancy.Author {
	author := tenancy.Author{Username: asked.UserInfo.Username, UID: asked.UserInfo.UID, Groups: asked.UserInfo.Groups}
	for key, values := range asked.UserInfo.Extra {
		if author.Extra == nil {
			author.Extra = map[string][]string{}
		}
		author.Extra[key] = values
	}
	return author
}

func clustersOf(asked admissionv1.AdmissionRequest) (before, after *provv1.Cluster, err error) {
	for _, one := range []struct {
		raw  []byte
		into **provv1.Cluster
	}{{asked.OldObject.Raw, &before}, {asked.Object.Raw, &after}} {
		if len(one.raw) == 0 {
			continue
		}
		*one.into = &provv1.Cluster{}
		if err := json.Unmarshal(one.raw, *one.into); err != nil {
			return nil, nil, fmt.Errorf("read the reviewed Cluster: %w", err)
		}
	}
	if after != nil { // a new object may leave both to the request
		after.Namespace = asked.Namespace
		if after.Name == "" {
			after.Name = asked.Name
		}
	}
	return before, after, nil
}

// offered reports that a Secret lets the Cluster use it, whoever wrote the reference.
func (r *reviewer) offered(ref tenancy.Reference, cluster *provv1.Cluster) bool {
	secret, err := r.Secrets.Get(ref.Namespace, ref.Name)
	return err == nil && tenancy.Offered(secret.Annotations, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
}

func refusedReference(asked admissionv1.AdmissionRequest, ref tenancy.Reference, author tenancy.Author) ctrladmission.Response {
	because := fmt.Errorf("%s: %s may not get Secret %s: let somebody who may get it write this, or list %s/%s in annotation %s of the Secret",
		ref.Field, author.Username, ref, asked.Namespace, asked.Name, rkev1.AuthorizedObjectAnnotation)
	status := apierrors.NewForbidden(schema.GroupResource{Group: asked.Resource.Group, Resource: asked.Resource.Resource}, asked.Name, because).Status()
	return ctrladmission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}

// patchGrants makes the annotation what it has to be, whatever the request says in it.
func (r *reviewer) patchGrants(before, after *provv1.Cluster, author tenancy.Author, allowed []tenancy.Reference) (ctrladmission.Response, error) {
	want, err := tenancy.WriteGrants(before, after, author, allowed, r.Key())
	if err != nil {
		return ctrladmission.Response{}, err
	}
	has, there := after.Annotations[tenancy.GrantsAnnotation]
	at := "/metadata/annotations/" + strings.ReplaceAll(tenancy.GrantsAnnotation, "/", "~1")
	switch {
	case want == "" && there:
		return ctrladmission.Patched("", jsonpatch.NewOperation("remove", at, nil)), nil
	case want == has:
		return ctrladmission.Allowed(""), nil
	case after.Annotations == nil:
		return ctrladmission.Patched("", jsonpatch.NewOperation("add", "/metadata/annotations", map[string]string{tenancy.GrantsAnnotation: want})), nil
	}
	return ctrladmission.Patched("", jsonpatch.NewOperation("add", at, want)), nil
}
