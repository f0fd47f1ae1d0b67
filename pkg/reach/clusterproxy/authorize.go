package clusterproxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// authorizer decides whether a caller may reach a cluster, and whom it may impersonate.
type authorizer struct {
	client  authorizationclient.SubjectAccessReviewInterface
	answers *memo[bool]
	lookup  func(id string) (namespace, name string, ok bool)
	verb    string
	host    Authorizer
}

func newAuthorizer(o Options) *authorizer {
	return &authorizer{
		client: o.AccessReviews, lookup: o.Lookup, verb: o.Verb, host: o.Authorizer,
		answers: newMemo(func(bool) time.Duration { return o.answersFor() }),
	}
}

// access returns nil if a caller may reach a cluster. Otherwise the error is a refusal, or why the answer is unknown.
// Drover reviews missing and existing clusters alike, so that neither the answer nor its time reveals which clusters
// exist.
func (a *authorizer) access(ctx context.Context, caller Caller, id string) error {
	namespace, name, exists := a.lookup(id)
	if caller.Cluster != "" && caller.Cluster != id {
		return noAccess(caller.Name, id)
	}
	if caller.Machine && exists { // its token was verified against this Cluster
		return nil
	}
	if !exists {
		namespace, name = metav1.NamespaceAll, id // a permission in all namespaces includes missing clusters
	}
	allowed, err := a.mayReach(ctx, caller.Identity, id, review{
		Verb: a.verb, Group: provv1.SchemeGroupVersion.Group, Version: provv1.SchemeGroupVersion.Version,
		Resource: "clusters", Namespace: namespace, Name: name,
	})
	switch {
	case err != nil:
		return err
	case !allowed:
		return noAccess(caller.Name, id)
	case !exists:
		return notFound(id)
	}
	return nil
}

func (a *authorizer) mayReach(ctx context.Context, who Identity, id string, question review) (bool, error) {
	if a.host == nil {
		return a.ask(ctx, who, question)
	}
	allowed, err := a.host.CanAccessCluster(ctx, who.info(), id, a.verb)
	if err != nil {
		return false, fmt.Errorf("ask the embedding program whether the caller may reach a cluster: %w", err)
	}
	return allowed, nil
}

// impersonate returns nil if the caller may perform the impersonation that was decided.
func (a *authorizer) impersonate(ctx context.Context, caller Caller, decided decision) error {
	if decided.Asked == nil {
		return nil
	}
	if a.host != nil {
		allowed, err := a.host.CanImpersonate(ctx, caller.info(), decided.Asked.info())
		if err != nil {
			return fmt.Errorf("ask the embedding program whether the caller may impersonate a user: %w", err)
		}
		if !allowed {
			return forbidden("user " + quote(caller.Name) + " may not impersonate user " + quote(decided.Asked.Name))
		}
		return nil
	}
	for _, question := range decided.Reviews {
		allowed, err := a.ask(ctx, caller.Identity, question)
		if err != nil {
			return err
		}
		if !allowed {
			return forbidden("user " + quote(caller.Name) + " may not impersonate " + question.String())
		}
	}
	return nil
}

// String names the subject of a review.
func (r review) String() string {
	text := r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Namespace != "" {
		return text + " " + quote(r.Namespace+"/"+r.Name)
	}
	return text + " " + quote(r.Name)
}

// ask sends a SubjectAccessReview to the management cluster, unless the answer is cached.
func (a *authorizer) ask(ctx context.Context, who Identity, question review) (bool, error) {
	return a.answers.get(ctx, question.key(who), func(ctx context.Context) (bool, error) {
		answer, err := a.client.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: question.spec(who)},
			metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("ask the management cluster whether a request is allowed: %w", err)
		}
		return answer.Status.Allowed && !answer.Status.Denied, nil
	})
}

// spec returns the review as a SubjectAccessReviewSpec.
func (r review) spec(who Identity) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.Name, UID: who.UID, Groups: who.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Group, Version: r.Version, Resource: r.Resource, Subresource: r.Subresource,
			Namespace: r.Namespace, Name: r.Name,
		},
	}
	for key, values := range who.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	return spec
}

// key is a unique key for the review and the caller. Each list starts with its number of texts, and each text with its
// length.
func (r review) key(who Identity) string {
	var key []byte
	list := func(texts ...string) {
		key = append(strconv.AppendInt(key, int64(len(texts)), 10), ',')
		for _, text := range texts {
			key = append(strconv.AppendInt(key, int64(len(text)), 10), ':')
			key = append(key, text...)
		}
	}
	list(r.Verb, r.Group, r.Version, r.Resource, r.Subresource, r.Namespace, r.Name, who.Name, who.UID)
	list(who.Groups...)
	for _, name := range slices.Sorted(maps.Keys(who.Extra)) {
		list(name)
		list(who.Extra[name]...)
	}
	return string(key)
}
