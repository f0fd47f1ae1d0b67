package clusterproxy

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
)

// Names that Drover assigns downstream. The agent's manifest and users' RBAC refer to them: do not change them.
const (
	// AdminGroup is the group that the agent's manifest binds to cluster-admin downstream.
	AdminGroup = clustermanifest.AdminGroup
	// MachineUserPrefix is the prefix of a cluster's machine identity. NAMESPACE:NAME of its Cluster follow.
	// (docs/wire/endpoints.md#proxy.)
	MachineUserPrefix = "system:provisioning:"
	// ServiceAccountPrefix is the downstream prefix of the management cluster's service accounts. NAMESPACE:NAME
	// follow.
	ServiceAccountPrefix = reservedPrefix + "serviceaccount:"
	// ServiceAccountsGroup is the downstream group of all service accounts of the management cluster. With :NAMESPACE
	// it is the group of one namespace.
	ServiceAccountsGroup = reservedPrefix + "serviceaccounts"
	// SystemUserPrefix replaces "system:" downstream in the names of all other users of the management cluster.
	SystemUserPrefix = reservedPrefix + "user:"

	reservedPrefix = "system:drover:"
	systemPrefix   = "system:"
)

// Identity is the identity of a request, in the management cluster or downstream.
type Identity struct {
	// Name is the user name. It is never empty.
	Name string
	// UID is the user's unique identifier. It is often empty.
	UID string
	// Groups are the user's groups, in their original order.
	Groups []string
	// Extra is further information about the user.
	Extra map[string][]string
}

// info converts the identity to the type of the Kubernetes libraries.
func (i Identity) info() user.Info {
	return &user.DefaultInfo{Name: i.Name, UID: i.UID, Groups: i.Groups, Extra: i.Extra}
}

// identityOf is the reverse of info. It copies everything, so that later changes by the host have no effect.
func identityOf(u user.Info) Identity {
	out := Identity{Name: u.GetName(), UID: u.GetUID(), Groups: slices.Clone(u.GetGroups()),
		Extra: maps.Clone(u.GetExtra())}
	for key, values := range out.Extra {
		out.Extra[key] = slices.Clone(values)
	}
	return out
}

// Caller is the sender of a request.
type Caller struct {
	// Identity is the caller's identity in the management cluster. For a machine it is the downstream identity.
	Identity
	// Machine means that this is the machine identity of Cluster, whose credential Drover has issued.
	Machine bool
	// Cluster is the only cluster that the caller may reach, or empty for no limit.
	Cluster string
}

// isNobody reports whether an identity is anonymous.
func (i Identity) isNobody() bool {
	return i.Name == "" || i.Name == user.Anonymous || slices.Contains(i.Groups, user.AllUnauthenticated)
}

// authenticated adds the group of all authenticated users.
func (i Identity) authenticated() Identity {
	if !slices.Contains(i.Groups, user.AllAuthenticated) {
		i.Groups = append(slices.Clone(i.Groups), user.AllAuthenticated)
	}
	return i
}

// names translates names of the management cluster to downstream names.
type names struct {
	// asked means that the names come from impersonation headers. Names that cannot be passed are then refused instead
	// of omitted.
	asked bool
	// passSystem passes names with a built-in Kubernetes meaning unchanged, except service accounts and Drover's own
	// names.
	passSystem bool
}

// identity translates a complete identity, or returns the refusal.
func (n names) identity(of Identity) (Identity, *refusal) {
	out := Identity{Name: n.user(of.Name), UID: of.UID}
	for _, group := range of.Groups {
		name, ok := n.group(group)
		switch {
		case ok && name != "" && !slices.Contains(out.Groups, name):
			out.Groups = append(out.Groups, name)
		case !ok && n.asked:
			return Identity{}, forbidden("group " + quote(group) + " has another meaning in the cluster, so Drover " +
				"does not forward it")
		}
	}
	for key, values := range of.Extra {
		switch {
		case n.passSystem || !ofKubernetes(key):
			if out.Extra == nil {
				out.Extra = map[string][]string{}
			}
			out.Extra[key] = slices.Clone(values)
		case n.asked:
			return Identity{}, forbidden("extra " + quote(key) + " has another meaning in the cluster, so Drover " +
				"does not forward it")
		}
	}
	return out, nil
}

// user translates a user name. Different names remain different.
func (n names) user(name string) string {
	rest, system := strings.CutPrefix(name, systemPrefix)
	account, isAccount := strings.CutPrefix(name, serviceaccount.ServiceAccountUsernamePrefix)
	switch {
	case !system, n.asked && name == user.Anonymous:
		return name
	case isAccount:
		return ServiceAccountPrefix + account
	case n.passSystem && !reserved(name):
		return name
	}
	return SystemUserPrefix + rest
}

// group translates the name of a group. ok is false if the group is not passed on.
func (n names) group(name string) (translated string, ok bool) {
	switch {
	case name == user.AllAuthenticated || name == user.AllUnauthenticated, n.asked && name == AdminGroup:
		return name, true
	case name == serviceaccount.AllServiceAccountsGroup:
		return ServiceAccountsGroup, true
	case strings.HasPrefix(name, serviceaccount.ServiceAccountGroupPrefix):
		return ServiceAccountsGroup + ":" + strings.TrimPrefix(name, serviceaccount.ServiceAccountGroupPrefix), true
	case reserved(name):
		return "", false
	case strings.HasPrefix(name, systemPrefix), strings.HasPrefix(name, "kubeadm:"):
		return name, n.passSystem
	}
	return name, true
}

// reserved reports whether only Drover may assign a name.
func reserved(name string) bool {
	return strings.HasPrefix(name, reservedPrefix) || strings.HasPrefix(name, MachineUserPrefix)
}

// ofKubernetes reports whether Kubernetes gives the key of an extra a meaning. Such extras describe a credential, a pod
// or a node of the management cluster.
func ofKubernetes(key string) bool {
	domain, _, _ := strings.Cut(strings.ToLower(key), "/")
	for _, own := range []string{"kubernetes.io", "k8s.io"} {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return true
		}
	}
	return false
}

// unfit refuses an identity that headers cannot carry unchanged, and otherwise returns nil. Headers lose blanks at both
// ends of a value, which would change names: the group " system:masters", for example.
func (i Identity) unfit() *refusal {
	part := ""
	switch {
	case i.Name == "" || !holds(i.Name):
		part = "user name"
	case !holds(i.UID):
		part = "UID"
	case !holds(i.Groups...):
		part = "group"
	}
	for key, values := range i.Extra {
		if key == "" || !holds(values...) {
			part = "extra"
		}
	}
	if part == "" {
		return nil
	}
	return forbidden("a header cannot contain the " + part + " of this user: spaces at the ends, control characters, " +
		"invalid UTF-8 and empty names are not allowed")
}

// holds reports whether a header value can carry each of the texts.
func holds(texts ...string) bool {
	for _, text := range texts {
		if strings.TrimSpace(text) != text || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
			return r < ' ' || r == 0x7f
		}) {
			return false
		}
	}
	return true
}
