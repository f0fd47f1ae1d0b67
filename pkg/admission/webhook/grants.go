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

// GrantsPath is where references to Secrets of other namespaces are reviewed, followed by what Word returns. The answer is signed in the
// name of the user that the review tells of, so nobody but the API server must get one: the word is known to those only who may read
// webhook configurations, which are administrators, and to those who read the API server's log, where it stands with every call that failed.
// So it is another one every hour.
const GrantsPath = "/admission/grants/"

const (
	wordLasts = time.Hour
	// wordOverlaps is for how long the words of the hour before and of the next one are known, too: until the API server has been told, and for
	// clocks that differ.
	wordOverlaps = 10 * time.Minute
)

// Word is the last part of the path of reviews of references at that time, made from the key that signs grants.
func Word(key []byte, at time.Time) string {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s%d", GrantsPath, at.Truncate(wordLasts).Unix()) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil))
}

// knows reports that a word is one of this time.
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
		// The key is there once the caches are filled.
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

// reviewsLast is for how long the API server is asked what an author may, in one review: less than it waits itself, for without an answer
// everything would pass, grants of others included.
const reviewsLast = 3 * time.Second

// grant refuses new references that their author may not write, and leaves a grant for each of the others. Whatever else becomes of a request, and
// whosever the Cluster is: no grant gets into it that was neither there before nor made here, unless who is trusted brings it with a released Cluster.
func (r *reviewer) grant(ctx context.Context, asked admissionv1.AdmissionRequest) (ctrladmission.Response, error) {
	if asked.Resource.Group != provv1.SchemeGroupVersion.Group || asked.Resource.Resource != "clusters" || asked.SubResource != "" {
		return ctrladmission.Allowed(""), nil
	}
	before, after, err := clustersOf(asked)
	if err != nil || after == nil {
		return ctrladmission.Allowed(""), err
	}
	if !readable(asked, before, after) {
		return patched(after, ""), nil // the schema will say what is wrong; nothing can be granted for it
	}
	found := references{author: authorOf(asked), granted: before}
	ctx, cancel := context.WithTimeout(ctx, reviewsLast)
	defer cancel()
	if admission.Ours(r.InstanceID, before, after) {
		r.keep(ctx, &found, before, after)
		r.reviewNew(ctx, &found, before, after)
		r.renew(ctx, &found, before, after)
	} else if asksToRenew(after) {
		found.warn("%s: the Cluster is not managed by this Drover, or is being deleted: nothing is granted", tenancy.GrantsAnnotation)
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

// references are what is found out about those of one Cluster.
type references struct {
	author tenancy.Author
	// granted is the Cluster whose good grants stay: what it was before, or a released one as it comes.
	granted *provv1.Cluster
	// kept are the grants that a released one brings, where they stay.
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

// keep lets a released Cluster keep the good grants that it brings, with their authors: whether these still may is asked every minute, as ever.
// What somebody else brings may be what was taken from their Cluster before.
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
		found.warn("%s: whether %s may create clusters.management.cattle.io could not be found out, so the grants that the Cluster brings are not kept: "+
			"once it is adopted, let those who may get its Secrets %s", tenancy.GrantsAnnotation, found.author.Username, renewAdvice)
	case admission.Untrusted:
	}
}

// reviewNew reviews the references that the request adds, and that no grant is kept for.
func (r *reviewer) reviewNew(ctx context.Context, found *references, before, after *provv1.Cluster) {
	for _, ref := range tenancy.NewReferences(before, after) {
		if _, granted := found.kept[ref.NamespacedName]; granted {
			continue
		}
		may, err := r.Review(ctx, found.author, ref.NamespacedName)
		offered := r.offered(ref, after)
		switch {
		case err != nil && !offered:
			r.Log.WithError(err).Warn("A reference could not be reviewed")
			found.warn("%s: whether %s may get Secret %s could not be found out, so it is not used yet: %s", ref.Field, found.author.Username, ref, renewAdvice)
		case may && after.Name == "" && !offered:
			found.refuse("%s: a Cluster that names Secret %s of another namespace needs a name, for which it is granted: set metadata.name instead of "+
				"metadata.generateName, or list %s/* in annotation %s of the Secret", ref.Field, ref, after.Namespace, rkev1.AuthorizedObjectAnnotation)
		case may && after.Name != "":
			found.allowed = append(found.allowed, ref)
		case !may && !offered:
			found.denied(ref, before, after)
		}
	}
}

// denied refuses a reference that its author may not write. A released Cluster comes all the same: nobody can correct it in the middle of a restore
// or a move, and without a grant nothing is used.
func (f *references) denied(ref tenancy.Reference, before, after *provv1.Cluster) {
	offer := fmt.Sprintf("list %s/%s in annotation %s of the Secret", after.Namespace, cmp.Or(after.Name, "*"), rkev1.AuthorizedObjectAnnotation)
	if admission.Released(before, after) {
		f.warn("%s: %s may not get Secret %s, so it is not used yet: once the Cluster is adopted, let somebody who may get it %s, or %s",
			ref.Field, f.author.Username, ref, renewAdvice, offer)
		return
	}
	f.refuse("%s: %s may not get Secret %s: let somebody who may get it write this, or %s", ref.Field, f.author.Username, ref, offer)
}

const renewAdvice = "set annotation " + tenancy.GrantsAnnotation + " of the Cluster to " + tenancy.Renew

func asksToRenew(cluster *provv1.Cluster) bool {
	return cluster.Annotations[tenancy.GrantsAnnotation] == tenancy.Renew
}

// renew makes the user the author of references that stood before and have no good grant, when the request asks for it. One that the user may not
// write either stays without a grant, and is no reason to refuse the others.
func (r *reviewer) renew(ctx context.Context, found *references, before, after *provv1.Cluster) {
	if before == nil {
		return // all of them are new
	}
	asks := asksToRenew(after)
	if asks && asksToRenew(before) {
		// Who finds the wish there did not make it: others, controllers too, write the same Cluster.
		found.warn("%s: it was set to %s while nobody could review it: set it again", tenancy.GrantsAnnotation, tenancy.Renew)
		return
	}
	granted, brought := tenancy.Grants(before, r.Key()), tenancy.Grants(after, r.Key())
	for _, ref := range standing(before, after) {
		// A request that another webhook has changed is reviewed once more, with what was granted at first instead of the wish.
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

// standing are the references that the request does not add.
func standing(before, after *provv1.Cluster) []tenancy.Reference {
	added := tenancy.NewReferences(before, after)
	return slices.DeleteFunc(tenancy.References(after), func(ref tenancy.Reference) bool { return slices.Contains(added, ref) })
}

func (r *reviewer) renewOne(ctx context.Context, found *references, ref tenancy.Reference, cluster *provv1.Cluster) {
	switch may, err := r.Review(ctx, found.author, ref.NamespacedName); {
	case err != nil:
		r.Log.WithError(err).Warn("A reference could not be reviewed")
		found.warn("%s: whether %s may get Secret %s could not be found out, so it is not granted: try again", ref.Field, found.author.Username, ref)
	case may:
		found.allowed = append(found.allowed, ref)
	case !r.offered(ref, cluster):
		found.warn("%s: %s may not get Secret %s, so it is not granted: let somebody who may get it renew, or list %s/%s in annotation %s of the Secret",
			ref.Field, found.author.Username, ref, cluster.Namespace, cluster.Name, rkev1.AuthorizedObjectAnnotation)
	}
}

// aboutLogin begins the extra attributes of users by which authentication tells pods, nodes and tokens: they say which login this was, not who.
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

// clustersOf reads the metadata of what is reviewed, which the API server has read itself.
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

// readable reads what is wanted of the Clusters. A new object comes here before anybody has held it against the schema.
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

// offered reports that a Secret lets the Cluster use it, whoever wrote the reference.
func (r *reviewer) offered(ref tenancy.Reference, cluster *provv1.Cluster) bool {
	secret, err := r.Secrets.Get(ref.Namespace, ref.Name)
	return err == nil && tenancy.Offered(secret.Annotations, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
}

func refused(asked admissionv1.AdmissionRequest, because []error) ctrladmission.Response {
	resource := schema.GroupResource{Group: asked.Resource.Group, Resource: asked.Resource.Resource}
	status := apierrors.NewForbidden(resource, asked.Name, errors.Join(because...)).Status()
	return ctrladmission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}

// patched makes the annotation what it has to be, whatever the request says in it.
func patched(after *provv1.Cluster, want string) ctrladmission.Response {
	has, there := after.Annotations[tenancy.GrantsAnnotation]
	at := "/metadata/annotations/" + strings.ReplaceAll(tenancy.GrantsAnnotation, "/", "~1")
	switch {
	case want == "" && there:
		return ctrladmission.Patched("", jsonpatch.NewOperation("remove", at, nil))
	case want == has:
		return ctrladmission.Allowed("")
	case after.Annotations == nil:
		return ctrladmission.Patched("", jsonpatch.NewOperation("add", "/metadata/annotations", map[string]string{tenancy.GrantsAnnotation: want}))
	}
	return ctrladmission.Patched("", jsonpatch.NewOperation("add", at, want))
}
