package webhook

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/drover-io/drover/pkg/admission"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/tenancy"
)

// GrantsPath is the path of reviews of references to Secrets of other namespaces. The result of Word follows it. The
// answer is signed for the user in the review, so only the API server may get one.
//
// Only administrators, who may read webhook configurations, know the word. The API server's log also contains it, with
// every failed call. Therefore the word changes every hour.
const GrantsPath = "/admission/grants/"

const (
	wordLasts = time.Hour
	// wordOverlaps is how long the previous and the next word are valid, too. It covers the update of the API server
	// and clock differences.
	wordOverlaps = 10 * time.Minute
)

// Word is the last part of the path of these reviews at a time. It is derived from the key that signs grants.
func Word(key []byte, at time.Time) string {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s%d", GrantsPath, at.Truncate(wordLasts).Unix()) // a hash cannot fail to write
	return hex.EncodeToString(mac.Sum(nil))
}

// knows reports whether a word is valid now.
func (r *reviewer) knows(word string) bool {
	known, now := 0, r.Now()
	for _, at := range []time.Time{now.Add(-wordOverlaps), now, now.Add(wordOverlaps)} {
		known |= subtle.ConstantTimeCompare([]byte(word), []byte(Word(r.Key(), at)))
	}
	return known == 1
}

// SecretCache reads Secrets from memory.
type SecretCache interface {
	Get(namespace, name string) (*corev1.Secret, error)
}

// grants serves GrantsPath.
func (r *reviewer) grants() http.Handler {
	review := r.answers(r.grant)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		// The key exists once the caches are filled.
		if !r.Synced() {
			http.Error(w, "not ready yet", http.StatusServiceUnavailable)
			return
		}
		if !r.knows(request.PathValue("word")) {
			http.NotFound(w, request)
			return
		}
		review.ServeHTTP(w, request)
	})
}

// reviewsLast bounds all questions to the API server in one review. It is shorter than the API server's own timeout:
// without an answer the failure policy would allow the request, including forged grants.
const reviewsLast = 3 * time.Second

// grant refuses new references that their author may not write, and writes a grant for each of the others. It applies
// to every request and to the Clusters of all instances. A grant in the result either was there before or is made here.
// The exception is a released Cluster that a trusted user brings.
func (r *reviewer) grant(ctx context.Context, asked admissionv1.AdmissionRequest) (ctrladmission.Response, error) {
	if asked.Resource.Group != provv1.SchemeGroupVersion.Group || asked.Resource.Resource != "clusters" ||
		asked.SubResource != "" {
		return ctrladmission.Allowed(""), nil
	}
	before, after, err := clustersOf(asked)
	if err != nil || after == nil {
		return ctrladmission.Allowed(""), err
	}
	if !readable(asked, before, after) {
		return patched(after, ""), nil // the schema will report the mistake, and nothing can be granted
	}
	found := references{author: authorOf(asked), granted: before}
	ctx, cancel := context.WithTimeout(ctx, reviewsLast)
	defer cancel()
	if admission.Ours(r.InstanceID, before, after) {
		r.keep(ctx, &found, before, after)
		r.reviewNew(ctx, &found, before, after)
		r.renew(ctx, &found, before, after)
	} else if asksToRenew(after) {
		found.warn("%s: this Drover does not manage the Cluster, or the Cluster is being deleted: Drover grants "+
			"nothing", tenancy.GrantsAnnotation)
	}
	if len(found.refused) > 0 {
		return refused(asked, found.refused), nil
	}
	grants, err := tenancy.WriteGrants(found.granted, after, found.author, found.allowed, r.Key())
	if err != nil {
		return ctrladmission.Response{}, err
	}
	return patched(after, grants).WithWarnings(found.warnings...), nil
}

// references collects the results for the references of one Cluster.
type references struct {
	author tenancy.Author
	// granted is the Cluster whose valid grants stay: the old one, or a released one as it arrives.
	granted *provv1.Cluster
	// kept are the grants of a released Cluster, if they stay.
	kept     map[types.NamespacedName]tenancy.Author
	allowed  []tenancy.Reference
	refused  []error
	warnings []string
}

func (f *references) warn(text string, args ...any) {
	f.warnings = append(f.warnings, fmt.Sprintf(text, args...))
}

func (f *references) refuse(text string, args ...any) {
	f.refused = append(f.refused, fmt.Errorf(text, args...))
}

// keep keeps the valid grants of a released Cluster, with their authors, if a trusted user brings it. Drover still
// checks the authors' rights every minute. An untrusted user may bring grants that were withdrawn before.
func (r *reviewer) keep(ctx context.Context, found *references, before, after *provv1.Cluster) {
	if !admission.Released(before, after) {
		return
	}
	brought := tenancy.Grants(after, r.Key())
	if len(brought) == 0 {
		return
	}
	switch r.trust(ctx, found.author) {
	case admission.Trusted:
		found.granted, found.kept = after, brought
	case admission.TrustUnknown:
		found.warn("%s: Drover could not check whether %s may create clusters.management.cattle.io, so it removed "+
			"the grants of the Cluster: after the adoption, a user who may get the Secrets must %s",
			tenancy.GrantsAnnotation, found.author.Username, renewAdvice)
	case admission.Untrusted:
	}
}

// reviewNew reviews the references that the request adds and that have no kept grant.
func (r *reviewer) reviewNew(ctx context.Context, found *references, before, after *provv1.Cluster) {
	for _, ref := range tenancy.NewReferences(before, after) {
		if _, granted := found.kept[ref.NamespacedName]; granted {
			continue
		}
		may, err := r.Review(ctx, found.author, ref.NamespacedName)
		offered := r.offered(ref, after)
		switch {
		case err != nil && !offered:
			r.Log.WithError(err).Warn("Cannot review a reference")
			found.warn("%s: Drover could not check whether %s may get Secret %s, so it does not use the Secret yet: %s",
				ref.Field, found.author.Username, ref, renewAdvice)
		case may && after.Name == "" && !offered:
			found.refuse("%s: a grant for Secret %s of another namespace needs the name of the Cluster: set "+
				"metadata.name instead of "+
				"metadata.generateName, or list %s/* in annotation %s of the Secret", ref.Field, ref, after.Namespace,
				rkev1.AuthorizedObjectAnnotation)
		case may && after.Name != "":
			found.allowed = append(found.allowed, ref)
		case !may && !offered:
			found.denied(ref, before, after)
		}
	}
}

// denied refuses a reference that its author may not write. A released Cluster passes with a warning: it cannot be
// corrected in the middle of a restore or a move, and Drover uses nothing without a grant.
func (f *references) denied(ref tenancy.Reference, before, after *provv1.Cluster) {
	offer := fmt.Sprintf("list %s/%s in annotation %s of the Secret", after.Namespace, cmp.Or(after.Name, "*"),
		rkev1.AuthorizedObjectAnnotation)
	if admission.Released(before, after) {
		f.warn("%s: %s may not get Secret %s, so Drover does not use it yet: after the adoption, a user who may get "+
			"the Secret must %s; or %s",
			ref.Field, f.author.Username, ref, renewAdvice, offer)
		return
	}
	f.refuse("%s: %s may not get Secret %s: a user who may get the Secret must write this; or %s",
		ref.Field, f.author.Username, ref, offer)
}

const renewAdvice = "set annotation " + tenancy.GrantsAnnotation + " of the Cluster to " + tenancy.Renew

func asksToRenew(cluster *provv1.Cluster) bool {
	return cluster.Annotations[tenancy.GrantsAnnotation] == tenancy.Renew
}

// renew makes the user the author of existing references without a valid grant, when the request asks for it. A
// reference that the user may not write stays without a grant, and the others still pass.
func (r *reviewer) renew(ctx context.Context, found *references, before, after *provv1.Cluster) {
	if before == nil {
		return // all of them are new
	}
	asks := asksToRenew(after)
	if asks && asksToRenew(before) {
		// The user of this request did not ask for it: others, such as controllers, write the same Cluster.
		found.warn("%s: it was set to %s when no review was possible: set it again",
			tenancy.GrantsAnnotation, tenancy.Renew)
		return
	}
	granted, brought := tenancy.Grants(before, r.Key()), tenancy.Grants(after, r.Key())
	for _, ref := range existingReferences(before, after) {
		// The API server reviews a request again after another webhook changed it. Then it contains the grant instead
		// of the wish.
		again, there := brought[ref.NamespacedName]
		if !asks && (!there || !equality.Semantic.DeepEqual(again, found.author)) {
			continue
		}
		if author, known := granted[ref.NamespacedName]; known {
			if may, err := r.Review(ctx, author, ref.NamespacedName); may || err != nil {
				continue
			}
		}
		r.renewOne(ctx, found, ref, after)
	}
}

// existingReferences returns the references that the request does not add.
func existingReferences(before, after *provv1.Cluster) []tenancy.Reference {
	added := tenancy.NewReferences(before, after)
	return slices.DeleteFunc(tenancy.References(after), func(ref tenancy.Reference) bool {
		return slices.Contains(added, ref)
	})
}

func (r *reviewer) renewOne(ctx context.Context, found *references, ref tenancy.Reference, cluster *provv1.Cluster) {
	switch may, err := r.Review(ctx, found.author, ref.NamespacedName); {
	case err != nil:
		r.Log.WithError(err).Warn("Cannot review a reference")
		found.warn("%s: Drover could not check whether %s may get Secret %s, so it does not grant the Secret: "+
			"try again", ref.Field, found.author.Username, ref)
	case may:
		found.allowed = append(found.allowed, ref)
	case !r.offered(ref, cluster):
		found.warn("%s: %s may not get Secret %s, so Drover does not grant it: a user who may get the Secret must "+
			"renew; or list %s/%s in annotation %s of the Secret",
			ref.Field, found.author.Username, ref, cluster.Namespace, cluster.Name, rkev1.AuthorizedObjectAnnotation)
	}
}

// aboutLogin is the prefix of extra user attributes for pods, nodes and tokens. They identify a login rather than a
// user.
const aboutLogin = "authentication.kubernetes.io/"

func authorOf(asked admissionv1.AdmissionRequest) tenancy.Author {
	author := tenancy.Author{Username: asked.UserInfo.Username, UID: asked.UserInfo.UID, Groups: asked.UserInfo.Groups}
	for key, values := range asked.UserInfo.Extra {
		if strings.HasPrefix(key, aboutLogin) {
			continue
		}
		if author.Extra == nil {
			author.Extra = map[string][]string{}
		}
		author.Extra[key] = values
	}
	return author
}

// clustersOf reads the metadata of the reviewed objects, which the API server has parsed.
func clustersOf(asked admissionv1.AdmissionRequest) (before, after *provv1.Cluster, err error) {
	for _, one := range []struct {
		raw  []byte
		into **provv1.Cluster
	}{{asked.OldObject.Raw, &before}, {asked.Object.Raw, &after}} {
		if len(one.raw) == 0 {
			continue
		}
		var found metav1.PartialObjectMetadata
		if err := json.Unmarshal(one.raw, &found); err != nil {
			return nil, nil, fmt.Errorf("read the reviewed Cluster: %w", err)
		}
		*one.into = &provv1.Cluster{ObjectMeta: found.ObjectMeta}
	}
	if after != nil { // a new object may leave both to the request
		after.Namespace = asked.Namespace
		after.Name = cmp.Or(after.Name, asked.Name)
	}
	return before, after, nil
}

// readable reads the specs of the Clusters. A new object is reviewed before its schema is validated.
func readable(asked admissionv1.AdmissionRequest, before, after *provv1.Cluster) bool {
	for _, one := range []struct {
		raw  []byte
		into *provv1.Cluster
	}{{asked.OldObject.Raw, before}, {asked.Object.Raw, after}} {
		if one.into == nil {
			continue
		}
		var found struct {
			Spec provv1.ClusterSpec `json:"spec"`
		}
		if json.Unmarshal(one.raw, &found) != nil {
			return false
		}
		one.into.Spec = found.Spec
	}
	return true
}

// offered reports whether a Secret offers itself to the Cluster, whichever user wrote the reference.
func (r *reviewer) offered(ref tenancy.Reference, cluster *provv1.Cluster) bool {
	secret, err := r.Secrets.Get(ref.Namespace, ref.Name)
	return err == nil &&
		tenancy.Offered(secret.Annotations, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
}

func refused(asked admissionv1.AdmissionRequest, because []error) ctrladmission.Response {
	resource := schema.GroupResource{Group: asked.Resource.Group, Resource: asked.Resource.Resource}
	status := apierrors.NewForbidden(resource, asked.Name, errors.Join(because...)).Status()
	return ctrladmission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}

// patched sets the annotation, whatever the request has in it.
func patched(after *provv1.Cluster, want string) ctrladmission.Response {
	has, there := after.Annotations[tenancy.GrantsAnnotation]
	at := "/metadata/annotations/" + strings.ReplaceAll(tenancy.GrantsAnnotation, "/", "~1")
	switch {
	case want == "" && there:
		return ctrladmission.Patched("", jsonpatch.NewOperation("remove", at, nil))
	case want == has:
		return ctrladmission.Allowed("")
	case after.Annotations == nil:
		return ctrladmission.Patched("", jsonpatch.NewOperation("add", "/metadata/annotations",
			map[string]string{tenancy.GrantsAnnotation: want}))
	}
	return ctrladmission.Patched("", jsonpatch.NewOperation("add", at, want))
}
