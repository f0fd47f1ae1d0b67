package clusterproxy

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Names that Drover gives meaning downstream. The agent's manifest and RBAC of users refer to them: do not change them.
const (
	// AdminGroup is the group that the agent's manifest binds to cluster-admin downstream.
	AdminGroup = "system:drover:cluster-admin"
	// MachineUserPrefix is what the user name of a cluster's machine identity begins with; NAMESPACE:NAME of its
	// Cluster follow. (docs/wire/endpoints.md#proxy.)
	MachineUserPrefix = "system:provisioning:"
	// ServiceAccountPrefix is what the user name of a service account of the management cluster begins with downstream; NAMESPACE:NAME follow.
	ServiceAccountPrefix = reservedPrefix + "serviceaccount:"
	// ServiceAccountsGroup is the group of all service accounts of the management cluster downstream, and with :NAMESPACE that of a namespace.
	ServiceAccountsGroup = reservedPrefix + "serviceaccounts"
	// SystemUserPrefix stands downstream where "system:" stands in the name of any other user of the management cluster.
	SystemUserPrefix = reservedPrefix + "user:"

	reservedPrefix = "system:drover:"
	systemPrefix   = "system:"
)

// Identity is who a request is made as: in the management cluster, or downstream.
type Identity struct {
	// Name is the user name. It is never empty.
	Name string
	// UID is the user's unique identifier, which many have none of.
	UID string
	// Groups are the user's groups, in the order they were told.
	Groups []string
	// Extra is what else is known about the user.
	Extra map[string][]string
}

// info is the identity as Kubernetes' libraries know it.
func (i Identity) info() user.Info {
	return &user.DefaultInfo{Name: i.Name, UID: i.UID, Groups: i.Groups, Extra: i.Extra}
}

// identityOf is the opposite of info. What the host does with its own later does not change it.
func identityOf(u user.Info) Identity {
	out := Identity{Name: u.GetName(), UID: u.GetUID(), Groups: slices.Clone(u.GetGroups()), Extra: maps.Clone(u.GetExtra())}
	for key, values := range out.Extra {
		out.Extra[key] = slices.Clone(values)
	}
	return out
}

// Caller is who sent a request.
type Caller struct {
	// Identity is the caller's in the management cluster. That of a machine is the one it has downstream.
	Identity
	// Machine says that this is the machine identity of Cluster, whose credential Drover itself has made.
	Machine bool
	// Cluster is the only cluster that the caller may reach; empty for no such limit.
	Cluster string
}

// isNobody reports whether an identity is that of somebody who did not prove who they are.
func (i Identity) isNobody() bool {
	return i.Name == "" || i.Name == user.Anonymous || slices.Contains(i.Groups, user.AllUnauthenticated)
}

// authenticated adds the group of all who have proved who they are.
func (i Identity) authenticated() Identity {
	if !slices.Contains(i.Groups, user.AllAuthenticated) {
		i.Groups = append(slices.Clone(i.Groups), user.AllAuthenticated)
	}
	return i
}

// names translates names of the management cluster to those that they have downstream.
type names struct {
	// asked says that the names were asked for by impersonation: what cannot be passed is then refused instead of left out.
	asked bool
	// passSystem passes names with a meaning to Kubernetes as they are, but for service accounts and names of Drover's own.
	passSystem bool
}

// identity translates all of an identity, or says what stands in the way.
func (n names) identity(of Identity) (Identity, *refusal) {
	out := Identity{Name: n.user(of.Name), UID: of.UID}
	for _, group := range of.Groups {
		name, ok := n.group(group)
		switch {
		case ok && name != "" && !slices.Contains(out.Groups, name):
			out.Groups = append(out.Groups, name)
		case !ok && n.asked:
			return Identity{}, forbidden("group " + quote(group) + " means something else in the cluster than here and is not passed on")
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
			return Identity{}, forbidden("extra " + quote(key) + " means something else in the cluster than here and is not passed on")
		}
	}
	return out, nil
}

// user translates a user name. Different names stay different.
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

// group translates the name of a group. ok is false if it is not passed on.
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

// reserved reports whether a name is one that only Drover gives.
func reserved(name string) bool {
	return strings.HasPrefix(name, reservedPrefix) || strings.HasPrefix(name, MachineUserPrefix)
}

// ofKubernetes reports whether the key of an extra is one that Kubernetes gives meaning: it tells of a credential, a pod or a node of the management cluster.
func ofKubernetes(key string) bool {
	domain, _, _ := strings.Cut(strings.ToLower(key), "/")
	for _, own := range []string{"kubernetes.io", "k8s.io"} {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return true
		}
	}
	return false
}

// unfit refuses an identity that headers cannot hold as it is; nil when they can. A header loses blanks at both ends of its value, and would turn one name
// into another: " system:masters" among groups, for example.
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
	return forbidden("a header cannot hold the " + part + " of this user as it is: blanks at an end, control characters, bytes that are no UTF-8 and empty names are not passed on")
}

// holds reports whether the value of a header can hold each of the texts.
func holds(texts ...string) bool {
	for _, text := range texts {
		if strings.TrimSpace(text) != text || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return false
		}
	}
	return true
}
