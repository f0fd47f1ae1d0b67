// Package webhook serves the rules of package admission to the Kubernetes API, as admission webhooks. It runs on every
// replica, reads caches, and writes nothing.
//
//	POST /admission/validate    the result of admission.Decide
//	POST /admission/mutate      the result of admission.Complete
//	POST /admission/grants/WORD the result of package tenancy for references to Secrets of other namespaces
//
// Kubernetes gives an API server no credential for webhooks, so every caller that reaches these paths gets an answer.
// Serve them where only the API server reaches them, not at the address for machines. The last path requires the word.
// About other objects, an answer reveals only that they exist. About users, it reveals only whether they may create
// management Clusters.
//
// A review that fails is answered with 500 instead of a refusal. The failure policy then allows the request.
package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/drover-io/drover/pkg/admission"
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/cloudcredential"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/releases"
)

// Paths of the webhooks.
const (
	ValidatePath = "/admission/validate"
	MutatePath   = "/admission/mutate"
)

// Options are the inputs of reviews.
type Options struct {
	// InstanceID marks the clusters of this Drover.
	InstanceID string
	// Releases describe Kubernetes versions.
	Releases releases.Table
	// Clusters and Machines are read once Synced reports that they are filled.
	Clusters provcontrollers.ClusterCache
	Machines capicontrollers.MachineCache
	Synced   func() bool
	// Snapshots are also read once Synced. HasSecret asks the API server, because caches may lack a new Secret.
	Snapshots rkecontrollers.ETCDSnapshotCache
	HasSecret func(ctx context.Context, secret types.NamespacedName) (bool, error)
	// Schemas describe the credentials of drivers. They are also read once Synced.
	Schemas mgmtcontrollers.DynamicSchemaCache
	// Key signs grants; it is called once Synced. Review asks the API server for an author's rights. Secrets hold
	// offers. Trust asks the API server whether a user may bring a released Cluster with its history.
	Key     func() []byte
	Review  access.Reviewer
	Trust   access.Truster
	Secrets SecretCache
	Log     logrus.FieldLogger
	// Now is the clock; time.Now when it is nil.
	Now func() time.Time
}

type reviewer struct{ Options }

// New returns the handler.
func New(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &reviewer{o}
	mux := http.NewServeMux()
	mux.Handle("POST "+ValidatePath, r.webhook(decision{admission.Decide, nobody}))
	mux.Handle("POST "+MutatePath, r.webhook(decision{admission.Complete, admission.TrustMatters}))
	mux.Handle("POST "+GrantsPath+"{word}", r.grants())
	return mux
}

// decision is a function of package admission. trustMatters reports whether the API server must be asked first if it
// trusts the user.
type decision struct {
	decide       func(admission.Request) (admission.Answer, error)
	trustMatters func(admission.Request) bool
}

// Validation never needs trust.
func nobody(admission.Request) bool { return false }

func (r *reviewer) webhook(d decision) http.Handler {
	return r.answers(func(ctx context.Context, asked admissionv1.AdmissionRequest) (ctrladmission.Response, error) {
		answer, err := r.review(ctx, d, asked)
		if err != nil {
			return ctrladmission.Response{}, err
		}
		return response(asked, answer), nil
	})
}

// answers serves reviews. An AdmissionReview can only allow or refuse. Only an HTTP error status makes the API server
// apply the failure policy.
func (r *reviewer) answers(review func(context.Context, admissionv1.AdmissionRequest) (ctrladmission.Response,
	error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		served := &ctrladmission.Webhook{LogConstructor: silent, Handler: ctrladmission.HandlerFunc(
			func(ctx context.Context, asked ctrladmission.Request) ctrladmission.Response {
				answer, err := review(ctx, asked.AdmissionRequest)
				if err != nil {
					r.Log.WithError(err).WithField("resource", asked.Resource.String()).Warn("Cannot review an object")
					w.WriteHeader(http.StatusInternalServerError)
					return ctrladmission.Errored(http.StatusInternalServerError, err)
				}
				return answer
			})}
		// After a panic net/http closes the connection, which also is no answer.
		served.WithRecoverPanic(false).ServeHTTP(w, request)
	})
}

func silent(logr.Logger, *ctrladmission.Request) logr.Logger { return logr.Discard() }

func (r *reviewer) review(ctx context.Context, d decision, asked admissionv1.AdmissionRequest) (admission.Answer,
	error) {
	request, err := r.request(ctx, asked)
	if err != nil {
		return admission.Answer{}, err
	}
	if d.trustMatters(request) {
		request.Facts.Trust = r.trust(ctx, authorOf(asked))
	}
	return d.decide(request)
}

// request combines a review with the facts.
func (r *reviewer) request(ctx context.Context, asked admissionv1.AdmissionRequest) (admission.Request, error) {
	facts, err := r.facts()
	if err != nil {
		return admission.Request{}, err
	}
	request := admission.Request{
		Operation:   admission.Operation(asked.Operation),
		Resource:    schema.GroupResource{Group: asked.Resource.Group, Resource: asked.Resource.Resource},
		Subresource: asked.SubResource,
		Namespace:   asked.Namespace, Name: asked.Name, Old: asked.OldObject.Raw, New: asked.Object.Raw,
		User: asked.UserInfo, DryRun: asked.DryRun != nil && *asked.DryRun, Facts: facts,
	}
	if facts.Known {
		err = r.lookUp(ctx, admission.NamedBy(request), &request.Facts)
	}
	return request, err
}

// trust asks the API server whether a user is trusted.
func (r *reviewer) trust(ctx context.Context, who tenancy.Author) admission.Trust {
	ctx, cancel := context.WithTimeout(ctx, reviewsLast)
	defer cancel()
	switch trusted, err := r.Trust(ctx, who); {
	case err != nil:
		r.Log.WithError(err).Warn("Cannot check the rights of a user who creates a released Cluster; the user is not " +
			"trusted")
		return admission.TrustUnknown
	case trusted:
		return admission.Trusted
	}
	return admission.Untrusted
}

// lookUp finds the objects that a request names.
func (r *reviewer) lookUp(ctx context.Context, named admission.Named, facts *admission.Facts) error {
	if named.Snapshot.Name != "" {
		snapshot, err := r.Snapshots.Get(named.Snapshot.Namespace, named.Snapshot.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("find snapshot %s: %w", named.Snapshot, err)
		}
		if err == nil {
			facts.Snapshot = snapshot
		}
	}
	if named.Credential.Name != "" {
		found, err := r.HasSecret(ctx, named.Credential)
		if err != nil {
			r.Log.WithError(err).Warnf("Cannot check whether Secret %s exists", named.Credential)
			return nil
		}
		facts.CredentialMissing = !found
	}
	return r.lookUpSchema(named.Driver, facts)
}

// lookUpSchema finds the fields of a driver's credential.
func (r *reviewer) lookUpSchema(driver string, facts *admission.Facts) error {
	switch driver {
	case "":
		return nil
	case cloudcredential.ForS3:
		facts.CredentialSchema = cloudcredential.S3Schema()
		return nil
	}
	found := &cloudcredential.Schema{}
	for name, fields := range map[string]*map[string]mgmtv3.Field{
		driverschema.CredentialSchema(driver): &found.Credential, driverschema.ConfigSchema(driver): &found.Config,
	} {
		schema, err := r.Schemas.Get(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read schema %s: %w", name, err)
		}
		*fields = schema.Spec.ResourceFields
	}
	facts.CredentialSchema = found
	return nil
}

// facts returns the contents of the caches. Until they are filled nothing is known, and only rules without facts
// decide.
func (r *reviewer) facts() (admission.Facts, error) {
	facts := admission.Facts{InstanceID: r.InstanceID, Releases: r.Releases, Known: r.Synced()}
	if !facts.Known {
		return facts, nil
	}
	var err error
	if facts.Clusters, err = r.Clusters.List("", labels.Everything()); err != nil {
		return facts, fmt.Errorf("list clusters: %w", err)
	}
	if facts.Machines, err = r.Machines.List("", labels.Everything()); err != nil {
		return facts, fmt.Errorf("list machines: %w", err)
	}
	return facts, nil
}

// mostErrors is how many errors an answer has. A Cluster with many wrong pools has thousands, and the cost of their
// text grows with the square of their number.
const mostErrors = 20

// few returns the first errors, and how many are missing.
func few(errs field.ErrorList) field.ErrorList {
	if len(errs) <= mostErrors {
		return errs
	}
	rest := fmt.Sprintf("%d more errors; correct these first", len(errs)-mostErrors)
	return append(slices.Clone(errs[:mostErrors]), field.Invalid(field.NewPath("spec"), field.OmitValueType{}, rest))
}

func response(asked admissionv1.AdmissionRequest, answer admission.Answer) ctrladmission.Response {
	out := ctrladmission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: answer.Allowed(),
		Warnings: answer.Warnings}}
	for _, patch := range answer.Patches {
		out.Patches = append(out.Patches, jsonpatch.NewOperation(patch.Op, patch.Path, patch.Value))
	}
	switch resource := (schema.GroupResource{Group: asked.Resource.Group, Resource: asked.Resource.Resource}); {
	case answer.Forbidden != "":
		status := apierrors.NewForbidden(resource, asked.Name, fmt.Errorf("%s", answer.Forbidden)).Status()
		out.Result = &status
	case len(answer.Errors) > 0:
		status := apierrors.NewInvalid(schema.GroupKind{Group: asked.Kind.Group, Kind: asked.Kind.Kind}, asked.Name,
			few(answer.Errors)).Status()
		out.Result = &status
	default:
		out.Result = &metav1.Status{Code: http.StatusOK}
	}
	return out
}
