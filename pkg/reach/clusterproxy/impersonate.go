package clusterproxy

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// maxAsked limits the groups and extra values of one request, because the management cluster reviews each.
const maxAsked = 128

// review is one question to the management cluster about the caller's permissions.
type review struct {
	Verb, Group, Version, Resource, Subresource, Namespace, Name string
}

// decision is the downstream identity of a request and its preconditions.
type decision struct {
	// Reviews must all be allowed. They are in the order to ask.
	Reviews []review
	// Asked is the requested identity of the management cluster, or nil without impersonation.
	Asked *Identity
	// As is the downstream identity.
	As Identity
}

// decide derives the downstream identity of a request from its caller and its headers. It trusts the caller's identity
// but not the headers. The reviews of impersonation equal those of a kube-apiserver, in the management cluster.
func decide(caller Caller, in http.Header, passSystem bool) (decision, *refusal) {
	if no := caller.unfit(); no != nil {
		return decision{}, no
	}
	asked, no := askedIdentity(in)
	if no != nil {
		return decision{}, no
	}
	out := decision{Asked: asked, As: caller.Identity}
	switch {
	case asked != nil:
		out.Reviews = reviewsOf(*asked)
		out.As, no = names{asked: true, passSystem: passSystem}.identity(defaultGroups(*asked))
	case !caller.Machine:
		out.As, no = names{passSystem: passSystem}.identity(caller.authenticated())
	}
	if no == nil {
		no = out.As.unfit()
	}
	return out, no
}

// asking is the content of the impersonation headers.
type asking struct {
	Identity
	users, uids []string
	count       int
}

// read reads the impersonation headers.
func (a *asking) read(in http.Header) *refusal {
	for _, header := range slices.Sorted(maps.Keys(in)) {
		kind, found := strings.CutPrefix(strings.ToLower(header), impersonatePrefix)
		if !found {
			continue
		}
		values := in[header]
		a.count += len(values)
		extra, isExtra := strings.CutPrefix(kind, "extra-")
		switch {
		case kind == "user":
			a.users = append(a.users, values...)
		case kind == "uid":
			a.uids = append(a.uids, values...)
		case kind == "group":
			a.Groups = append(a.Groups, values...)
		case isExtra && extra != "":
			a.addExtra(extra, values)
		default:
			return badRequest("header " + quote(header) +
				" is unknown: use Impersonate-User, -Group, -Uid and -Extra-KEY")
		}
	}
	a.Name, a.UID = first(a.users), first(a.uids)
	return nil
}

// askedIdentity is the identity in the impersonation headers, or nil without any.
func askedIdentity(in http.Header) (*Identity, *refusal) {
	var asked asking
	if no := asked.read(in); no != nil {
		return nil, no
	}
	switch {
	case len(asked.users) > 1 || len(asked.uids) > 1:
		return nil, badRequest("headers Impersonate-User and Impersonate-Uid may occur only once")
	case asked.Name != "" && asked.count > maxAsked:
		return nil, badRequest("a request may impersonate at most 128 names")
	case asked.Name != "":
		return &asked.Identity, nil
	case asked.UID != "" || len(asked.Groups) > 0 || asked.Extra != nil:
		return nil, badRequest("impersonation of groups, a UID or extras needs a user: set Impersonate-User")
	}
	return nil, nil
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// addExtra adds one header of extras. Its key is lower-case and percent-encoded. A key that cannot be decoded is used
// as it is.
func (i *Identity) addExtra(encoded string, values []string) {
	key, err := url.PathUnescape(encoded)
	if err != nil {
		key = encoded
	}
	if i.Extra == nil {
		i.Extra = map[string][]string{}
	}
	i.Extra[key] = append(i.Extra[key], values...)
}

// reviewsOf returns the reviews for the impersonation of an identity, one for each name in it.
func reviewsOf(asked Identity) []review {
	reviews := []review{{Verb: "impersonate", Resource: "users", Name: asked.Name}}
	if namespace, name, err := serviceaccount.SplitUsername(asked.Name); err == nil {
		reviews[0] = review{Verb: "impersonate", Resource: "serviceaccounts", Namespace: namespace, Name: name}
	}
	for _, group := range asked.Groups {
		reviews = append(reviews, review{Verb: "impersonate", Resource: "groups", Name: group})
	}
	authentication := authenticationv1.SchemeGroupVersion
	for _, key := range slices.Sorted(maps.Keys(asked.Extra)) {
		for _, value := range asked.Extra[key] {
			reviews = append(reviews, review{
				Verb: "impersonate", Group: authentication.Group, Version: authentication.Version,
				Resource: "userextras", Subresource: key, Name: value,
			})
		}
	}
	if asked.UID != "" {
		reviews = append(reviews, review{Verb: "impersonate", Group: authentication.Group,
			Version: authentication.Version, Resource: "uids", Name: asked.UID})
	}
	return reviews
}

// defaultGroups adds the groups that Kubernetes adds to an impersonated identity.
func defaultGroups(asked Identity) Identity {
	out := asked
	out.Groups = slices.Clone(asked.Groups)
	if namespace, _, err := serviceaccount.SplitUsername(asked.Name); err == nil && len(out.Groups) == 0 {
		out.Groups = serviceaccount.MakeGroupNames(namespace)
	}
	added, instead := user.AllAuthenticated, user.AllUnauthenticated
	if asked.Name == user.Anonymous {
		added, instead = user.AllUnauthenticated, user.AllUnauthenticated
	}
	if !slices.Contains(out.Groups, added) && !slices.Contains(out.Groups, instead) {
		out.Groups = append(out.Groups, added)
	}
	return out
}
